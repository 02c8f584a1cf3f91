"""Codes that models draw where they never saw them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import asked
from torch import Tensor, nn

from recombine import run
from recombine.checkpoint import checkpoints
from recombine.commands.run import seeded
from recombine.experiment import Experiment, Trained
from recombine.experiments import drawn_places, still
from recombine.experiments.code_places import CodePlaces
from recombine.experiments.drawn_places import DrawnPlaces
from recombine.report.record import Record
from recombine.report.table import variant
from recombine.split import BINARY

CPU = torch.device("cpu")
FEW = DrawnPlaces(samples=4, renders=256)


@dataclass(frozen=True)
class Drawing(Trained):
    """A model that draws this, whatever it is told."""

    answer: Tensor = torch.zeros(0)

    def drawn(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        return self.answer


def drawing(experiment: Experiment, drawn: Tensor) -> Drawing:
    return Drawing(experiment, nn.Identity(), CPU, answer=drawn)


def renders(view: Any, which: tuple[tuple[str, ...], ...]) -> Tensor:
    """Return true renders of compositions as a view has them."""
    many = CodePlaces("", still.vq.world, still.maskgit.view, renders=4, samples=4)
    ids = torch.cat([many.ids(each, 4, CPU) for each in which])
    if view == still.maskgit.view:
        return ids
    return drawn_places.tokenizer(view.name, view.of, CPU).vectors(ids) / view.spread


@pytest.mark.parametrize("name", ["maskgit", "vq"])
def test_who_draws_true_renders_has_their_share_and_who_repeats_what_was_seen_has_none(name: str):
    experiment = getattr(still, name)
    rng = torch.Generator().manual_seed(0)
    true = renders(experiment.view, BINARY.asked)
    found = FEW(drawing(experiment, true), rng).measurements
    assert 0.3 < found["drawn_unseen_place@level2"].value < 0.5
    assert found["drawn_unseen_place@level0"].value < 0.05
    repeated = renders(experiment.view, (BINARY.seen[0],) * len(BINARY.asked))
    found = FEW(drawing(experiment, repeated), rng).measurements
    assert found["drawn_unseen_place@level2"].value < 0.05
    assert found["drawn_unseen_place@level2"].n == 4


def test_vectors_between_codes_count_as_the_nearest():
    true = renders(still.vq.view, BINARY.asked)
    near = true + 1e-4 * torch.randn(true.shape, generator=torch.Generator().manual_seed(1))
    exact, moved = (drawn_places.ids_of(still.vq, each) for each in (true, near))
    assert torch.equal(exact, moved)
    assert torch.equal(exact, renders(still.maskgit.view, BINARY.asked))


def test_latents_have_no_places_of_codes():
    with pytest.raises(ValueError, match="asked of models on codes; got Latents"):
        FEW(drawing(still.kl, torch.zeros(32, 8, 7, 7)), torch.Generator())
    with pytest.raises(ValueError, match="2 samples or more; got 1"):
        DrawnPlaces(samples=1)


def test_drawn_is_what_becomes_an_image():
    plan = seeded("still", "maskgit", [1], True, {})[0]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = plan.experiment.denoiser()
    trained = Trained(plan.experiment, network, CPU)
    told = plan.experiment.conditioner.encode(
        replace(plan.experiment.world, among=()).scenes(torch.arange(2), 0)
    )
    ids = trained.drawn(told, torch.Generator().manual_seed(0))
    assert ids.shape == (2, 7, 7)
    images = trained.images(told, torch.Generator().manual_seed(0))
    assert torch.equal(images, plan.experiment.view.back(ids))


def test_weights_are_asked_what_another_experiment_asks_of_the_same_model(tmp_path: Path):
    (plan,) = seeded("still", "maskgit", [1], True, {"steps": 2})
    run.run(plan, run.machine(CPU), run.Settings(tmp_path))
    weights = checkpoints(plan.folder(tmp_path))[0]
    asked.main(tmp_path / "record.json", weights, "drawn_places:maskgit")
    record = Record.load(tmp_path / "record.json")
    assert record.command.startswith("python benchmarks/asked.py ")
    assert record.command.endswith(f" {weights.name} drawn_places:maskgit")
    assert (record.seed, variant(record)) == (1, "maskgit")
    assert record.headline == ("drawn_unseen_place@level2", "drawn_unseen_place@level0")
    with pytest.raises(ValueError, match="is of still:maskgit, not the model of drawn_places:vq"):
        asked.main(tmp_path / "other.json", weights, "drawn_places:vq")
    with pytest.raises(ValueError, match="expected a folder to write"):
        asked.main(tmp_path / "no" / "other.json", weights, "drawn_places:maskgit")
    assert not (tmp_path / "other.json").exists()
