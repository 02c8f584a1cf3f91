"""A checkpoint is whole, its own and unchanged, or it is refused in one line."""

import errno
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from recombine.checkpoint import Checkpoint, unpack_average
from recombine.denoiser import Preconditioned
from recombine.models.mlp import MLP
from recombine.objectives.diffusion import Diffusion
from recombine.run.state import POINTS, Metrics, checkpoints, packed, path_of, tidy, unpack
from recombine.train import Step, Weights

EMPTY = hashlib.sha256(b"").hexdigest()
FACTS = {"step": 3, "stream": {"seed": 1}}


def weights(width: int = 8, layers: int = 2) -> Weights:
    return Weights.of(Preconditioned(MLP(2, 0, width, layers).build()), ema=0.5)


def trained(steps: int = 3) -> tuple[Weights, dict[str, torch.Generator]]:
    generators = {name: torch.Generator().manual_seed(7) for name in ("noise", "condition")}
    made = weights()
    step = Step(made, Diffusion(), 1.0, generators["noise"])
    step.set_rate(1e-2)
    for _ in range(steps):
        step(torch.ones(4, 2, 1, 1), torch.zeros(4, 0))
    return made, generators


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = path_of(tmp_path, 3)
    Checkpoint(packed(*trained()), FACTS).save(path)
    return path


def test_everything_comes_back_to_the_bit(saved: Path):
    tensors = packed(*trained())
    checkpoint = Checkpoint.load(saved)
    assert checkpoint.facts == FACTS
    blank, generators = weights(), {name: torch.Generator() for name in ("noise", "condition")}
    unpack(checkpoint.tensors, blank, generators)
    restored = packed(blank, generators)
    assert set(restored) == set(tensors)
    assert same(restored, dict(checkpoint.tensors))


def test_moments_lie_in_memory_as_their_weights_do():
    """A fused step on a GPU refuses anything else: no run that had been stopped could go on."""

    def convolution() -> Weights:
        made = Weights.of(torch.nn.Conv2d(3, 4, 3), ema=0.5)
        made.denoiser.to(memory_format=torch.channels_last)
        return made

    before, after, none = convolution(), convolution(), dict[str, torch.Generator]()
    before.denoiser(torch.randn(2, 3, 8, 8)).square().sum().backward()
    before.optimizer.step()
    tensors = {name: value.contiguous() for name, value in packed(before, none).items()}
    unpack(tensors, after, none)
    weight, state = after.denoiser.weight, after.optimizer.state
    assert not weight.is_contiguous()
    for name in ("exp_avg", "exp_avg_sq"):
        assert state[weight][name].stride() == weight.stride()
        assert torch.equal(
            state[weight][name], before.optimizer.state[before.denoiser.weight][name]
        )


def test_the_average_can_be_had_alone(saved: Path):
    denoiser = weights().denoiser
    tensors = Checkpoint.load(saved).tensors
    unpack_average(tensors, denoiser)
    for name, value in denoiser.state_dict().items():
        assert torch.equal(value, tensors[f"average/{name}"])
        assert not torch.equal(value, tensors[f"network/{name}"])


