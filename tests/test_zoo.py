"""Shipped weights: packed, refused, found again, and the same as those of the run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from recombine import load, zoo
from recombine.checkpoint import Checkpoint
from recombine.models.detector import Detector
from recombine.results import read
from recombine.run import plan_of
from recombine.run.kept import Kept
from recombine.run.state import checkpoints
from small_zoo import NAME, STUDY, shipped, use

SHIPPED = zoo.names()
SHARES = {
    "length": (("grid_all", "grid_one", "grid_one_local"), 22_000_000),
    "readers and tokenizers": (("detector", "probe", "tokenizer_kl", "tokenizer_vq"), 6_000_000),
    "coverage": (("dit", "maskgit", "maskgit_squared", "maskgit_jepa"), 10_000_000),
}
"""What may be shipped, and how many bytes of it (docs/decisions)."""


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
    (found,) = read(folder / "results.csv")
    measured = Kept.of(found, folder).measurements
    return zoo.ship(Checkpoint.load(checkpoints(folder)[0]), measured, "grid_all", to)


def spoiled(folder: Path, **tensors: torch.Tensor) -> None:
    """Write the run's checkpoint again with some tensors replaced or added."""
    (path,) = checkpoints(folder)
    whole = Checkpoint.load(path)
    named = {f"average/{name}": value for name, value in tensors.items()}
    Checkpoint({**whole.tensors, **named}, whole.facts).save(path)


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
    assert (facts["study"], facts["cell"], facts["seed"]) == (NAME, "grid_one", 0)
    assert facts["digest"] == STUDY.cells["grid_one"].training.digest
    assert not {"stream", "metrics"} & facts.keys()
    assert facts["measured"]["steps"] == [2, None, None, 1]


def test_shipped_weights_are_measured_as_the_run_was(runs: Path, monkeypatch: pytest.MonkeyPatch):
    use(runs / "zoo", monkeypatch)
    model = load("zoo:grid_all")
    found = model.found(model.cell.measures).measurements
    (results,) = read(runs / NAME / "grid_all" / "seed0" / "results.csv")
    kept = Kept.of(results, runs).measurements
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
    with pytest.raises(ValueError, match="zoo:grid_all is not there: the zoo is empty"):
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


@pytest.mark.parametrize("share", SHARES)
def test_the_zoo_is_light_to_clone_and_every_share_is_kept(share: str):
    names, most = SHARES[share]
    sizes = {name: zoo.path(name).stat().st_size for name in names}
    assert max(sizes.values()) <= (2_500_000 if share == "coverage" else zoo.LARGEST), sizes
    assert sum(sizes.values()) <= most


def test_nothing_else_is_shipped():
    assert set(SHIPPED) == {name for names, _ in SHARES.values() for name in names}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_are_of_the_training_as_it_is_declared(name: str):
    """A new field that is spelled would make every weight before it another training's."""
    path = zoo.path(name)
    facts, plan = zoo.load(name).facts, plan_of(path)
    assert not facts["tiny"]
    assert not facts["overrides"]
    assert facts["digest"] == plan.trained.training.digest
    plan.check(facts, path)
    assert load(f"zoo:{name}").seed == facts["seed"]


def test_a_view_depends_on_the_weights_of_its_tokenizer_and_not_on_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = plan_of(zoo.path("maskgit"))
    digest = plan.trained.training.digest
    for name in ("tokenizer_vq", "renamed", "other"):
        shutil.copy(zoo.path("tokenizer_vq"), tmp_path / f"{name}.safetensors")
    whole = Checkpoint.load(tmp_path / "other.safetensors")
    key = next(iter(whole.tensors))
    Checkpoint({**whole.tensors, key: whole.tensors[key] + 1}, whole.facts).save(
        tmp_path / "other.safetensors"
    )
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    training = plan.trained.training
    digests = {
        name: replace(training, view=replace(training.view, name=name)).digest
        for name in ("renamed", "other")
    }
    assert digests["renamed"] == digest
    assert digests["other"] != digest
