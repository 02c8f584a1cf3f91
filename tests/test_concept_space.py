"""Concept space: where samples are, what milestones say together, the theory, figure and GIF."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks.concept_space import Course, Theory, animated, fitted, main, theory, time_scale
from PIL import Image
from scipy.integrate import solve_ivp
from torch import Tensor

from recombine import results
from recombine.figures.concept_space import Line, draw, lines
from recombine.linear import sim, symmetric
from recombine.measure import trajectory
from recombine.measure.circles import mean_scenes
from recombine.measure.concept_space import ConceptSpace, signals
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import Origin, Results
from recombine.results.findings import rows
from recombine.results.query import table
from recombine.scene import compositions
from recombine.studies.concept_space import SEPARATIONS, STUDY, milestones, world
from recombine.study import Cell
from recombine.worlds.circles import CIRCLES, Circles
from subjects import Model, training

CPU = torch.device("cpu")
CELLS: dict[str, Cell] = dict(STUDY.cells)
BASE = CELLS["0.137"]
SPACE = ConceptSpace()


def drawing(draw_as: Callable[[Tensor], Tensor]) -> dict[str, Measurement]:
    """Measure a model that draws true renders of what it makes of its condition."""

    def images(condition: Tensor, generator: torch.Generator) -> Tensor:
        world = Circles()
        scenes = world.scenes(torch.arange(len(condition)), seed=9)
        values = draw_as(condition / BASE.training.conditioner.encode.scale)
        return world.image(replace(scenes, colour=values[:, None, :3], size=values[:, 3:]))

    subject = Model(BASE.training, draw=images)
    return dict(ConceptSpace(samples=16)(subject, torch.Generator()).measurements)


def test_a_model_that_follows_its_condition_is_at_every_corner():
    found = drawing(lambda values: values)
    assert found["concept_mse"].value == found["concept_mse_ceiling"].value == 0
    for which in compositions(Circles.factors):
        name = " ".join(which)
        assert found[f"accuracy@{name}"].value == 1
        for axis in ("blue", "small"):
            assert found[f"{axis}@{name}"].value == float(axis in which)
            assert found[f"{axis}_ceiling@{name}"].value == float(axis in which)
    assert (found["colour_signal"].value, found["size_signal"].value) == signals(world(0.137))


def test_a_model_that_draws_small_circles_red_is_at_the_corner_it_passes_by():
    def red_if_small(values: Tensor) -> Tensor:
        small = values[:, 3:] < 0.45
        red = values.new_tensor([0.5685, 0.4315, 0.4315])
        return torch.cat([torch.where(small, red, values[:, :3]), values[:, 3:]], dim=1)

    found = drawing(red_if_small)
    assert (found["blue@blue small"].value, found["small@blue small"].value) == (0, 1)
    assert found["concept_mse"].value == 0.5
    assert found["accuracy@blue small"].value == 0
    assert found["accuracy@blue big"].value == found["accuracy@red small"].value == 1


def test_other_worlds_and_too_few_samples_are_refused():
    subject = Model(training(world=SimpleNamespace(factors=Circles.factors)))
    with pytest.raises(ValueError, match="concept_space is measured on worlds of circles; got Sim"):
        SPACE(subject, torch.Generator())
    with pytest.raises(ValueError, match="2 samples or more; got 1"):
        ConceptSpace(samples=1)


def test_no_training_shows_small_blue_circles_and_every_request_is_a_class_mean():
    for cell in CELLS.values():
        of = cell.training.world
        assert of.among == CIRCLES.seen
        assert of.size_separation == 0.4
        scenes = mean_scenes(of, ("blue", "small"), 8, CPU)
        assert scenes.size.unique().tolist() == pytest.approx([0.25])
        assert len(scenes.colour.unique(dim=0)) == 1
        half = of.colour_separation / 2
        assert scenes.colour[0, 0].tolist() == pytest.approx([0.5 - half, 0.5 - half, 0.5 + half])


def test_milestones_are_even_in_their_root():
    assert milestones(100, 400, 3) == (100, 225, 400)
    assert milestones(500, 20000, 60)[7] == 1331
    steps = BASE.milestones
    assert (steps[0], steps[-1], len(steps)) == (100, BASE.training.budget.steps, 24)
    with pytest.raises(ValueError, match="9 milestones do not fit between 1 and 4"):
        milestones(1, 4, 9)


# All milestones together


def curves(
    blue: list[float],
    small: list[float],
    circles: list[float] | None = None,
    steps: list[int] | None = None,
) -> dict[str, list]:
    steps = steps or [100 * (at + 1) for at in range(len(blue))]
    error = [((b - 1) ** 2 + (s - 1) ** 2) / 2 for b, s in zip(blue, small, strict=True)]
    named = {
        "blue@blue small": blue,
        "small@blue small": small,
        "circles@blue small": circles or [1.0] * len(blue),
        "concept_mse": error,
        "blue@blue big": [0.0, *[1.0] * (len(blue) - 1)],
        "small@red small": [0.0, 0.0, *[1.0] * (len(blue) - 2)],
    }
    return {name: [*map(list, zip(steps, each, strict=True))] for name, each in named.items()}


DETOUR = curves([0.5, 0.1, 0.0, 0.4, 0.9, 1.0, 1.0], [0.5, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0])


def test_a_detour_is_found():
    found = SPACE.over_training(DETOUR)
    assert found["concept_mse_rise"].value == pytest.approx(0.505 - 0.25)
    assert found["concept_mse_highest"].value == pytest.approx(0.505)
    assert (found["blue_lowest"].value, found["small_lowest"].value) == (0, 0.5)
    ends = [found[f"concept_mse_rise_{end}"].value for end in ("begins", "ends")]
    assert ends == [100, 300]
    assert found["slow_down_rate"].value > 0


@pytest.mark.parametrize(("steps", "height"), [(3_000, 0.505 - 0.41), (4_000, 0.0)])
def test_the_authors_begin_after_a_share_of_training(steps: int, height: float):
    """From step 1,331 of 20,000: here 200 of 3,000, or 266 of 4,000; then the error only falls."""
    blue, small = (
        [value for _, value in DETOUR[f"{axis}@blue small"]] for axis in ("blue", "small")
    )
    longer = curves(blue, small, steps=[100, 200, 300, 400, 500, 600, steps])
    found = SPACE.over_training(longer)
    assert found["concept_mse_rise_plotted"].value == pytest.approx(height)


def test_the_slow_down_is_that_after_the_detour():
    back = [1 - math.exp(-0.2 * k) for k in range(1, 25)]
    blue = [0.9, 0.5, 0.1, 0.0, *back]
    found = SPACE.over_training(curves(blue, [1.0] * len(blue)))
    assert found["slow_down_rate"].value == pytest.approx(0.002, rel=0.1)
    assert found["slow_down_explained"].value > 0.97


def test_the_slow_down_ends_when_less_than_half_a_sample_moves():
    rest = [0.5, 0.75, 0.875, 0.9375, 0.97, 0.99, *[1.0] * 10]
    found = SPACE.over_training(curves(rest, [1.0] * len(rest)))
    # What is blurred by 1.5 measurements goes on to move by a little for four more.
    assert 6 <= found["slow_down_rate"].n <= 9


def test_an_error_that_rises_to_the_end_has_no_slow_down():
    found = SPACE.over_training(curves([0.9, 0.6, 0.3, 0.0], [1.0] * 4))
    assert found["concept_mse_rise"].value == pytest.approx((1 - 0.01) / 2)
    assert "slow_down_rate" not in found


def test_when_and_in_which_order_concepts_are_learned():
    found = SPACE.over_training(DETOUR)
    assert found["blue_learned_at"].value == 500
    assert found["small_learned_at"].value == 200
    assert found["colour_first"].value == 0
    # Of the compositions that are trained on, colour is first here.
    assert found["blue_seen_learned_at"].value == 200
    assert found["small_seen_learned_at"].value == 300
    assert found["colour_seen_first"].value == 1


@pytest.mark.parametrize(
    ("blue", "small", "first"), [(0.2, 0.9, 0), (0.9, 0.9, 0.5), (0.9, 0.2, 1)]
)
def test_a_concept_that_is_never_learned_is_the_last(blue: float, small: float, first: float):
    found = SPACE.over_training(curves([blue] * 5, [small] * 5))
    assert ("blue_learned_at" in found) == (blue > 0.8)
    assert found["colour_first"].value == first
    assert "colour_first" not in SPACE.over_training(curves([0.2] * 5, [0.2] * 5))


def test_what_was_before_there_were_circles_does_not_count():
    early = curves([1.0, 1.0, 0.5, 0.2, 1.0, 1.0], [1.0] * 6, [0.0, 0.49, 0.5, 0.2, 1.0, 1.0])
    found = SPACE.over_training(early)
    assert found["concept_mse_rise_circles@0.25"].value == pytest.approx(0.64 / 2)
    assert found["concept_mse_rise_circles@0.9"].value == 0
    assert found["concept_mse_rise"].value == pytest.approx((0.64 - 0.25) / 2)
    assert found["concept_mse_rise_begins"].value == 300
    assert not SPACE.over_training(curves([0.5] * 3, [0.5] * 3, [0.1] * 3))
    assert not SPACE.over_training({})


# The theory


def test_a_signal_is_how_much_of_an_image_a_concept_moves():
    weak, strong = (signals(Circles(colour_separation=by, noise=0.0), 64) for by in (0.2, 0.4))
    assert strong[0] == pytest.approx(2 * weak[0], rel=1e-3)
    # Two channels of three move by the separation, over the area of the circle.
    of = Circles(colour_separation=0.4, noise=0.0)
    ones = mean_scenes(of, ("red", "big"), 64, CPU)
    white = replace(ones, colour=torch.ones_like(ones.colour), backdrop=0 * ones.backdrop)
    share = of.image(white)[:, 0]
    assert strong[0] == pytest.approx(0.4 * math.sqrt(2 / 3 * float(share.square().mean())))
    assert signals(world(0.137))[0] < signals(world(0.137))[1]


def test_the_theory_is_the_linear_flow_of_clusters_as_far_apart_as_the_concepts():
    law = theory(world(0.137))
    colour, size = signals(world(0.137))
    # Uniform swings: of two channels by 1/8 each, over twice the separation; of a radius by 3/8.
    task = sim.Sim(
        (colour, size), (colour / 8 / math.sqrt(6), size * 3 / 8 / math.sqrt(3)), 2, origin=True
    )
    start = 0.1 * np.array([1, 0.99, 0.99, 1])

    def flow(time: float, w: np.ndarray) -> np.ndarray:
        now = torch.from_numpy(w).reshape(2, 2)
        return symmetric.jacobian_velocity(now, task.rates).flatten().numpy()

    for at in (60, 120, 200):
        end = solve_ivp(flow, (0, float(law.moments[at])), start, rtol=1e-8, atol=1e-10).y[:, -1]
        expected = torch.from_numpy(end).reshape(2, 2) @ task.target / task.target
        torch.testing.assert_close(law.coordinates[at], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(law.coordinates[-1], torch.ones(2).double(), atol=0.02, rtol=0)


def test_the_theory_foresees_a_detour_only_where_colours_are_close():
    close, far = (
        trajectory.rise((theory(world(by)).coordinates - 1).square().mean(dim=1)).height
        for by in (0.137, 0.689)
    )
    assert close > 0.1
    assert far < 0.01


MEASURED = torch.tensor([100.0, 200, 400, 800, 1600, 3200]).double()


def line(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slow(moments: Tensor, rate: float) -> Theory:
    both = [1 - torch.exp(-rate * moments), 1 - torch.exp(-2 * rate * moments)]
    return Theory(moments, torch.stack(both, dim=1))


def test_a_theory_is_read_between_its_moments():
    law = Theory(line(0, 1, 3), torch.stack([line(0, 1, 0), line(5, 5, 7)], dim=1))
    found = law.at(line(0, 50, 200, 300, 900), scale=100.0)
    expected = torch.stack([line(0, 0.5, 0.5, 0, 0), line(5, 5, 6, 7, 7)], dim=1)
    torch.testing.assert_close(found, expected)


def test_one_time_scale_is_found_for_all_courses():
    moments = torch.linspace(0, 20, 2001).double()
    laws = [slow(moments, rate) for rate in (0.3, 1.0)]
    courses = [Course(MEASURED, law.at(MEASURED, 250.0)) for law in laws]
    found = time_scale(courses, laws)
    assert found.steps == pytest.approx(250, rel=1e-3)
    assert found.error < 1e-4
    apart = [Course(MEASURED, c.coordinates + 0.1) for c in courses]
    assert time_scale(apart, laws).error > 0.05


def test_a_time_scale_is_a_compromise_between_courses():
    moments = torch.linspace(0, 20, 2001).double()
    law = slow(moments, 1.0)
    courses = [Course(MEASURED, law.at(MEASURED, scale)) for scale in (200.0, 800.0)]
    found = time_scale(courses, [law, law])
    assert 200 < found.steps < 800
    assert found.error > 0.05


# Results, the figure and the script


def recorded(key: str, seed: int, found: dict[str, list]) -> Results:
    measured = {**SPACE.over_training(found), "concept_mse": Measurement(0.01, 0.0, 0.02, n=256)}
    levels = STUDY.levels.get(key, {})
    origin = Origin("concept_space", key, seed, "stub", levels, seconds=60.0)
    return Results(origin, rows(Findings(measured, found)))


@pytest.fixture(scope="module")
def runs() -> list[Results]:
    """Results of models that follow the theory, a little late with each seed."""
    steps = milestones(100, 8000, 36)
    made = []
    for by in SEPARATIONS:
        for seed in range(3):
            scale = 2.0 * (1 + 0.1 * seed)
            course = theory(world(by)).at(torch.tensor(steps).double(), scale).clamp(0, 1)
            found = curves(*course.T.tolist(), steps=[*steps])
            made.append(recorded(f"{by:g}", seed, found))
    return made


OTHER = curves([0.7, 0.3, 0.2, 0.6, 0.9, 1.0, 1.0], [0.5] * 7)


def drawn(*each: Results) -> list[Line]:
    return lines(table(each))


def test_lines_are_separations_and_means_over_seeds():
    full = recorded("0.137-full_scale", 0, OTHER)
    pair = [recorded("0.137", 0, DETOUR), recorded("0.137", 1, OTHER)]
    found = drawn(*pair, recorded("0.689", 0, OTHER), full)
    assert [line.separation for line in found] == [0.137, 0.689]
    first, second = found[0].mean[0], found[0].mean[1]
    assert first[:3] == pytest.approx([100, 0.6, 0.5])
    assert second[:3] == pytest.approx([200, 0.2, 0.7])
    assert len(found[0].seeds) == 2


def test_seeds_whose_circles_come_later_shorten_the_mean():
    late = curves([0.5] * 7, [0.5] * 7, [0, 0, 1, 1, 1, 1, 1])
    (line,) = drawn(recorded("0.137", 0, DETOUR), recorded("0.137", 1, late))
    assert [row[0] for row in line.mean] == [300, 400, 500, 600, 700]


def test_one_time_scale_is_fitted_to_all_runs(runs: list[Results]):
    found = fitted(drawn(*runs))
    assert found.measurements["theory_steps"].value == pytest.approx(2.2, rel=0.03)
    assert found.measurements["theory_error"].value < 0.05
    assert found.measurements["theory_error"].n == 6
    columns = [found.curves[f"{name}@0.137"][10] for name in ("blue", "small", "concept_mse")]
    (_, blue), (_, small), (_, error) = columns
    assert error == pytest.approx(((blue - 1) ** 2 + (small - 1) ** 2) / 2)
    with pytest.raises(ValueError, match="nothing to fit"):
        fitted([])


def test_the_figure_shows_every_seed_the_mean_and_the_theory(runs: list[Results]):
    plane, error, speed = draw(table(runs), {}).axes
    # A course and its first point for each separation; of three seeds and their mean.
    assert len(plane.lines) == 2 * 6
    assert (len(error.lines), len(speed.lines)) == (4 * 6, 4 * 6)
    origin = Origin("concept_space", "theory", 0, "stub")
    whole = [*runs, Results(origin, rows(fitted(drawn(*runs))))]
    figure = draw(table(whole), {})
    plane, error, speed = figure.axes
    assert (len(plane.lines), len(error.lines), len(speed.lines)) == (3 * 6, 5 * 6, 4 * 6)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[0] == "colours 0.137 apart"
    assert words[6:] == ["mean over seeds", "a seed", "linear theory", "first circles"]


def test_lines_of_the_figure_are_the_curves_of_the_runs():
    pair = [recorded("0.137", 0, DETOUR), recorded("0.137", 1, OTHER)]
    plane, error, speed = draw(table(pair), {}).axes
    seeds = [[value for _, value in found["concept_mse"]] for found in (DETOUR, OTHER)]
    mean = [sum(values) / 2 for values in zip(*seeds, strict=True)]
    for line, expected in zip(error.lines, [*seeds, mean], strict=True):
        assert list(line.get_ydata()) == pytest.approx(expected)
    course = torch.tensor(
        [[b, s] for (_, b), (_, s) in zip(*list(OTHER.values())[:2], strict=True)]
    )
    steps = torch.arange(100, 800, 100).double()
    fast = trajectory.speed(steps, course.double())
    assert list(speed.lines[1].get_ydata()) == pytest.approx(fast.tolist())
    across, up = plane.lines[0].get_data()
    assert list(across)[:2] == pytest.approx([0.6, 0.2])
    assert list(up)[:2] == pytest.approx([0.5, 0.7])


def test_the_trajectories_move_one_frame_per_milestone(tmp_path: Path):
    found = animated(drawn(recorded("0.137", 0, DETOUR), recorded("0.689", 0, DETOUR)))
    (tmp_path / "moving.gif").write_bytes(found)
    with Image.open(tmp_path / "moving.gif") as picture:
        assert picture.n_frames == 7
    # 24 frames stay below a third of a megabyte.
    assert len(found) < 333_000 * 7 / 24
    with pytest.raises(ValueError, match="nothing to show"):
        animated([])


def test_the_script_keeps_the_theory_and_a_moving_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    results.write(recorded("0.137", 0, DETOUR), tmp_path / "runs/0.137/seed0")
    results.write(recorded("0.137", 0, OTHER), tmp_path / "runs/0.137-tiny/seed0")
    main(tmp_path / "runs", tmp_path / "kept")
    (kept,) = results.read(tmp_path / "kept/concept_space.csv")
    assert (kept.origin.cell, kept.origin.seconds) == ("theory", 60)
    assert {"theory_steps", "blue@0.137"} <= {row.measurement for row in kept.rows}
    assert (tmp_path / "docs/figures/concept_space.gif").exists()
    with pytest.raises(ValueError, match="has no results of concept_space"):
        main(tmp_path / "none", tmp_path / "kept")