def test_a_truncated_file_is_refused(saved: Path):
    saved.write_bytes(saved.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{saved.name} is not a whole checkpoint"):
        Checkpoint.load(saved)
    saved.write_bytes(b"")
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        Checkpoint.load(saved)
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        Checkpoint.load(saved.with_name("checkpoint-9.safetensors"))


def test_a_changed_weight_or_fact_is_noticed(saved: Path):
    content = saved.read_bytes()
    for old, new in ((content[-5:], content[-5:-1] + bytes([content[-1] ^ 1])), (b"3,", b"4,")):
        assert old in content
        saved.write_bytes(new.join(content.rsplit(old, 1)))
        with pytest.raises(ValueError, match="changed since it was written"):
            Checkpoint.load(saved)


def test_other_safetensors_are_not_checkpoints(tmp_path: Path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not a checkpoint of a run"):
        Checkpoint.load(tmp_path / "other.safetensors")


def test_weights_of_another_network_are_named(saved: Path):
    tensors = Checkpoint.load(saved).tensors
    generators = {name: torch.Generator() for name in ("noise", "condition")}
    wide = weights(width=9)
    before = {name: value.clone() for name, value in wide.denoiser.state_dict().items()}
    with pytest.raises(ValueError, match=r"network/\S+ has the shape .*this network needs"):
        unpack(tensors, wide, generators)
    assert same(before, dict(wide.denoiser.state_dict()))
    with pytest.raises(ValueError, match="is missing: the weights are of another network"):
        unpack(tensors, weights(layers=3), generators)
    with pytest.raises(ValueError, match="is not part of this network"):
        unpack(tensors, weights(layers=1), generators)
    with pytest.raises(ValueError, match="has the shape"):
        unpack_average(tensors, wide.denoiser)


def test_a_full_disk_leaves_the_checkpoint_before(saved: Path, monkeypatch: pytest.MonkeyPatch):
    content = saved.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    later = Checkpoint(packed(*trained(1)), {"step": 4})
    with pytest.raises(OSError, match=r"checkpoint-4\S+ cannot be written: No space left"):
        later.save(path_of(saved.parent, 4))
    with pytest.raises(OSError, match="checkpoint-3"):
        later.save(saved)
    assert saved.read_bytes() == content
    assert list(saved.parent.iterdir()) == [saved]


def test_a_new_name_is_on_disk_before_anything_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced, fsync = [], os.fsync

    def noted(handle: int) -> None:
        names = {path.suffix for path in tmp_path.iterdir()}
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), names))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    Checkpoint({"a": torch.zeros(1)}, {}).save(path_of(tmp_path, 1))
    assert synced == [(False, {".partial"}), (True, {".safetensors"})]


def test_the_last_two_stay_and_what_was_being_written_goes(tmp_path: Path):
    for step in (5, 30, 100):
        Checkpoint({"a": torch.zeros(1)}, {"step": step}).save(path_of(tmp_path, step))
    (tmp_path / ".checkpoint-120.safetensors.0a1b.partial").write_bytes(b"half")
    (tmp_path / "checkpoint-best.safetensors").write_bytes(b"not ours")
    assert [path.stem for path in checkpoints(tmp_path)] == [
        f"checkpoint-{n}" for n in (100, 30, 5)
    ]
    tidy(tmp_path)
    kept = {
        "checkpoint-30.safetensors",
        "checkpoint-100.safetensors",
        "checkpoint-best.safetensors",
    }
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_metrics_forget_what_came_after_a_checkpoint(tmp_path: Path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.append([{"step": step, "loss": 0.1 * step} for step in (1, 2, 3)])
    metrics.append([{"step": 3, "measurements": {"error": [0.5, 0.4, 0.6, 7]}}])
    whole, state = metrics.path.read_text(), metrics.state
    metrics.append([{"step": 4, "loss": 0.25}])
    with metrics.path.open("a") as file:
        file.write('{"step": 5, "lo')
    metrics.keep(state)
    assert metrics.path.read_text() == whole
    assert [json.loads(line)["step"] for line in whole.splitlines()] == [1, 2, 3, 3]
    assert metrics.curves()["error"] == [[3, 0.5, 0.4, 0.6, 7]]
    assert Metrics(tmp_path / "none.jsonl").state == {"lines": 0, "digest": EMPTY}


def test_metrics_that_a_checkpoint_does_not_know_are_refused(tmp_path: Path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.append([{"step": step, "loss": 0.1 * step} for step in (1, 2, 3)])
    state, lines = metrics.state, metrics.path.read_text().splitlines(keepends=True)
    for changed in ([], lines[:2], [lines[1], lines[0], lines[2]]):
        metrics.path.write_text("".join(changed))
        with pytest.raises(ValueError, match=r"was changed since .* of the 3 lines"):
            metrics.keep(state)
        assert metrics.path.read_text() == "".join(changed)


def test_the_loss_is_kept_in_bins(tmp_path: Path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    steps = 2 * POINTS
    metrics.append([{"step": step, "loss": float(step)} for step in range(1, steps + 1)])
    loss = metrics.curves()["loss"]
    assert len(loss) == POINTS
    assert loss[0] == [2, 1.5]
    assert loss[-1] == [steps, steps - 0.5]
