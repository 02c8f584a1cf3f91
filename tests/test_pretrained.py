"""Models as folders: the same bits again, the record on the card, and nothing in them trusted."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from torch import Tensor, nn

import recombine
from recombine import Model, studies, zoo
from recombine import __main__ as command_line
from recombine.data import batch_of
from recombine.objectives.jepa import JepaObjective
from recombine.run.declared import as_data, from_data
from recombine.run.record import Record
from recombine.spelling import spelled
from recombine.study import Cell
from toy_runs import toy

CELLS = {
    f"{name}:{key}": cell
    for name in studies.names()
    for key, cell in studies.load(name).cells.items()
    if isinstance(cell, Cell)
}


@pytest.fixture(scope="module")
def saved(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's model as a folder."""
    folder = tmp_path_factory.mktemp("saved") / "toy"
    recombine.load(str(toy().folder(whole))).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(saved, tmp_path / "toy"))


def outputs(model: Model) -> list[Tensor]:
    """Everything that the network answers while its objective is computed once."""
    training, found = model.training, []
    network = model.denoiser
    assert isinstance(network, nn.Module)
    # Enough images for a codebook, and few of the larger ones.
    images = torch.arange(8 if training.world.size < 64 else 2)
    batch = batch_of(training.world, images, seed=5)
    generator = torch.Generator().manual_seed(3)
    condition = training.conditioner(batch.scenes, generator)
    jepa = {"average": network} if isinstance(training.objective, JepaObjective) else {}

    def note(module: nn.Module, words: tuple[Any, ...], answer: Any) -> None:
        found.extend([answer] if isinstance(answer, Tensor) else [])

    hooks = [each.register_forward_hook(note) for each in network.modules()]
    with torch.no_grad():
        seen = training.view(batch.image)
        found.append(training.objective(network, seen, condition, generator=generator, **jepa))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("name", CELLS)
def test_a_declared_cell_is_the_same_value_after_json(name: str):
    cell = CELLS[name]
    again = from_data(json.loads(json.dumps(as_data(cell), allow_nan=False)))
    assert again == cell
    assert spelled(again) == spelled(cell)
    assert type(again.training.world) is type(cell.training.world)


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), 0.1, 1, 1.0, True, None, (), Path("a")]
)
def test_numbers_and_their_kinds_are_kept(value: Any):
    again = from_data(json.loads(json.dumps(as_data((value,)), allow_nan=False)))
    assert again == (value,)
    assert type(again[0]) is type(value)


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_model_is_the_same_to_the_last_bit_from_its_folder(name: str, tmp_path: Path):
    model = recombine.load(f"zoo:{name}")
    model.save_pretrained(tmp_path / name)
    files = {path.name for path in (tmp_path / name).iterdir()}
    assert files == {"config.json", "model.safetensors", "README.md"}
    # Shipped weights are in half precision, and are kept so.
    size = (tmp_path / name / "model.safetensors").stat().st_size
    assert size <= 1.2 * zoo.path(name).stat().st_size
    again = Model.from_pretrained(tmp_path / name)
    assert again.cell == model.cell
    assert again.seed == model.seed
    assert again.record == model.record
    assert again.record.measured.keys() == zoo.load(name).facts["measured"].keys()
    ours, theirs = outputs(model), outputs(again)
    assert len(ours) > 1
    assert len(ours) == len(theirs)
    assert all(map(torch.equal, ours, theirs))


