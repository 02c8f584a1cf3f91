"""A reader of own factors: what debris is, what is accepted, its error, and the one command."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dataset_files import COLOURS, SHAPES, write_images
from recombine import zoo
from recombine.__main__ import main
from recombine.checkpoint import Checkpoint
from recombine.measure.composition import Composition
from recombine.measure.held_out_error import HeldOutError, halves, lowest
from recombine.measurement import Measurement
from recombine.models.probe import Probe, ProbeReader
from recombine.objectives.classification import Classification
from recombine.results import read
from recombine.scene import Factor
from recombine.spelling import spelled
from recombine.split import Split
from recombine.train import Step, Weights
from recombine.worlds.files.debris import KINDS, broken, every_kind
from recombine.worlds.files.images import ImageFolder
from subjects import Model, training

CPU = torch.device("cpu")
FACTORS = (Factor("shape", SHAPES), Factor("colour", COLOURS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("own") / "images", 20)


# Debris


def made(kind: str, images: torch.Tensor, concepts: torch.Tensor | None = None) -> torch.Tensor:
    rows = torch.arange(len(images))[:, None] if concepts is None else concepts
    return broken(kind, images, rows, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 13])
def test_debris_is_an_image_of_its_own_and_leaves_the_image_as_it_is(kind: str, size: int):
    images = torch.rand(6, 3, size, size)
    before = images.clone()
    found = made(kind, images)
    assert found.shape == images.shape
    assert 0 <= found.min() <= found.max() <= 1
    assert ((found - images).abs().flatten(1).mean(dim=1) > 0.02).all()
    assert torch.equal(images, before)


def test_a_blur_keeps_the_mean_of_each_cell():
    images = torch.rand(2, 3, 4, 4)
    assert torch.equal(made("blurred", images), images)
    stripes = torch.tensor([0.0, 1.0]).repeat(8).expand(1, 3, 16, 16)
    assert torch.allclose(made("blurred", stripes), torch.tensor(0.5))


@pytest.mark.parametrize("size", [8, 10])
def test_shuffled_patches_are_whole_and_all_there(size: int):
    images = torch.rand(3, 3, size, size)
    found = made("shuffled", images)

    def patches(image: torch.Tensor) -> set[tuple[float, ...]]:
        whole = [image[:, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2] for r in range(4) for c in range(4)]
        return {tuple(each.flatten().tolist()) for each in whole}

    for image, shuffled in zip(images, found, strict=True):
        assert patches(image) == patches(shuffled)
    assert torch.equal(found[:, :, 8:], images[:, :, 8:])
    assert not torch.equal(found[0], made("shuffled", images.flip(0))[2])


def test_noise_covers_at_least_seven_tenths():
    images = torch.zeros(200, 3, 8, 8)
    spread = made("noise", images).amax(dim=(1, 2, 3))
    assert spread.min() > 0.6
    assert spread.max() > 0.9


def test_a_mixture_is_of_two_compositions():
    """Image i is i / 10 everywhere: of a and b in shares of .35 to .65."""
    images = (torch.arange(4) / 10)[:, None, None, None].expand(-1, 3, 4, 4)
    concepts = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 0]])
    found = made("mixed", images, concepts)[:, 0, 0, 0]
    share = (found - images[:, 0, 0, 0]) / (0.2 - images[:, 0, 0, 0])
    assert ((share[[0, 1, 3]] > 0.349) & (share[[0, 1, 3]] < 0.651)).all()
    assert not 0.199 < found[2] < 0.201


def test_where_all_are_of_one_composition_a_mixture_is_empty():
    images = torch.rand(3, 3, 5, 5)
    one = torch.zeros(3, 2).long()
    assert torch.equal(made("mixed", images, one), made("empty", images, one))
    colour = images.flatten(2).median(dim=2).values
    assert torch.equal(made("empty", images, one)[:, :, 2, 3], colour)


def test_every_kind_is_learned_from_in_turn():
    images = torch.rand(10, 3, 8, 8)
    found = every_kind(images, torch.arange(10)[:, None], torch.Generator())
    assert torch.equal(found[[0, 5]], made("blurred", images)[[0, 5]])
    assert torch.equal(found[[4, 9]], made("empty", images)[[4, 9]])


def test_debris_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="debris is one of blurred, shuffled, .*; got 'torn'"):
        made("torn", torch.rand(1, 3, 8, 8))


# The reader


def test_below_the_threshold_it_says_none_of_these():
    """The last logit is doubt: .5 and 1.5 are valid from a threshold of -.5 and -1.5 on."""
    logits = torch.tensor([[0.1, 0.9, 3.0, 1.0, 2.0, 0.5], [1.0, 0.9, 0.0, 1.0, 2.0, 1.5]])
    of = Probe(8, (Factor("a", ("x", "y")), Factor("b", ("x", "y", "z"))), rejects=True)
    reader, images = ProbeReader(lambda seen: logits, of, -1.0), torch.zeros(2, 3, 8, 8)
    assert reader(images).rows.tolist() == [[1, 0], [-1, -1]]
    assert reader(images).concepts.tolist() == [[1, 0], [0, 2]]
    assert not ProbeReader(lambda seen: logits, of)(images).valid.any()
    assert replace(reader, threshold=-0.5)(images).valid.tolist() == [True, False]
    assert replace(reader, threshold=-1.5)(images).valid.tolist() == [True, True]


def test_fingerprints_of_older_probes_stay():
    assert "own_debris" not in spelled(Classification())
    assert "own_debris=True" in spelled(Classification(own_debris=True))


def test_the_loss_of_rejection_is_that_of_telling_images_from_debris():
    """Doubts of -1 for images and 2 for debris, by the order of the two calls."""
    answers = [torch.tensor([[0.0, 0.0, -1.0]]), torch.tensor([[0.0, 0.0, 2.0]])]

    def network(images: torch.Tensor) -> torch.Tensor:
        return answers.pop(0).expand(len(images), -1)

    true = torch.zeros(5, 1).long()
    objective = Classification((2,), own_debris=True)
    loss = objective(network, torch.rand(5, 3, 8, 8), true, generator=torch.Generator())
    odds = torch.tensor([1.0, 2.0]).neg().exp().log1p().mean()
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item() + odds.item(), rel=1e-5)


def test_it_learns_to_refuse_in_a_few_steps(folder: Path):
    world, of = ImageFolder(folder, size=12), Probe(12, FACTORS, width=8, rejects=True)
    weights = Weights.of(of.build(), ema=0.9)
    objective = Classification(tuple(of.counts), own_debris=True)
    step = Step(weights, objective, 1.0, torch.Generator().manual_seed(0))
    step.set_rate(3e-3)
    for number in range(80):
        scenes = world.scenes(torch.arange(32) + 32 * number, seed=0)
        step(world.image(scenes), scenes.concepts[:, 0])
    reader = ProbeReader(weights.denoiser, of)
    tested = replace(world, part="test")
    images, true = tested.image_of(torch.arange(24)), tested.scenes_of(torch.arange(24))
    assert (reader(images).rows == true.concepts[:, 0]).float().mean() > 0.8
    for kind in ("noise", "empty"):
        assert reader(made(kind, images, true.concepts[:, 0])).valid.float().mean() < 0.1


# Its error


@pytest.mark.parametrize(
    ("values", "accepted", "expected"),
    [
        # The k-th smallest of 9, 19 and 99 where .9 are to be accepted: the 1st, 2nd and 10th.
        (range(-9, 0), 0.9, -9),
        (range(-19, 0), 0.9, -18),
        (range(-99, 0), 0.9, -90),
        (range(-99, 0), 0.99, -99),
        (range(-5, 0), 0.99, -5),
        # Never above 0.
        (range(1, 100), 0.9, 0),
    ],
)
def test_the_threshold_is_the_value_that_theory_says(values: Any, accepted: float, expected: float):
    shuffled = torch.tensor([*values]).float()[torch.randperm(len(values))]
    assert lowest(shuffled, accepted) == expected


def test_new_images_are_accepted_as_often_as_promised():
    """Over many draws, a new value lies above the threshold with probability .9."""
    rng = torch.Generator().manual_seed(0)
    draws = torch.randn(4000, 40, generator=rng) - 9
    held = [float(row[-1]) >= lowest(row[:-1], 0.9) for row in draws]
    assert 0.885 < sum(held) / len(held) < 0.915


def test_half_of_the_images_calibrate_and_the_others_are_reported():
    known, rest = halves(7, None, CPU)
    assert (known.tolist(), rest.tolist()) == ([0, 2, 4, 6], [1, 3, 5])
    known, rest = halves(100, 10, CPU)
    assert sorted([*known.tolist(), *rest.tolist()]) == [*range(0, 100, 10)]
    with pytest.raises(ValueError, match="2 images for testing are needed or more; got 1"):
        halves(1, None, CPU)


@dataclass(frozen=True)
class Known(Probe):
    """A probe that reads colours, holds every shape for a disc, and refuses what is grey."""

    def factor_reader(self, network: object) -> ProbeReader:
        def answer(images: torch.Tensor) -> torch.Tensor:
            ink = 1 - images.amin(dim=1).flatten(1).amin(dim=1)
            middle = images[:, [2, 1, 0], 8, 8]
            shape = torch.tensor([1.0, 0.0]).expand(len(images), -1)
            return torch.cat([shape, middle, 2 - ink[:, None] * 4], dim=1)

        return ProbeReader(answer, self)


def error(folder: Path, **settings: Any) -> Any:
    of = Known(16, FACTORS, rejects=True)
    subject = Model(training(world=ImageFolder(folder, size=16), network=of))
    return HeldOutError(**settings)(subject, torch.Generator().manual_seed(0))


def test_the_error_is_of_each_factor_with_its_interval(folder: Path):
    """24 test images, of which 12 are reported: half of them squares."""
    found = error(folder).measurements
    assert found["error@shape"] == Measurement.rate(6, 12)
    assert found["error@colour"] == Measurement.rate(0, 12)
    assert found["error"] == Measurement.rate(6, 12)
    assert found["accepted"] == Measurement.rate(12, 12)
    assert found["rejected@empty"] == Measurement.rate(12, 12)
    assert found["rejected@shuffled"] == Measurement.rate(0, 12)
    refused = sum(round(found[f"rejected@{kind}"].value * 12) for kind in KINDS)
    assert found["rejected"] == Measurement.rate(refused, 60)
    assert found["threshold"] == Measurement(0.0, None, None, 12)


def test_what_few_images_cannot_promise_is_an_alarm(folder: Path):
    assert error(folder).alarms == (
        "12 images decide what is accepted; 99 are needed to promise 0.99 of new images",
    )
    assert error(folder, accepted=0.9).alarms == ()
    assert error(folder, most=4).measurements["error"].n == 2
    assert HeldOutError().tiny().most == 32


def test_an_error_is_of_readers_that_refuse_and_of_files():
    of, generator = Probe(), torch.Generator()
    with pytest.raises(ValueError, match="on readers that can refuse an image; got Probe"):
        HeldOutError()(Model(training(world=None, network=of)), generator)
    refusing = Model(training(world=None, network=replace(of, rejects=True)))
    with pytest.raises(ValueError, match="on files with labels; got NoneType"):
        HeldOutError()(refusing, generator)
    with pytest.raises(ValueError, match="between 0 and 1; got 1"):
        HeldOutError(accepted=1.0)


# The command


@pytest.fixture(scope="module")
def probe(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a probe, hardly trained."""
    out = tmp_path_factory.mktemp("probe") / "my_probe"
    words = [str(folder), "--out", str(out), "--size", "12", "--width", "4"]
    assert main(["probe", *words, "--device", "cpu", "--tiny", "--tested", "0.5"]) == 0
    return out


