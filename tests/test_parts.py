"""A measurement that is stopped goes on, and ends in the numbers of one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recombine import __main__ as command_line
from recombine.measure.ablation import Locality
from recombine.measure.locality import LevelInfluence
from recombine.run import Model, load
from recombine.run.parts import Parts, stoppable

OF = (torch.arange(3), torch.ones(2))
WORDS = [
    *("measure", "zoo:grid_all", "--what", "length", "--objects", "1-2", "--samples", "40"),
    *("--steps", "1", "--device", "cpu", "--json"),
]


def refused() -> dict[str, Tensor]:
    raise AssertionError("this part is kept")


def test_a_part_is_made_once_and_found_under_what_it_was_made_of(tmp_path: Path):
    parts = Parts(tmp_path / "measured" / "one")
    assert parts.count == 0
    made = parts(OF, lambda: {"b": torch.tensor([0.1, torch.nan]), "a": torch.arange(2).byte()})
    assert [*made] == ["a", "b"]
    again = Parts(parts.folder)(OF, refused)
    assert [*again] == ["a", "b"]
    torch.testing.assert_close(again, made, rtol=0, atol=0, equal_nan=True)
    assert again["a"].dtype == torch.uint8
    for other in ((OF[0] + 1, OF[1]), (OF[0].float(), OF[1]), OF[:1], OF[::-1]):
        assert parts(other, lambda: {"a": torch.zeros(1)})["a"].tolist() == [0]
    assert parts.count == 5
    parts.forget()
    parts.forget()
    assert not list(tmp_path.iterdir())


def test_forgetting_leaves_the_parts_of_others(tmp_path: Path):
    for name in ("one", "other"):
        Parts(tmp_path / "measured" / name)(OF, lambda: {"a": torch.zeros(1)})
    Parts(tmp_path / "measured" / "one").forget()
    assert Parts(tmp_path / "measured" / "other").count == 1


def test_a_part_that_is_not_whole_is_named(tmp_path: Path):
    parts = Parts(tmp_path)
    parts(OF, lambda: {"a": torch.zeros(9)})
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ValueError, match=rf"{file.name} is not whole: .*; remove it to go on"):
        parts(OF, refused)


def test_the_end_of_a_lease_stops_the_work_and_is_then_as_before():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_influences_survive_packing():
    sums = {"leak": (torch.rand(3), torch.rand(3)), "pixel_locality": (torch.zeros(3), OF[0] / 7)}
    radii = {"pixel_radius_50": torch.tensor([3, 1, 2])}
    level = LevelInfluence.unpacked(LevelInfluence(sums, radii, 0.1).packed)
    torch.testing.assert_close((level.sums, level.radii), (sums, radii), rtol=0, atol=0)
    assert level.scale == 0.1


def test_locality_goes_on_from_the_levels_that_are_done(tmp_path: Path):
    class Stopped(Exception):
        pass

    def stop(done: float, total: int) -> None:
        if done > total / 3:
            raise Stopped

    small = replace(Locality().tiny(), levels=(0.5, 5.0, 20.0), samples=2)
    model: Model = load("zoo:grid_one_local")
    undisturbed = replace(model, keep=Parts(tmp_path / "other")).found((small,))
    parts = Parts(tmp_path / "parts")
    with pytest.raises(Stopped):
        replace(model, keep=parts, watch=stop).found((small,))
    assert parts.count == 2
    seen: list[float] = []
    denoiser = model.precise

    def watched(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        seen.append(float(sigma[0]))
        return denoiser(x, sigma, condition)

    resumed = replace(model, keep=parts, plain=watched).found((small,))
    assert resumed.measurements == undisturbed.measurements
    assert [*resumed.measurements] == [*undisturbed.measurements]
    assert 5.0 in seen  # of the maps, which are not kept
    assert len(seen) < 40
    for name, array in undisturbed.arrays.items():
        torch.testing.assert_close(resumed.arrays[name], array, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_measurement_that_is_killed_ends_in_the_numbers_of_one_that_is_not(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    command = [sys.executable, "-m", "recombine", *WORDS]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    killed = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not list(tmp_path.glob("runs/measured/*/*.safetensors")) and killed.poll() is None:
        time.sleep(0.002)
    killed.send_signal(number)
    out, err = killed.communicate()
    assert out == b""
    kept = len(list(tmp_path.glob("runs/measured/*/*.safetensors")))
    assert 0 < kept < 5
    if number == signal.SIGTERM:
        assert killed.returncode == 130
        assert b"recombine: stopped, " in err
        assert b"the same command goes on from there" in err
    monkeypatch.chdir(tmp_path)
    assert command_line.main(WORDS) == 0
    resumed = capsys.readouterr()
    assert f"going on: {kept} parts are done already" in resumed.err
    assert not Path("runs").exists() or not list(Path("runs").iterdir())
    assert command_line.main([*WORDS, "--out", "undisturbed"]) == 0
    undisturbed = capsys.readouterr()
    assert "going on" not in undisturbed.err
    assert json.loads(resumed.out) == json.loads(undisturbed.out)