def measured(subject: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert command_line.main(["measure", str(subject), "--json"]) == 0
    return {**json.loads(capsys.readouterr().out), "subject": ""}


def test_a_folder_is_loaded_and_measured_like_the_run_it_is_from(
    saved: Path, whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    run = toy().folder(whole)
    model, again = recombine.load(str(run)), recombine.load(str(saved))
    assert again.record == model.record
    assert len(model.record.measured) > 0
    assert sorted(model.record.command.split()) == sorted(toy().command.split())
    assert measured(saved, capsys) == measured(run, capsys)
    # It says all itself: the study need not be there.
    monkeypatch.setattr(studies, "load", lambda name: pytest.fail("the study is not needed"))
    assert recombine.load(str(saved)).record == model.record


def test_full_precision_is_kept_where_half_would_lose(saved: Path, whole: Path):
    ours = recombine.load(str(toy().folder(whole))).denoiser.state_dict()
    again = recombine.load(str(saved)).denoiser.state_dict()
    assert any(not torch.equal(value.half().float(), value.float()) for value in ours.values())
    assert all(torch.equal(value, again[name]) for name, value in ours.items())


def test_numbers_of_an_early_checkpoint_are_not_those_of_the_end(whole: Path):
    early = toy().folder(whole) / "checkpoint-10.safetensors"
    assert recombine.load(str(early)).record.measured == {}


def test_the_card_says_what_the_record_knows(saved: Path, whole: Path):
    record = recombine.load(str(toy().folder(whole))).record
    card = ModelCard((saved / "README.md").read_text())
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "recombine")
    found = {each.metric_type: each for each in card.data.eval_results}
    assert found.keys() == record.measured.keys()
    for name, each in record.measured.items():
        assert found[name].metric_value == each.value
        known = {"low": each.low, "high": each.high, "n": each.n, "seed": 0}
        assert found[name].metric_args == {k: v for k, v in known.items() if v is not None}
        assert f"| {name} | " in card.text
    for words in (record.title, record.question, record.command, "## Limits", "Apache-2.0"):
        assert words in card.text
    assert "trained for seconds" in card.text


def test_a_hub_model_is_loaded_from_the_cache_without_a_network(saved: Path, tmp_path: Path):
    place, revision = tmp_path / "models--me--toy", "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(saved, place / "snapshots" / revision)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(revision)
    model = Model.from_pretrained("me/toy", cache_dir=tmp_path, local_files_only=True)
    assert model.record == recombine.load(str(saved)).record


def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(saved: Path, tmp_path: Path):
    model = recombine.load(str(saved))
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        model.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "mine"


@dataclass(frozen=True)
class Own:
    """A network that is not of this package."""

    def build(self) -> nn.Module:
        return nn.Linear(1, 1)


def test_what_is_not_of_this_package_is_refused_and_nothing_is_written(saved: Path, tmp_path: Path):
    model = recombine.load(str(saved))
    cell = replace(model.cell, training=replace(model.training, network=Own()))
    with pytest.raises(ValueError, match=r"values of recombine only; got Own\(\) of \w+\.Own"):
        replace(model, cell=cell).save_pretrained(tmp_path / "own")
    with pytest.raises(ValueError, match="of a network; this model is a function"):
        replace(model, denoiser=lambda x, sigma, condition: x).save_pretrained(tmp_path / "own")
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_record_has_a_card_that_says_so(saved: Path, tmp_path: Path):
    replace(recombine.load(str(saved)), record=Record()).save_pretrained(tmp_path / "bare")
    assert "Nothing was measured of it." in (tmp_path / "bare" / "README.md").read_text()
    assert recombine.load(str(tmp_path / "bare")).record == Record()


def spoil(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def declared(*path: str, **new: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets fields of a declared value."""

    def change(config: dict[str, Any]) -> None:
        value = config["declared"]
        for name in path:
            value = value[name]
        value.update(new)

    return change


SPOILED = {
    "no such class": (
        declared("training", "world", **{"is": "recombine.worlds.clevr.Clever"}),
        "'recombine.worlds.clevr.Clever' is not a class that",
    ),
    "no such module": (
        declared("training", "world", **{"is": "recombine.worlds.mars.Mars"}),
        "'recombine.worlds.mars.Mars' is not a class that",
    ),
    "not ours": (
        declared("training", "network", **{"is": "subprocess.Popen"}),
        "'subprocess.Popen' is not a class that",
    ),
    "not declared there": (
        declared("training", "network", **{"is": "recombine.worlds.files.folder.Path"}),
        "folder.Path' is not a class that",
    ),
    "not a value": (
        declared("training", "network", **{"is": "recombine.train.OneStep"}),
        "recombine.train.OneStep is not a declared value",
    ),
    "a function of another chapter": (
        declared("training", "budget", decay={"function": "recombine.report.files.write_text"}),
        "'recombine.report.files.write_text' is not a function that",
    ),
    "a function of the system": (
        declared("training", "budget", decay={"function": "os.system"}),
        "'os.system' is not a function that",
    ),
    "a private function": (
        declared("training", "budget", decay={"function": "recombine.study._rows"}),
        "'recombine.study._rows' is not a function that",
    ),
    "no such field": (
        declared("training", "budget", stepz=5),
        "recombine.training.Budget has no field 'stepz'; it has steps, batch",
    ),
    "a wrong value": (declared("training", "budget", steps=0), "steps and batch are at least 1"),
    "a wrong kind": (declared("training", "budget", steps="many"), "Budget cannot be made of"),
    "another training": (
        declared("training", "budget", steps=13),
        "belongs to another training: it differs in budget",
    ),
    "a value without a name": (
        declared("training", budget={"steps": 5}),
        "expected a value with its name under 'is'; got the keys steps",
    ),
    "missing": (
        lambda config: config["declared"]["training"]["budget"].pop("steps"),
        "recombine.training.Budget needs its field 'steps', which is missing",
    ),
    "another seed": (lambda config: config["run"].update(seed=4), "it differs in seed"),
    "no cell": (
        lambda config: config.update(declared=config["declared"]["training"]["budget"]),
        "declares a Budget; expected a Cell",
    ),
    "another format": (lambda config: config.update(format=2), "has format 2; this recombine"),
    "another record": (lambda config: config["run"].update(author="me"), "a record has the fields"),
    "a broken number": (
        lambda config: config["run"].update(measured={"x": {"value": 1, "low": 2}}),
        "a record has the fields",
    ),
    "no config of ours": (lambda config: config.pop("declared"), "is not the config of a model"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_config_is_not_trusted(
    what: str, folder: Path, refused: Callable[..., str], unhooked: None
):
    change, message = SPOILED[what]
    spoil(folder, change)
    assert message in refused("measure", str(folder))


def test_broken_files_are_named(folder: Path, refused: Callable[..., str]):
    (folder / "config.json").write_text("{")
    assert "config.json: cannot be read: " in refused("measure", str(folder))
    (folder / "config.json").unlink()
    assert "has no checkpoint" in refused("measure", str(folder))
