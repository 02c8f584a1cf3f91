"""What runs need, and how long they take, is said before anything starts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dataset_files
from recombine import __main__ as command_line
from recombine import run, studies, zoo
from recombine.commands import run as command
from recombine.run import estimate, needs
from recombine.run.state import path_of
from toy_runs import CELL, STEPS, ran, toy

CELEBA = "tokenizers:vq-celeba", "tokenizers:kl-celeba"


def planned(text: str) -> list[run.Plan]:
    return [run.planned(name, studies.load(name), key) for name, key in studies.chosen(text)]


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_pictures_that_are_missing_are_named_with_every_cell_that_needs_them(
    refused: Callable[..., str],
):
    said = refused("run", "toy", "tokenizers", "--tiny")
    assert said == (
        f"{', '.join(CELEBA)}: celeba is expected in celeba "
        "(celeba/img_align_celeba is not a folder; img_align_celeba is missing)"
    )


def test_everything_that_is_missing_is_said_at_once(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "zoo")
    said = refused("run", CELEBA[0], "coverage:maskgit-fixed", "--tiny")
    first, *others = said.split("; ")
    assert first.startswith(f"{CELEBA[0]}: celeba is expected in celeba (")
    assert any(
        "the tokenizer zoo:tokenizer_vq is not there: train tokenizers:vq" in each
        for each in others
    )
    lacking = "composition needs the reader zoo:probe, which is not there"
    assert others[-1] == f"coverage:maskgit-fixed: {lacking}"


def test_a_tokenizer_is_made_by_a_cell_of_its_kind_and_world():
    view = planned("coverage:maskgit-fixed")[0].trained.training.view
    assert needs.maker(view, "shapes2d") == "tokenizers:vq"
    (faces,) = planned("tokenizers:kl-celeba")
    of_faces = replace(view, of=faces.trained.training.network)
    assert needs.maker(of_faces, "celeba") == "tokenizers:kl-celeba"
    unknown = replace(view, of=replace(view.of, width=7))
    assert needs.maker(unknown, "celeba") == "a tokenizer of this kind"


def test_nothing_is_missing_where_it_is_there():
    assert [
        fault
        for plan in planned("coverage:dit-fixed") + planned("readers")
        for fault in needs.missing(plan)
    ] == []
    (plan,) = planned(CELEBA[0])
    assert len(list(needs.missing(plan))) == 1
    dataset_files.write_celeba(Path("celeba"))
    training = plan.trained.training
    here = replace(training, world=replace(training.world, tested=(0, 0)))
    found = replace(plan, declared=replace(plan.trained, training=here))
    assert list(needs.missing(found)) == []


class Clock:
    """A clock that is one tick later each time it is read."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def perf_counter(self) -> float:
        self.now += self.tick
        return self.now


def test_a_step_of_many_images_takes_as_much_longer_as_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(estimate, "time", Clock(3.0))
    budget = toy().trained.training.budget
    for batch, expected in ((8, 3.0), (estimate.MOST, 3.0), (5 * estimate.MOST, 15.0)):
        training = replace(toy().trained.training, budget=replace(budget, batch=batch))
        assert estimate.step_seconds(training) == expected


def test_the_warm_up_uses_up_no_random_number_and_leaves_nothing():
    before = torch.get_rng_state()
    assert estimate.step_seconds(toy().trained.training) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    "name", ["coverage:maskgit-jepa-fixed-small", "readers:probe", "tokenizers:vq"]
)
def test_every_kind_of_training_has_a_warm_up(name: str, monkeypatch: pytest.MonkeyPatch):
    (plan,) = planned(name)
    # Also one that needs more images than a warm-up has: two do not fill a codebook.
    monkeypatch.setattr(estimate, "MOST", 2 if name == "tokenizers:vq" else estimate.MOST)
    assert estimate.step_seconds(plan.trained.training) > 0


def test_only_steps_that_are_left_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(estimate, "time", Clock(2.0))
    plans = [toy(seed) for seed in (0, 1, 0)]
    # The same folder is trained once.
    assert estimate.seconds(plans, tmp_path) == 2 * STEPS * 2.0
    ran(tmp_path, plans[0])
    assert estimate.seconds(plans, tmp_path) == STEPS * 2.0
    plans[1].folder(tmp_path).mkdir(parents=True)
    for step in (5, 10):
        path_of(plans[1].folder(tmp_path), step).touch()
    assert estimate.seconds(plans, tmp_path) == 2 * 2.0


def test_days_on_a_cpu_take_yes_and_less_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["run", f"toy:{CELL}", "--steps", "3", "--batch", "8", "--device", "cpu", "--seed", "0"]
    monkeypatch.setattr(estimate, "time", Clock(command.A_DAY))
    assert command_line.main(words) == 2
    assert capsys.readouterr().err == (
        "recombine: the training takes about 3.0 days on this CPU: add --yes to start it all the "
        "same, or use a GPU, --tiny or fewer --steps\n"
    )
    assert list(tmp_path.iterdir()) == []
    options = command.RunOptions(("toy",), device="cpu", out=tmp_path, yes=True)
    command.say_how_long([toy()], options)
    assert "takes about 12.0 days on this CPU, without the meas" in capsys.readouterr().err
    careful = replace(options, yes=False)
    monkeypatch.setattr(estimate, "time", Clock(0.9 * command.A_DAY / STEPS))
    command.say_how_long([toy()], careful)
    assert "takes about 21.6 h on this CPU, without" in capsys.readouterr().err
    monkeypatch.setattr(estimate, "time", Clock(command.A_DAY / STEPS))
    with pytest.raises(ValueError, match=r"about 24.0 h on this CPU: add --yes"):
        command.say_how_long([toy()], careful)


def test_a_gpu_and_a_tiny_run_need_no_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr(estimate, "time", Clock(command.A_DAY))
    monkeypatch.setattr(command.choice, "chosen_device", torch.device)
    for tiny, device in ((True, "cpu"), (False, "cuda")):
        options = command.RunOptions(("toy",), tiny, device=device, out=tmp_path)
        command.say_how_long([toy()], options)
    assert capsys.readouterr().err == ""


def test_a_tokenizer_below_its_ceiling_takes_a_yes(refused: Callable[..., str]):
    """The shipped VQ tokenizer keeps too few of one composition; --tiny is for trying."""
    said = refused("run", "coverage:maskgit")
    assert said.startswith("tokenizer_vq keeps only 0.875 of the images of one composition")
    assert said.endswith("; --yes trains all the same")
    assert needs.check_ceiling(planned("coverage:dit_kl")) is None
    with pytest.raises(ValueError, match=r"keeps only 0\.297"):
        needs.check_ceiling(planned("coverage:maskgit-fixed"))