def again(folder: Path, probe: Path, *words: str) -> int:
    fixed = ["--size", "12", "--width", "4", "--device", "cpu", "--tiny", "--tested", "0.5"]
    return main(["probe", str(folder), "--out", str(probe), *fixed, *words])


def test_one_command_leaves_a_probe_and_its_record(probe: Path, folder: Path):
    (path,) = probe.rglob("results.csv")
    (results,) = read(path)
    names = {row.measurement for row in results.rows}
    assert {"error@shape", "error@colour", "accepted", "rejected@mixed", "threshold"} < names
    fixed = f"recombine probe {folder} --out {probe} --size 12 --tested 0.5 --width 4 --tiny"
    assert results.origin.command == fixed
    facts = Checkpoint.load(probe / "probe.safetensors").facts
    assert facts["probe"]["factors"] == [["shape", [*SHAPES]], ["colour", [*COLOURS]]]


def test_the_same_command_says_the_same_again(
    probe: Path, folder: Path, capsys: pytest.CaptureFixture[str]
):
    before = Checkpoint.load(probe / "probe.safetensors").checksum
    assert again(folder, probe, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["subject"] == str(probe / "probe.safetensors")
    (path,) = probe.rglob("results.csv")
    kept = {row.measurement: row.value for row in read(path)[0].rows if row.step is None}
    assert {name: each["value"] for name, each in printed["measurements"].items()} == kept
    assert Checkpoint.load(probe / "probe.safetensors").checksum == before


@pytest.mark.parametrize("named", ["the folder", "the file"])
def test_a_probe_is_a_reader_by_its_path(named: str, probe: Path, folder: Path):
    reader = zoo.reader(str(probe if named == "the folder" else probe / "probe.safetensors"), CPU)
    assert reader.factors == FACTORS
    measured = Checkpoint.load(probe / "probe.safetensors").facts["measured"]
    assert reader.threshold == measured["threshold"][0]
    images = ImageFolder(folder, size=12, tested=0.5, part="test")
    rest = halves(len(images), 32, CPU)[1]
    accepted = reader(images.image_of(rest)).valid
    assert int(accepted.sum()) == round(measured["accepted"][0] * len(rest))


def test_composition_of_own_images_is_read_by_an_own_probe(probe: Path, folder: Path):
    split = Split("mine", FACTORS, (("disc", "red"), ("square", "red"), ("disc", "blue")))
    world = ImageFolder(folder, size=12, tested=0.5)
    drawn = world.image_of(torch.arange(12))
    subject = Model(training(world=world), draw=lambda condition, generator: drawn)
    subject.training.conditioner = FixedConditioner()
    found = Composition(split, samples=2, reader=str(probe))(subject, torch.Generator())
    assert found.measurements["accuracy_ceiling@level0"].n == 6
    other = Split("other", FACTORS[:1] + (Factor("colour", ("red", "blue")),), split.seen)
    with pytest.raises(ValueError, match="a split of the world's own factors"):
        Composition(other, samples=2, reader=str(probe))(subject, torch.Generator())
    subject.readers = {"probe": ProbeReader(None, Probe())}
    with pytest.raises(ValueError, match="reads other factors than the split: shape: circle, tri"):
        Composition(split, samples=2)(subject, torch.Generator())


class FixedConditioner:
    """Writes the concepts as they are."""

    def encode(self, scenes: Any) -> torch.Tensor:
        return scenes.concepts[:, 0]

    def for_sampling(self, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return condition


def test_another_table_is_another_probe(
    probe: Path, folder: Path, tmp_path: Path, refused: Callable[..., str]
):
    (tmp_path / "other.csv").write_text((folder / "labels.csv").read_text() + "\n")
    words = ["--size", "12", "--width", "4", "--device", "cpu", "--tiny", "--tested", "0.5"]
    table = ["--labels", str(tmp_path / "other.csv")]
    message = refused("probe", str(folder), "--out", str(probe), *words, *table)
    assert "belongs to another training: it differs in world" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["."], "labels.csv is missing: a table of file and factors"),
        ([".", "--fit", "pad"], "fit is one of crop, stretch; got 'pad'"),
        ([".", "--labels", "bad.csv"], "bad.csv: line 2: nothing.png is missing"),
        ([], "FOLDER is missing"),
    ],
)
def test_wrong_use_is_said_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("file,shape\nnothing.png,disc\n")
    assert message in refused("probe", *words).replace("./", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prob", "reader 'prob' is not one of .*and no path of a probe of yours"),
        ("nowhere/probe.safetensors", "probe.safetensors is not there; expected a probe"),
    ],
)
def test_a_reader_that_there_is_not_is_named(name: str, message: str):
    with pytest.raises(ValueError, match=message):
        zoo.reader(name, CPU)


