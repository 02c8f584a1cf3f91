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
from recombine.measure import MEASURES
from recombine.measure.ablation import LEVELS, Locality
from recombine.measure.locality import LevelInfluence
from recombine.measure.requests import Length
from recombine.measure.subject import HasQuick
from recombine.run import Model, load
from recombine.run.parts import Parts, stoppable
from small_zoo import NAME, STUDY, shipped, use, use_study

OF = (torch.arange(3), torch.ones(2))
WORDS = [
    "measure",
    "zoo:grid_all",
    "--what",
    "length",
    "--samples",
    "40",
    "--device",
    "cpu",
    "--json",
]
"""Of the small zoo: two numbers of objects, each in three parts."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return shipped(out, out / "zoo", ("grid_all",))


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

    def ended() -> None:
        with stoppable():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        ended()
    assert signal.getsignal(signal.SIGTERM) is before


def test_influences_survive_packing():
    sums = {"leak": (torch.rand(3), torch.rand(3)), "pixel_locality": (torch.zeros(3), OF[0] / 7)}
    radii = {"pixel_radius_50": torch.tensor([3, 1, 2])}
    level = LevelInfluence.unpacked(LevelInfluence(sums, radii, 0.1).packed)
    torch.testing.assert_close((level.sums, level.radii), (sums, radii), rtol=0, atol=0)
    assert level.scale == 0.1


def test_locality_goes_on_from_the_levels_that_are_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Stopped(Exception):
        pass

    def stop(done: float, total: int) -> None:
        if done > total / 3:
            raise Stopped

    small = replace(Locality().tiny(), levels=(0.5, 5.0, 20.0))
    use_study(NAME, STUDY, monkeypatch)
    model: Model = load(str(folder / "grid_all.safetensors"))
    undisturbed = replace(model, keep=Parts(tmp_path / "other")).found((small,))
    parts = Parts(tmp_path / "parts")
    with pytest.raises(Stopped):
        replace(model, keep=parts, watch=stop).found((small,))
    assert parts.count == 2
    calls: list[float] = []

    def watched(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        calls.append(float(sigma[0]))
        return model.precise(x, sigma, condition)

    whole = replace(model, plain=watched)
    resumed = replace(whole, keep=parts).found((small,))
    again = len(calls)
    whole.found((small,))
    assert again < len(calls) - again
    assert [*resumed.measurements.items()] == [*undisturbed.measurements.items()]
    for name, array in undisturbed.arrays.items():
        torch.testing.assert_close(resumed.arrays[name], array, rtol=0, atol=0, equal_nan=True)


def test_quick_settings_are_smaller_measurements_of_the_same():
    for name, whole in MEASURES.items():
        if isinstance(whole, HasQuick):
            small = whole.quick()
            assert type(small) is type(whole)
            assert small.quick() == small or name == "locality"
            assert whole.tiny().size < small.size < whole.size / 3
    length, locality = Length().quick(), Locality().quick()
    assert (length.size, length.objects) == (160, tuple(range(1, 11)))
    assert locality.levels == LEVELS[1::2]
    assert Length(objects=(12,), samples=4).quick() == Length(objects=(12,), samples=4)


KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
import small_zoo
from recombine.__main__ import main
from recombine.run.parts import Parts

def made(self, of, work, whole=Parts.__call__):
    if self.count == 2:
        os.kill(os.getpid(), int(sys.argv[2]))
    return whole(self, of, work)

small_zoo.use(Path(sys.argv[1]), pytest.MonkeyPatch())
Parts.__call__ = made
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_measurement_that_is_killed_ends_in_the_numbers_of_one_that_is_not(
    number: signal.Signals,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(int(number)), *WORDS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert killed.stdout == ""
    (kept,) = tmp_path.glob("runs/measured/*")
    if number == signal.SIGTERM:
        assert killed.returncode == 130
        said = f"recombine: stopped, 2 parts are in {kept.relative_to(tmp_path)}; the same command"
        assert said in killed.stderr
    monkeypatch.chdir(tmp_path)
    use(folder, monkeypatch)
    assert command_line.main(WORDS) == 0
    resumed = capsys.readouterr()
    assert "going on: 2 parts are done already" in resumed.err
    assert not list(Path("runs").iterdir())
    assert command_line.main([*WORDS, "--out", "undisturbed"]) == 0
    undisturbed = capsys.readouterr()
    assert "going on" not in undisturbed.err
    assert json.loads(resumed.out) == json.loads(undisturbed.out)
