"""Shipped weights: packed, refused, found again, and the same as those of the run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import Checkpoint, checkpoints
from recombine.commands.measure import plan_of
from recombine.experiments import declared
from recombine.models.detector import Detector
from recombine.report.record import Record
from small_zoo import NAME, VARIANTS, shipped, use

SHIPPED = zoo.names()
needs_weights = pytest.mark.skipif(not SHIPPED, reason="no weights are shipped yet")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and a zoo beside them that holds both."""
    out = tmp_path_factory.mktemp("runs")
    shipped(out, out / "zoo", ("grid_all", "grid_one"))
    return out


@pytest.fixture
def run_folder(runs: Path, tmp_path: Path) -> Path:
    """A copy of a run that a test may spoil."""
    return Path(shutil.copytree(runs / NAME / "grid_all" / "seed0", tmp_path / "run"))


def ship(folder: Path, to: Path) -> Path:
    return zoo.ship(checkpoints(folder)[0], folder / "record.json", "grid_all", to)


def spoiled(folder: Path, **tensors: torch.Tensor) -> None:
    """Write the run's checkpoint again with some tensors replaced or added."""
    (path,) = checkpoints(folder)
    whole = Checkpoint.load(path)
    named = {f"average/{name}": value for name, value in tensors.items()}
    Checkpoint({**whole.tensors, **named}, whole.facts).save(path)


@needs_weights
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_are_of_the_experiment_as_it_is_declared_now(name: str):
    """A new field that is spelled would make every weight before it another experiment's."""
    path = zoo.path(name)
    plan_of(path).check(Checkpoint.load(path).facts, path)


def test_only_the_averaged_weights_are_shipped_in_half_precision(runs: Path):
    packed = zoo.load("grid_all", runs / "zoo")
    (path,) = checkpoints(runs / NAME / "grid_all" / "seed0")
    whole = Checkpoint.load(path)
    average = {name for name in whole.tensors if name.startswith("average/")}
    assert packed.tensors.keys() == average
    assert len(average) < len(whole.tensors)
    for name, value in packed.tensors.items():
        assert value.dtype == torch.float16
        assert torch.equal(value, whole.tensors[name].half())


def test_what_is_shipped_says_which_run_it_is_from(runs: Path):
    facts = zoo.load("grid_one", runs / "zoo").facts
    assert (facts["name"], facts["variant"], facts["seed"]) == (NAME, "grid_one", 0)
    assert facts["digest"] == VARIANTS["grid_one"].digest
    assert "stream" not in facts
    assert zoo.record("grid_one", runs / "zoo").command.endswith(":grid_one --seed 0")


def test_shipped_weights_are_measured_as_the_run_was(runs: Path, monkeypatch: pytest.MonkeyPatch):
    use(runs / "zoo", monkeypatch)
    path = zoo.path("grid_all")
    plan = plan_of(path)
    trained = runner.loaded(plan, path, runner.machine(torch.device("cpu")))
    found = runner.measured(trained, plan.seed).measurements
    kept = Record.load(runs / NAME / "grid_all" / "seed0" / "record.json").measurements
    assert found.keys() == kept.keys()
    # Half precision moves the weights by a part in two thousand.
    assert found["count@1"].value == pytest.approx(kept["count@1"].value, abs=1e-2)


def test_names_are_those_of_the_files_and_the_nearest_is_suggested(runs: Path):
    assert zoo.names(runs / "zoo") == ["grid_all", "grid_one"]
    with pytest.raises(
        ValueError,
        match=r"^zoo:gird_all is not one of grid_all, grid_one; did you mean grid_all\?$",
    ):
        zoo.path("gird_all", runs / "zoo")


def test_an_empty_zoo_says_so(tmp_path: Path):
    with pytest.raises(ValueError, match="zoo:grid_all is not there: no weights are shipped yet"):
        zoo.load("grid_all", tmp_path)
    with pytest.raises(ValueError, match="zoo:detector is not there"):
        zoo.detector(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), 1e6])