def test_other_weights_are_no_probe():
    with pytest.raises(ValueError, match="is not a probe; expected a file that recombine probe"):
        zoo.reader(str(zoo.path("detector")), CPU)


STUDY = """
from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import Composition
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.split import Split
from recombine.study import Cell, study
from recombine.training import Budget, Training
from recombine.worlds.files.images import ImageFolder
from dataclasses import replace

images = ImageFolder("images", size=12, tested=0.5)
seen = (("disc", "red"), ("square", "red"), ("disc", "blue"))
split = Split("mine", images.factors, seen, left_out=(("square", "green"),))
network = DiT(3, 12, patch=4, entry=Vector(8), width=8, layers=1, heads=1)
condition = Conditioner(all_objects, Labels((2, 3)))
training = Training(replace(images, among=seen), network, Budget(4, 8), condition)
STUDY = study("Mine?", Cell(training, measures=(Composition(split, 2, reader="my_probe"),)), {})
"""


def test_own_images_are_trained_on_and_read_by_an_own_probe(
    folder: Path,
    probe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").symlink_to(folder)
    (tmp_path / "my_probe").symlink_to(probe)
    (tmp_path / "my_images.py").write_text(STUDY)
    assert main(["run", "my_images.py", "--seed", "0", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert found["accuracy@level1"]["n"] == 4
    assert found["accuracy_ceiling@level0"]["n"] == 6
    (results,) = read(tmp_path / "runs/my_images/base/seed0/results.csv")
    assert {row.reader for row in results.rows if "@" in row.measurement} == {"my_probe"}
