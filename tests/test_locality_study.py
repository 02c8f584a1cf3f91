"""The locality study asks as it declares, and its figure draws what records hold."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from recombine.experiment import Trained
from recombine.experiments import length_generalization, variants
from recombine.experiments.locality import (
    LEVELS,
    Locality,
    asked,
    elsewhere,
    far_apart,
    gaps,
    grid_all,
    list_all,
    noisy,
    packed,
)
from recombine.report.record import Record
from torch import Tensor

from recombine import run
from recombine.__main__ import main
from recombine.commands.run import seeded
from recombine.condition import Grid, List
from recombine.figures.locality import PAIR, draw
from recombine.measure.locality import RADIUS
from recombine.measurement import Measurement
from recombine.models.unet import UNet
from recombine.render.camera import places
from recombine.report import correlation
from recombine.report.correlation import rank_correlation
from recombine.report.table import checkpoints

CPU = torch.device("cpu")
SMALL = Locality(least=0.9, levels=(0.05, 6.0, 20.0), samples=2, places=3, lattice=1, views=2)


def perfect(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Paints every told cell of a grid, and nothing else; the louder the noise, the more."""
    cell = x.shape[-1] // condition.shape[-1]
    grid = condition.repeat_interleave(cell, 1).repeat_interleave(cell, 2)[:, None]
    loud = (sigma / (1 + sigma))[:, None, None, None]
    return (1 - loud) * x + loud * grid


