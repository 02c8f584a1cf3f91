"""The figure of locality draws what results hold: maps, lines over noise, every checkpoint."""

import numpy as np
import pytest

from recombine.figures.locality import PAIR, draw, heat_maps
from recombine.measurement import Measurement
from stub_results import a_run, a_table

PLACES = np.array([[0.2, 0.3], [0.6, 0.7]], dtype=np.float32)


def measured(cell: str, seed: int, *pairs: tuple[float, int]):
    """A run of conditional locality and K_max at milestones, the last pair being the end."""
    early = {
        name: [(100 * step, pair[at]) for step, pair in enumerate(pairs[:-1], start=1)]
        for at, name in enumerate(PAIR)
    }
    end = {
        PAIR[0]: Measurement(pairs[-1][0], None, None, n=32),
        PAIR[1]: Measurement(pairs[-1][1], None, None, n=256),
    }
    for level, share in (("6.73", 0.25), ("20", 0.5)):
        end[f"conditional_locality@{level}"] = Measurement(share + seed / 4, None, None, n=32)
        end[f"pixel_locality@{level}"] = Measurement(share, None, None, n=32)
    return a_run(cell, seed, end, early)


def maps(run: str) -> dict[str, np.ndarray]:
    """Heat maps at three noise levels; the darkest pixel of place p is (10 p, 5 + p)."""
    found = {f"{run}/locality_places": PLACES}
    for level in ("0.05", "20", "3.9"):
        pixels = np.zeros((2, 32, 32), dtype=np.uint8)
        pixels[0, 0, 5] = pixels[1, 10, 6] = 255
        found[f"{run}/locality_map@{level}"] = pixels
        shares = np.array([[0.75, 0.25], [0.4, 0.6]], dtype=np.float16)
        found[f"{run}/locality_objects@{level}"] = shares
    return found


def lines(axes) -> list[tuple[list, list]]:
    return [tuple(list(map(float, each)) for each in line.get_data()) for line in axes.lines]


def points(axes) -> list[list[list[float]]]:
    return [each.get_offsets().tolist() for each in axes.collections]


def test_the_maps_of_a_run_come_from_the_lowest_noise_at_the_lowest_place():
    found = heat_maps(maps("grid_all/seed0") | maps("grid_all/seed1"), "grid_all/seed1")
    assert [each.sigma for each in found] == [0.05, 3.9, 20]
    shown = found[0]
    assert shown.place == pytest.approx((0.6, 0.7))
    assert np.argwhere(shown.pixels == 1).tolist() == [[10, 6]]
    assert shown.shares.tolist() == pytest.approx([0.4, 0.6], abs=1e-3)
    assert shown.own == 1
    assert heat_maps(maps("grid_all/seed0"), "grid_all/seed1") == []


def test_maps_lines_and_every_checkpoint_are_drawn():
    runs = [measured("grid_all", 0, (0.2, -3), (0.9, 4)), measured("grid_all", 1, (0.8, 3))]
    figure = draw(a_table(*runs), maps("grid_all/seed0"))
    *shown, conditional, pixel, scatter = figure.axes
    assert [axes.get_title() for axes in shown] == ["noise 0.05", "noise 20"]
    assert {text.get_text() for text in shown[0].texts} == {"40 %", "60 %"}
    # Means over seeds: 0.25 and 0.5, and of locality at 20, 0.5 and 0.75.
    assert ([6.73, 20], [0.375, 0.625]) in lines(conditional)
    assert ([6.73, 20], [0.25, 0.5]) in lines(pixel)
    assert "1/2: every object" in conditional.texts[0].get_text()
    # Seeds are set apart; the end comes first.
    first, second = points(scatter)
    assert np.allclose(first, [[0.9, 3.8], [0.2, -3.2]])
    assert np.allclose(second, [[0.8, 3.0]])
    assert "over the ends of 2 runs" in scatter.get_title(loc="left")


def test_weights_that_are_sampled_twice_are_counted_once():
    runs = [measured("list_all-local", 0, (0.5, 1)), measured("list_all-local-guided", 0, (0.9, 2))]
    *_, scatter = draw(a_table(*runs), {}).axes
    assert points(scatter) == [[[0.5, 1.0]]]
    assert scatter.get_title(loc="left").endswith("too few runs to correlate")


def test_other_training_scenes_are_hollow_points_with_their_number():
    runs = [measured("grid_one", 0, (0.5, 1)), measured("grid_one-up_to_5", 0, (0.9, 2))]
    *_, conditional, _, scatter = draw(a_table(*runs), {}).axes
    filled, hollow = scatter.collections
    assert (len(filled.get_facecolors()), len(hollow.get_facecolors())) == (1, 0)
    assert [text.get_text() for text in scatter.texts] == ["5"]
    # Over noise, only models of the usual training scenes are compared.
    assert len(lines(conditional)) == 1


def test_hue_is_the_network_and_shape_the_condition():
    cells = ("grid_all", "grid_one-channels", "list_all")
    *_, scatter = draw(a_table(*[measured(cell, 0, (0.5, 1)) for cell in cells]), {}).axes
    hues = [tuple(each.get_facecolors()[0]) for each in scatter.collections]
    assert hues[0] == hues[2] != hues[1]
    shapes = [each.get_paths()[0].vertices.shape for each in scatter.collections]
    assert len(set(shapes)) == 3


def test_results_without_locality_are_drawn_empty():
    *_, scatter = draw(a_table(a_run("grid_all", 0, {"k_max": 7.0})), {}).axes
    assert points(scatter) == []
