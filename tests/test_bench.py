"""The bench measures what it says; how fast this machine is, is not tested."""

import json
import stat
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from recombine.__main__ import main
from recombine.bench import linear, locality, render, stacked, timing, train
from recombine.commands import bench
from recombine.measurement import Measurement
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.results import read
from recombine.worlds.clevr import Clevr
from recombine.worlds.scene_file import write


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    world = Clevr(objects=(1, 2))
    path = tmp_path / "scenes.json"
    path.write_text(json.dumps(write(world.scenes(torch.arange(2), 0), world, ["a.png", "b.png"])))
    return path


def test_speeds_and_ratios_are_printed_and_kept(scenes: Path, capsys, tmp_path: Path):
    kept = tmp_path / "kept"
    words = ["bench", "render", "--seconds", "0.01", "--scenes", str(scenes), "--json"]
    assert main([*words, "--device", "cpu", "--save", str(kept)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["subject"] == "render"
    measured = printed["measurements"]
    assert measured["images_per_second@blender"]["value"] == pytest.approx(1 / 1.2)
    for way in ("eager", "kernel"):
        if f"ratio@{way}" in measured:
            ratio = measured[f"images_per_second@{way}"]["value"] * 1.2
            assert measured[f"ratio@{way}"]["value"] == pytest.approx(ratio)
    (results,) = read(kept)
    assert (results.origin.study, results.origin.cell) == ("bench", "render_cpu")
    values = {row.measurement: row.value for row in results.rows}
    assert values == {name: each["value"] for name, each in measured.items()}


def test_speed_counts_images_not_rounds():
    counted = []
    measured = timing.speed(lambda: counted.append(1), things=1000, seconds=1e-9)
    assert measured.n == timing.FEWEST_ROUNDS
    assert len(counted) == timing.FEWEST_ROUNDS + 1
    assert measured.value > 1000


def test_a_ratio_is_to_the_peer():
    ours = Measurement(60.0, 50.0, 70.0, n=4)
    stated = timing.over(ours, timing.known(2.0))
    assert (stated.value, stated.low, stated.high) == (30.0, 25.0, 35.0)


def test_the_interval_of_a_ratio_covers_the_spread_of_both():
    ours, peer = Measurement(60.0, 50.0, 70.0, n=4), Measurement(2.0, 1.0, 2.5, n=3)
    ratio = timing.over(ours, peer)
    assert (ratio.value, ratio.low, ratio.high, ratio.n) == (30.0, 20.0, 70.0, 3)
    assert timing.over(timing.known(6.0), timing.known(2.0)).low is None
    # On a busy machine a few rounds may spread below 0: a ratio, and no interval.
    busy = Measurement(2.0, -1.0, 5.0, n=3)
    for found in (timing.over(ours, busy), timing.over(busy, peer)):
        assert (found.low, found.high, found.n) == (None, None, 3)


def test_blender_is_run_by_its_own_python(tmp_path: Path):
    """A stand-in for a Python with bpy: it is given the script, the scenes and a count."""
    fake = tmp_path / "python"
    fake.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "script, scenes, count = sys.argv[1:]\n"
        "assert 'BLENDER' in open(script).read()\n"
        "assert len(json.load(open(scenes))['scenes']) == 3\n"
        "print('noise')\n"
        "print('BLENDER ' + json.dumps({'seconds': [9.0] + [0.5, 0.25] * 4, 'version': 'x'}))\n"
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    scenes = Clevr(objects=(1, 1)).scenes(torch.arange(3), 0)
    measured = render.blender(fake, scenes)
    assert measured.value == pytest.approx(3.0)
    assert measured.n == 8


def test_the_local_denoiser_is_compared_with_its_twin(capsys):
    assert main(["bench", "local", "--seconds", "0.01", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert found["largest_difference"]["value"] < 1e-5
    ways = [found[f"images_per_second@{way}"]["value"] for way in ("one_pass", "patch_by_patch")]
    assert found["ratio@patch_by_patch"]["value"] == pytest.approx(ways[0] / ways[1])


def test_steps_are_taken_in_turn():
    taken: list[str] = []
    steps = [partial(taken.append, "one"), partial(taken.append, "other")]
    train.in_turn(steps, 2, torch.device("cpu"))()
    assert taken == ["one", "other"] * 2


def test_training_costs_three_forward_passes():
    """Ten images a second of 2 operations each keep a machine of 60 a second busy."""
    assert train.flop_use(timing.known(10.0), 2, timing.known(60.0)).value == 1.0


def test_the_cost_of_a_layer_is_counted():
    """A convolution of kernel 3 costs 2 * 9 * channels in * channels out per pixel."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 5, 3, padding=1)

        def forward(self, x, clock, condition):
            return self.layer(x)

    assert train.flops(Layer(), 8, numbers=1) == 2 * 9 * 3 * 5 * 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "--seconds is more than 0; got 0.0"),
        (["--with-blender", "nowhere/python"], "--with-blender nowhere/python did not render"),
        (["--scenes", "nowhere.json"], "nowhere.json is not there"),
        (["--device", "abacus"], "device 'abacus' cannot be used here"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], message: str, capsys):
    assert main(["bench", "render", *words]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert message in said[-1]


def test_options_of_one_bench_are_refused_by_the_others(capsys):
    assert main(["bench", "local", "--scenes", "x.json"]) == 2
    assert "--scenes is for bench render, not local" in capsys.readouterr().err


def test_influence_at_once_is_compared_with_its_twin(monkeypatch: pytest.MonkeyPatch, capsys):
    small = UNet(3, 16, Vector(256), width=16, multipliers=(1,), attention=(), head=16)
    monkeypatch.setattr(locality, "measured", partial(locality.measured, of=small))
    assert main(["bench", "locality", "--seconds", "0.01", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert found["largest_difference"]["value"] < 1e-5
    ways = [found[f"pixels_per_second@{way}"]["value"] for way in ("batched", "one_by_one")]
    assert found["ratio@one_by_one"]["value"] == pytest.approx(ways[0] / ways[1])


def test_stacked_trainings_are_compared_with_the_same_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys
):
    few = partial(stacked.measured, runs=2, batch=2)
    monkeypatch.setitem(bench.OTHERS, "stacked", few)
    assert main(["bench", "stacked", "--seconds", "0.01", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    for name in stacked.SMALL:
        assert found[f"largest_difference@{name}"]["value"] < 1e-5
        speeds = (f"run_steps_per_second@{name}_{way}" for way in ("stacked", "one_by_one"))
        ours, theirs = (found[each]["value"] for each in speeds)
        assert found[f"ratio@{name}"]["value"] == pytest.approx(ours / theirs)


def test_trajectories_are_compared_with_one_solver_each(capsys, monkeypatch):
    drawn = linear.drawn
    monkeypatch.setattr(linear, "drawn", lambda count: drawn(10))
    assert main(["bench", "linear", "--seconds", "0.01", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert found["largest_difference"]["value"] < 1e-6
    ways = [found[f"trajectories_per_second@{way}"]["value"] for way in ("together", "solve_ivp")]
    assert found["ratio@solve_ivp"]["value"] == pytest.approx(ways[0] / ways[1])