def same(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Paints the number of told cells everywhere."""
    return x + condition.sum(dim=(1, 2))[:, None, None, None]


# The experiments


def test_the_models_are_those_of_the_length_study():
    assert len(variants("locality")) == 17
    for name, experiment in variants("locality").items():
        base = getattr(length_generalization, name)
        changed = {
            each.name
            for each in fields(base)
            if getattr(base, each.name) != getattr(experiment, each.name)
        }
        assert changed == {"question", "asks", "headline"}
        assert experiment.digest == base.digest
        assert experiment.asks[:-1] == base.asks
        assert isinstance(experiment.asks[-1], Locality)
        assert experiment.headline[0] == "conditional_locality"
        milestones = experiment.budget.milestones
        assert [10 * step // experiment.budget.steps for step in milestones] == [1, 4]


def test_the_declared_settings_are_used():
    ask = Locality()
    assert (ask.samples, ask.places, ask.lattice, len(ask.levels)) == (32, 4, 4, 12)
    assert (LEVELS[0], LEVELS[-1]) == (pytest.approx(0.05), pytest.approx(20))
    ratios = [b / a for a, b in zip(LEVELS, LEVELS[1:], strict=False)]
    assert max(ratios) == pytest.approx(min(ratios))


def test_a_local_model_is_found_to_be_local():
    trained = Trained(grid_all, perfect, CPU)
    found = SMALL(trained, torch.Generator().manual_seed(0))
    for name in ("conditional_locality", "conditional_locality_moved", "pixel_locality"):
        assert found.measurements[name].value == pytest.approx(1, abs=1e-4)
    assert found.measurements["conditional_locality"].verdict == "as asked (>= 0.9)"
    assert found.measurements["leak"].value == pytest.approx(0, abs=1e-4)
    assert found.measurements["conditional_locality"].n == 2
    assert found.curves["undefined"] == []


def test_a_model_that_only_counts_is_found_to_be_global():
    found = SMALL(Trained(grid_all, same, CPU), torch.Generator().manual_seed(0))
    measured = found.measurements["conditional_locality"]
    assert measured.value == pytest.approx(1 / 3)
    assert measured.verdict == "missed: asked (>= 0.9)"
    assert found.curves["locality_maps"][0]["heard"] == [0.333] * 3
    # Moving an object does not change how many there are.
    assert "conditional_locality_moved" in dict(found.curves["undefined"])


def test_the_maps_of_a_scene_show_what_its_places_listen_to():
    found = SMALL(Trained(grid_all, perfect, CPU), torch.Generator().manual_seed(0))
    told, maps = found.curves["locality_places"], found.curves["locality_maps"]
    assert len(told) == 3
    assert {each["sigma"] for each in maps} == {"0.05", "6", "20"}
    for number, each in enumerate(maps[:3]):
        assert each["heard"] == [float(number == other) for other in range(3)]
        assert max(abs(a - b) for a, b in zip(each["pixel"], told[number], strict=True)) < 1 / 32
        rows = [[int(value) for value in row.split()] for row in each["map"]]
        assert len(rows) == len(rows[0]) == 32
        column, row = (int(32 * value) for value in each["pixel"])
        assert rows[row][column] == 999
        assert sum(map(sum, rows)) == 999
    assert json.loads(json.dumps(found.curves)) == found.curves


def test_differences_are_taken_in_full_precision():
    def coarse(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        raise AssertionError("the denoiser of mixed precision was asked")

    trained = Trained(grid_all, coarse, CPU, plain=perfect)
    found = SMALL(trained, torch.Generator().manual_seed(0))
    assert found.measurements["conditional_locality"].value == pytest.approx(1, abs=1e-4)


def test_preparing_a_model_leaves_its_plain_call_as_it_was():
    """Accelerate writes mixed precision into the instance; what is kept from before has none."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    network = torch.nn.Linear(64, 64)
    x = torch.randn(4, 64)
    plain, exact = network.forward, network(x)
    AcceleratorState._reset_state(reset_partial_state=True)
    prepared = Accelerator(cpu=True, mixed_precision="bf16").prepare_model(
        network, evaluation_mode=True
    )
    AcceleratorState._reset_state(reset_partial_state=True)
    assert not torch.equal(prepared(x), exact)
    assert torch.equal(plain(x), exact)


# What is asked


def test_scenes_have_places_that_are_apart():
    scenes = far_apart(grid_all.world, 4, 8, CPU)
    assert len(scenes) == 8
    assert scenes.present.sum(dim=1).tolist() == [4] * 8
    place, _ = Grid(16).requested(places(scenes)[0], scenes.present)
    away = gaps(place, place)
    assert (away.diagonal(dim1=1, dim2=2) == 0).all()
    assert (away + torch.eye(4) > RADIUS).all()
    again = far_apart(grid_all.world, 4, 4, CPU)
    assert torch.equal(again.position, scenes.position[:4])


def test_too_crowded_a_world_is_refused():
    with pytest.raises(ValueError, match="too few scenes of .* have 12 objects that far apart"):
        far_apart(grid_all.world, 12, 1, CPU)


def test_gaps_are_the_larger_of_across_and_down():
    one, other = torch.tensor([[[0.1, 0.2]]]), torch.tensor([[[0.4, 0.1], [0.2, 0.9]]])
    torch.testing.assert_close(gaps(one, other), torch.tensor([[[0.3, 0.7]]]))


def test_a_moved_object_goes_where_none_of_the_scene_is(rng: torch.Generator):
    place = torch.rand(16, 3, 2, generator=rng)
    target = elsewhere(place, rng)
    assert (gaps(place, target[:, None]) > RADIUS).all()
    flat = place.flatten(0, 1).tolist()
    assert all(each in flat for each in target.tolist())


def test_each_object_is_left_out_and_moved_in_turn(rng: torch.Generator):
    scenes = far_apart(grid_all.world, 3, 4, CPU)
    place, condition, told = asked(scenes, Grid(16), rng)
    assert torch.equal(condition, Grid(16)(scenes))
    assert torch.equal(place, told.place)
    column, row = (place * 16).long().unbind(dim=-1)
    image = torch.arange(4)
    for index in range(3):
        assert torch.equal(told.without[index], Grid(16)(scenes.without(index)))
        moved = told.moved[index] - condition
        assert moved.sum(dim=(1, 2)).tolist() == [0] * 4
        assert (moved[image, row[:, index], column[:, index]] == -1).all()
        assert (moved.abs().sum(dim=(1, 2)) == 2).all()
    place, condition, told = asked(scenes, List(), rng)
    assert (condition[..., 2].sum(dim=1) == 3).all()
    assert (told.without[..., 2].sum(dim=2) == 2).all()
    assert (told.moved[..., 2].sum(dim=2) == 3).all()


def test_noise_has_the_level_that_is_said(rng: torch.Generator):
    image = torch.rand(4, 3, 64, 64, generator=rng)
    x, sigma = noisy(image, 6.0, rng)
    assert sigma.tolist() == [6.0] * 4
    assert float((x - image).std()) == pytest.approx(6, rel=0.02)
    assert float((x - image).mean()) == pytest.approx(0, abs=0.1)


def test_a_map_is_kept_small(rng: torch.Generator):
    heat = torch.zeros(64, 64)
    heat[10, 20], heat[40, 41] = 4.0, 2.0
    rows = [row.split() for row in packed(heat)]
    assert (rows[5][10], rows[20][20]) == ("999", "500")
    assert sum(value == "0" for row in rows for value in row) == 32 * 32 - 2
    assert packed(torch.zeros(64, 64))[0].split() == ["0"] * 32


@pytest.mark.parametrize("change", [{"samples": 1}, {"places": 1}, {"levels": ()}])
def test_a_question_that_makes_no_sense_is_refused(change: dict):
    with pytest.raises(ValueError, match="levels, 2 samples and 2 places or more; got Locality"):
        replace(SMALL, **change)


# The command


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the length study, with a network small enough for a test."""
    small = UNet(3, 64, grid_all.network.entry, 16, (1, 1), 1, (), patch=4, head=16)
    for name in ("length_generalization", "locality"):
        module = __import__(f"recombine.experiments.{name}", fromlist=[name])
        monkeypatch.setattr(module, "grid_all", replace(module.grid_all, network=small))
    (plan,) = seeded("length_generalization", "grid_all", [0], True, {"steps": 2})
    run.run(plan, run.machine(CPU), run.Settings(tmp_path))
    return plan.folder(tmp_path)


def test_weights_are_asked_what_another_experiment_asks_of_the_same(trained: Path, capsys):
    words = ["measure", str(trained), "--device", "cpu"]
    assert main([*words, "--what", "locality", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "pixel_locality@20" in found["measurements"]
    assert not any("success" in name for name in found["measurements"])
    named = {**found["measurements"], **found.get("undefined", {})}
    assert {"conditional_locality", "leak"} <= set(named)
    assert main([*words, "--what", "localty"]) == 2
    assert "is not one of length, locality; did you mean locality?" in capsys.readouterr().err


def test_what_is_undefined_is_said(trained: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    ignorant = property(lambda trained: lambda x, sigma, condition: x)
    monkeypatch.setattr(Trained, "precise", ignorant)
    words = ["measure", str(trained), "--device", "cpu", "--what", "locality"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "conditional_locality is undefined: the denoiser does not listen" in said.err
    assert "conditional_locality" not in said.out
    assert main([*words, "--json"]) == 0
    undefined = json.loads(capsys.readouterr().out)["undefined"]
    assert "does not listen to its condition" in undefined["leak"]


# The figure


def kept(variant: str, seed: int, values: list[tuple[float, int] | None]) -> Record:
    """A record of conditional locality and K_max at milestones, the last being the end."""
    curves: dict[str, list] = {"conditional_locality": [], "beyond_objects": []}
    for step, pair in enumerate(values[:-1], start=1):
        if pair is not None:
            curves["conditional_locality"].append([100 * step, pair[0]])
        curves["beyond_objects"].append([100 * step, pair[1] if pair else 0])
    measured = {}
    if values[-1] is not None:
        measured["conditional_locality"] = Measurement(values[-1][0], None, None, n=32)
        measured["beyond_objects"] = Measurement(values[-1][1], None, None, n=256)
    for level, share in (("6.73", 0.25), ("20", 0.5)):
        measured[f"conditional_locality@{level}"] = Measurement(share + seed / 4, None, None, n=32)
        measured[f"pixel_locality@{level}"] = Measurement(share, None, None, n=32)
    rows = [" ".join(str(999 * (r == c == 20)) for c in range(32)) for r in range(32)]
    curves["locality_levels"] = ["0.05", "6.73", "20"]
    curves["locality_places"] = [[0.2, 0.3], [0.6, 0.7]]
    curves["locality_maps"] = [
        {"sigma": level, "pixel": [x, y], "heard": [0.25, 0.75], "map": rows}
        for level in ("0.05", "20")
        for x, y in ([0.2, 0.3], [0.6, 0.7])
    ]
    command = f"recombine run locality:{variant} --seed {seed}"
    return Record("?", command, "x", seed, "cpu", 1.0, measured, curves=curves)


def test_checkpoints_are_paired_by_their_step():
    assert checkpoints(kept("a", 0, [(0.2, -1), (0.4, 1), (0.9, 4)]), PAIR) == [
        (0.2, -1),
        (0.4, 1),
        (0.9, 4),
    ]
    assert checkpoints(kept("a", 0, [None, (0.4, 1), None]), PAIR) == [(0.4, 1)]
    uncounted = replace(kept("a", 0, [None]), curves={"conditional_locality": [[100, 0.5]]})
    assert checkpoints(uncounted, PAIR) == []


def test_the_figure_shows_maps_lines_and_every_checkpoint():
    runs = [
        kept("grid_all", 0, [(0.5, 0), (0.8, 3), (0.9, 4)]),
        kept("grid_all", 1, [(0.6, 1), (0.7, 2), (1.0, 5)]),
        kept("grid_one_local", 0, [(0.3, -2), None, (0.4, -1)]),
    ]
    figure = draw(runs)
    *maps, conditional, pixel, scatter = figure.axes
    # Two models with maps at two levels, of the lower of the two told places.
    assert len(maps) == 4
    assert [axes.get_title() for axes in maps] == ["sigma 0.05", "sigma 20", "", ""]
    for axes in maps:
        assert axes.patches[0].get_center() == pytest.approx((0.6, 0.7))
        crosses = [line for line in axes.lines if line.get_color() == "#CC0000"]
        assert [line.get_alpha() for line in crosses] == [0.25, 0.75]
        assert [text.get_text() for text in axes.texts] == ["25", "75"]
    assert [axes.get_ylabel() for axes in maps[::2]] == [
        "grid all\nlocality 0.9",
        "grid one local\nlocality 0.4",
    ]
    lines = [tuple(map(list, line.get_data())) for line in conditional.lines]
    chance = ([0, 1], [0.5, 0.5])
    assert lines == [([6.73, 20.0], [0.375, 0.625]), ([6.73, 20.0], [0.25, 0.5]), chance]
    assert len(pixel.lines) == 2
    points = [points.get_offsets().tolist() for points in scatter.collections]
    # The end first; seeds are set apart by a fifth.
    assert points[0] == pytest.approx(np.array([[0.9, 3.9], [0.8, 2.9], [0.5, -0.1]]))
    assert points[1][0] == pytest.approx([1.0, 5.1])
    assert points[2] == [[0.4, -1.0], [0.3, -2.0]]
    sizes = [points.get_sizes().tolist() for points in scatter.collections]
    assert sizes[0][0] == sizes[2][0] > sizes[0][1] > sizes[0][2]
    assert "Spearman 1 [" in scatter.get_title("left")
    assert "n = 8 checkpoints" in scatter.get_title("left")


def test_weights_sampled_again_are_drawn_hollow_and_not_counted():
    guided = kept("list_all_local_guided", 0, [(1.0, -2), (1.0, 4)])
    guided = replace(guided, experiment="Sampler(guidance=Guidance(weight=3.0))")
    guided.measurements["k_max"] = Measurement(7, 7, 8, n=256)
    # Its own points alone would turn the order around.
    runs = [guided, kept("list_all_local", 0, [(1.0, 9)]), kept("grid_one", 0, [(0.2, -2)])]
    *maps, _, _, scatter = draw(runs).axes
    assert [axes.get_ylabel() for axes in maps[::2]] == [
        "grid one\nlocality 0.2",
        "list all local\nlocality 1",
    ]
    assert scatter.get_title("left").endswith("n = 2 ends of runs")
    assert [len(points.get_facecolors()) for points in scatter.collections] == [1, 1, 0]
    words = [text.get_text() for text in scatter.get_legend().get_texts()]
    assert words == ["grid_one", "list_all_local", "list_all_local_guided (K_max 7, guided)"]


def test_other_training_sets_are_points_with_their_number():
    runs = [kept("grid_all", 0, [(0.9, 4)]), kept("list_all", 0, [(0.3, 0)])]
    other = kept("grid_all_1", 0, [(0.2, 0)])
    for each, objects in zip([*runs, other], (3, 3, 1), strict=True):
        each.curves["length_trained_on"] = [objects]
    *maps, conditional, _, scatter = draw([other, *runs]).axes
    assert [axes.get_ylabel() for axes in maps[::2]] == [
        "grid all\nlocality 0.9",
        "list all\nlocality 0.3",
    ]
    assert [line.get_label() for line in conditional.lines[:2]] == ["grid_all", "list_all"]
    # Beside its point, and not in the legend; counted like any other.
    assert [(text.get_text(), *text.xy) for text in scatter.texts] == [("1", 0.2, 0)]
    assert len(scatter.collections) == 3
    legend = scatter.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["grid_all", "list_all"]
    assert legend.get_title().get_text().endswith("so many objects, else 3")
    assert "n = 3 ends of runs" in scatter.get_title("left")


def test_a_record_without_locality_is_drawn_as_an_empty_row():
    bare = Record("?", "recombine run locality:grid_all --seed 0", "x", 0, "cpu", 1.0, {})
    scatter = draw([bare]).axes[-1]
    assert "too few runs" in scatter.get_title("left")
    with pytest.raises(ValueError, match="1 record or more; got none"):
        draw([])


def test_the_rank_correlation_is_that_of_scipy_and_its_interval_is_over_runs():
    from scipy.stats import spearmanr

    generator = torch.Generator().manual_seed(0)
    runs = []
    for _ in range(8):
        x = torch.rand(3, generator=generator, dtype=torch.float64)
        noise = torch.rand(3, generator=generator, dtype=torch.float64)
        runs.append(list(zip(x.tolist(), (4 * (x + noise)).round().tolist(), strict=True)))
    found = rank_correlation(runs)
    pairs = [pair for run in runs for pair in run]
    assert found.value == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)
    assert found.n == 24
    assert -1 <= found.low < found.value < found.high <= 1
    # The same points, ten times each in the same run: no narrower.
    repeated = rank_correlation([run * 10 for run in runs])
    assert repeated.high - repeated.low == pytest.approx(found.high - found.low, rel=1e-6)
    assert rank_correlation(runs) == found
    falling = rank_correlation([[(x, -x)] for x in range(5)])
    assert falling.value == pytest.approx(-1)


def test_the_interval_holds_95_percent_of_the_runs_drawn_anew(monkeypatch: pytest.MonkeyPatch):
    from scipy.stats import spearmanr

    monkeypatch.setattr(correlation, "RESAMPLED", 40)
    runs = [[(0.1, 1), (0.2, 3)], [(0.4, 2), (0.9, 4)], [(0.3, 0), (0.8, 5)]]
    draws = np.random.default_rng(0).integers(3, size=(40, 3))
    again = [
        spearmanr(*zip(*(pair for run in draw for pair in runs[run]), strict=True)).statistic
        for draw in draws
    ]
    found = rank_correlation(runs)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(again, [0.025, 0.975])))


def test_a_number_that_never_differs_has_no_rank_correlation():
    assert rank_correlation([]) is None
    assert rank_correlation([[(1.0, 2.0)]]) is None
    assert rank_correlation([[(1.0, 2.0)], [(2.0, 2.0)]]) is None
    alone = rank_correlation([[(1.0, 2.0), (2.0, 3.0)]])
    assert (alone.value, alone.low) == (pytest.approx(1), None)


def test_lists_of_places_are_asked_too():
    def listening(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return perfect(x, sigma, Grid(16).at(condition[..., :2], condition[..., 2] != 0))

    found = SMALL(Trained(list_all, listening, CPU), torch.Generator().manual_seed(0))
    assert found.measurements["conditional_locality"].value == pytest.approx(1, abs=1e-4)