def test_weights_that_half_precision_cannot_hold_are_refused(value, run_folder, tmp_path):
    (path,) = checkpoints(run_folder)
    name, weights = next(
        (name.removeprefix("average/"), weights)
        for name, weights in Checkpoint.load(path).tensors.items()
        if name.startswith("average/")
    )
    spoiled(run_folder, **{name: torch.full_like(weights, value)})
    with pytest.raises(ValueError, match=f"average/{name} is not finite in half precision"):
        ship(run_folder, tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


def test_weights_that_would_weigh_the_repository_down_are_refused(run_folder, tmp_path):
    spoiled(run_folder, much=torch.zeros(zoo.LARGEST // 2))
    with pytest.raises(ValueError, match=r"grid_all takes 8,\d+,\d+ bytes; .* take 8,000,000"):
        ship(run_folder, tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"command": "recombine run length_generalization:grid_one --seed 0"}, "command"),
        ({"experiment": "Experiment(world=Clevr(), budget=Budget())"}, "world, network, budget"),
    ],
)
def test_a_record_of_another_run_is_refused(change, named, run_folder, tmp_path):
    path = run_folder / "record.json"
    replace(Record.load(path), **change).save(path)
    with pytest.raises(ValueError, match=f"of another run: it differs in {named}"):
        ship(run_folder, tmp_path)


def test_a_record_whose_questions_were_put_anew_is_shipped(run_folder, tmp_path):
    path = run_folder / "record.json"
    record = Record.load(path)
    asked = record.experiment.replace("samples=3", "samples=300")
    assert asked != record.experiment
    replace(record, experiment=asked).save(path)
    assert ship(run_folder, tmp_path) == tmp_path / "grid_all.safetensors"
    assert zoo.record("grid_all", tmp_path).experiment == asked


def detector_file(folder: Path) -> dict[str, torch.Tensor]:
    """Ship a detector with weights drawn at random that sees things everywhere."""
    network = Detector().build()
    torch.nn.init.normal_(network.outlet.weight)
    weights = {f"average/{name}": value.half() for name, value in network.state_dict().items()}
    Checkpoint(weights, {"name": "detector"}).save(folder / "detector.safetensors")
    return weights


def test_the_detector_is_read_once_and_reads_with_its_threshold(tmp_path: Path):
    detector_file(tmp_path)
    reader, images = zoo.detector(tmp_path), torch.rand(2, 3, 64, 64)
    found = reader(images)
    assert len(found) == 2
    assert found.count.sum() > 0
    assert (replace(reader, threshold=1.0)(images).count < found.count).all()
    (tmp_path / "detector.safetensors").unlink()
    assert torch.equal(reader(images).place, found.place)


def test_a_detector_of_another_network_is_refused_at_once(tmp_path: Path):
    weights = detector_file(tmp_path)
    missing = dict(list(weights.items())[1:])
    Checkpoint(missing, {"name": "detector"}).save(tmp_path / "detector.safetensors")
    with pytest.raises(ValueError, match="the weights are of another network"):
        zoo.detector(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path):
    (tmp_path / "grid_all.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="grid_all.safetensors is not a whole checkpoint"):
        zoo.load("grid_all", tmp_path)
    save_file({"average/x": torch.zeros(1)}, tmp_path / "grid_one.safetensors")
    with pytest.raises(ValueError, match="it has no facts or checksum"):
        zoo.load("grid_one", tmp_path)


# What is in the repository


@needs_weights
def test_the_zoo_is_light_to_clone():
    sizes = {name: zoo.path(name).stat().st_size for name in SHIPPED}
    assert max(sizes.values()) <= zoo.LARGEST, sizes
    assert sum(sizes.values()) <= zoo.LARGEST_TOTAL


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_are_of_the_experiment_as_it_is_declared(name: str):
    facts = zoo.load(name).facts
    experiment = declared()[facts["name"]][facts["variant"]]
    assert not facts["tiny"]
    if not facts["overrides"]:
        assert facts["digest"] == experiment.digest
    record = zoo.record(name)
    assert record.command == plan_of(zoo.path(name)).command
    assert record.seed == facts["seed"]
    plan = plan_of(zoo.path(name))
    runner.loaded(plan, zoo.path(name), runner.machine(torch.device("cpu")))


def test_a_record_lies_in_the_zoo_or_among_the_results_and_not_in_both():
    """Twice, it would count as two seeds."""
    results = Path(__file__).parents[1] / "results"
    there = {Record.load(path).command for path in results.rglob("*.json")}
    assert not [name for name in zoo.names() if zoo.record(name).command in there]
