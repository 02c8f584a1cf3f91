"""The figure of locality draws what records hold."""

from dataclasses import replace

import numpy as np
import pytest
from recombine.report.record import Record

from recombine.figures.locality import PAIR, draw
from recombine.measurement import Measurement
from recombine.report.table import checkpoints


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
