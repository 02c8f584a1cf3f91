"""Concept space: what the probe reads, what a course says, and what is drawn of it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.concept_space import animated, judged, main, over_seeds, summary
from jaxtyping import Float
from PIL import Image
from recombine.experiment import Trained, joined
from recombine.experiments import concept_space, variants
from recombine.experiments.concept_space import ConceptSpace, milestones, signals, theory
from recombine.report.record import Record
from scipy.integrate import solve_ivp
from torch import Tensor

from recombine.condition import ScaledValues
from recombine.figures.concept_space import draw, lines
from recombine.linear import sim, symmetric
from recombine.measure import trajectory
from recombine.measure.circles import (
    Reading,
    asked_scenes,
    concept_mse,
    coordinates,
    probe_errors,
    read,
    spotted,
)
from recombine.measurement import Measurement, exact_binomial
from recombine.scene import compositions
from recombine.worlds.circles import CIRCLES, Circles

CPU = torch.device("cpu")
BASE = concept_space.separation_0137
SEPARATIONS = {
    name: each for name, each in variants("concept_space").items() if name.startswith("separation_")
}
STEPS = torch.tensor([100.0, 200, 400, 800, 1600, 3200]).double()


def curve(*values: float) -> Float[Tensor, " time"]:
    return torch.tensor(values, dtype=torch.float64)


# A course


def test_a_rise_is_the_largest_one_above_what_was_before():
    # Falls to 0.2, rises to 0.5, falls to 0.1, rises to 0.3.
    assert trajectory.rise(curve(0.4, 0.2, 0.3, 0.5, 0.1, 0.3)) == pytest.approx((0.3, 1, 3))
    assert trajectory.rise(curve(0.25, 0.45, 0.1)) == pytest.approx((0.2, 0, 1))


def test_a_curve_that_only_falls_does_not_rise():
    assert trajectory.rise(curve(0.5, 0.3, 0.3, 0.1)).height == 0


def test_a_rise_is_what_all_pairs_of_a_random_curve_say(rng: torch.Generator):
    values = torch.rand(40, generator=rng).double()
    pairs = [(float(values[b] - values[a]), a, b) for b in range(40) for a in range(b)]
    assert trajectory.rise(values) == pytest.approx(max(pairs))


def test_a_concept_is_learned_from_the_first_of_three_in_a_row():
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.1, 0.8, 0.8, 0.9)) == 800
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.9, 0.1, 0.1, 0.1)) == 100
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.1, 0.1, 0.9, 0.9)) is None
    assert trajectory.learned_at(STEPS, curve(0, 0, 0, 0, 0.79, 1)) is None
    assert trajectory.learned_at(STEPS[:2], curve(1, 1)) is None
    assert trajectory.learned_at(STEPS, curve(0, 0.6, 0.6, 0, 0, 0), level=0.6, in_a_row=2) == 200


def test_speed_along_a_straight_line_is_its_slope_at_uneven_steps():
    course = torch.stack([3e-4 * STEPS, 1 - 4e-4 * STEPS], dim=1)
    found = trajectory.speed(STEPS, course, width=0.0)
    torch.testing.assert_close(found, torch.full_like(STEPS, 5e-4))


def test_smoothing_keeps_sums_and_spreads_a_peak_by_its_width():
    peak = torch.zeros(41).double()
    peak[20] = 1
    blurred = trajectory.smoothed(peak, 2.0)
    place = torch.arange(41).double() - 20
    assert blurred.sum() == pytest.approx(1)
    assert (blurred * place**2).sum() == pytest.approx(4, rel=0.01)
    assert torch.equal(trajectory.smoothed(peak, 0.0), peak)


def test_an_exponential_slow_down_has_its_rate_and_fits_better_than_a_power_law():
    steps = torch.linspace(100, 4000, 30).double()
    speed = torch.cat([curve(1e-4, 3e-4), 2e-3 * torch.exp(-0.002 * steps)])
    every = torch.cat([curve(20, 60), steps])
    found = trajectory.slow_down(every, speed)
    assert found is not None
    assert found.rate.value == pytest.approx(0.002)
    assert found.rate.low == pytest.approx(0.002)
    assert found.rate.n == 30
    assert found.explained == pytest.approx(1)
    assert found.explained_by_log < 0.95


def test_a_power_law_fits_a_line_over_the_log_of_steps():
    steps = torch.linspace(100, 4000, 30).double()
    found = trajectory.slow_down(steps, steps**-1.5)
    assert found is not None
    assert found.explained_by_log == pytest.approx(1)
    assert found.explained < 0.95


def test_a_slow_down_ends_where_nothing_moves_any_more():
    steps = torch.linspace(100, 1000, 10).double()
    speed = torch.exp(-0.01 * steps)
    speed[6:] = 0
    found = trajectory.slow_down(steps, speed)
    assert found is not None
    assert found.rate.n == 6
    assert found.rate.value == pytest.approx(0.01)
    assert trajectory.slow_down(steps[:3], speed[:3]) is None
    assert trajectory.slow_down(steps[:1], speed[:1]) is None
    # A step of 100 at the speed exp(-5) is a move of 0.67.
    moves = trajectory.slow_down(steps, torch.exp(-0.01 * steps), least=0.68)
    assert moves is not None
    assert moves.rate.n == 4
    assert trajectory.slow_down(steps, torch.zeros(10).double()) is None


def test_the_interval_of_a_rate_is_that_of_a_straight_line(rng: torch.Generator):
    steps = torch.linspace(100, 1000, 12).double()
    log = -0.003 * steps + 0.1 * torch.randn(12, generator=rng).double()
    log[0] += 1.0
    found = trajectory.slow_down(steps, log.exp())
    design = torch.stack([torch.ones(12).double(), steps], dim=1)
    coefficients = torch.linalg.lstsq(design, log[:, None]).solution[:, 0]
    left = log - design @ coefficients
    variance = left.square().sum() / 10 / (steps - steps.mean()).square().sum()
    reach = 2.2281 * float(variance.sqrt())  # Student's t of 10 degrees of freedom
    assert found is not None
    assert found.rate.value == pytest.approx(-float(coefficients[1]))
    assert found.rate.high - found.rate.value == pytest.approx(reach, rel=1e-4)
    assert found.rate.value - found.rate.low == pytest.approx(reach, rel=1e-4)


def test_the_distance_to_the_corner_is_the_mean_of_squares_and_its_interval_covers_both():
    found = trajectory.corner_distance((64, 192), 256)
    assert found.value == pytest.approx((0.75**2 + 0.25**2) / 2)
    ends = [exact_binomial(count, 256, 0.975) for count in (64, 192)]
    assert found.low == pytest.approx(sum((high - 1) ** 2 for _, high in ends) / 2)
    assert found.high == pytest.approx(sum((low - 1) ** 2 for low, _ in ends) / 2)
    assert found.n == 256
    assert trajectory.corner_distance((256, 256), 256).value == 0


def slow(moments: Tensor, rate: float) -> trajectory.Theory:
    both = [1 - torch.exp(-rate * moments), 1 - torch.exp(-2 * rate * moments)]
    return trajectory.Theory(moments, torch.stack(both, dim=1))


def test_a_theory_is_read_between_its_moments():
    law = trajectory.Theory(curve(0, 1, 3), torch.stack([curve(0, 1, 0), curve(5, 5, 7)], dim=1))
    found = law.at(curve(0, 50, 200, 300, 900), scale=100.0)
    expected = torch.stack([curve(0, 0.5, 0.5, 0, 0), curve(5, 5, 6, 7, 7)], dim=1)
    torch.testing.assert_close(found, expected)


def test_one_time_scale_is_found_for_all_courses():
    moments = torch.linspace(0, 20, 2001).double()
    laws = [slow(moments, rate) for rate in (0.3, 1.0)]
    courses = [trajectory.Course(STEPS, law.at(STEPS, 250.0)) for law in laws]
    found = trajectory.time_scale(courses, laws)
    assert found.steps == pytest.approx(250, rel=1e-3)
    assert found.error < 1e-4
    apart = [trajectory.Course(STEPS, c.coordinates + 0.1) for c in courses]
    assert trajectory.time_scale(apart, laws).error > 0.05


def test_a_time_scale_is_a_compromise_between_courses():
    moments = torch.linspace(0, 20, 2001).double()
    law = slow(moments, 1.0)
    courses = [trajectory.Course(STEPS, law.at(STEPS, scale)) for scale in (200.0, 800.0)]
    found = trajectory.time_scale(courses, [law, law])
    assert 200 < found.steps < 800
    assert found.error > 0.05


# The probe


@pytest.mark.parametrize("name", list(SEPARATIONS))
def test_the_probe_knows_all_four_compositions_at_every_separation(name: str):
    world = SEPARATIONS[name].world
    found = probe_errors(world, 64, CPU)
    assert found["probe_colour_accuracy"].value == 1
    assert found["probe_size_accuracy"].value == 1
    assert found["probe_circles"].value > 0.97
    assert found["probe_circles"].n == 256


@pytest.mark.parametrize("which", compositions(Circles.factors))
def test_true_renders_are_at_their_corner(which: tuple[str, str]):
    world = BASE.world
    reading = read(world.image(asked_scenes(world, which, 64, CPU)), world)
    corner = torch.tensor([float(which[0] == "blue"), float(which[1] == "small")])
    assert reading.circle.all()
    torch.testing.assert_close(reading.way.mean(dim=0), corner, atol=0.12, rtol=0)
    found = coordinates(reading, "")
    assert (found["blue"].value, found["small"].value) == tuple(corner.tolist())
    assert concept_mse(reading).value == pytest.approx(float((corner - 1).square().mean()))


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("noise", lambda g: 0.5 + 0.3 * torch.randn(64, 3, 32, 32, generator=g)),
        ("grey", lambda g: torch.full((4, 3, 32, 32), 0.5)),
        ("not a number", lambda g: torch.full((4, 3, 32, 32), torch.nan)),
    ],
)
def test_what_is_no_circle_has_no_coordinates(
    name: str, image: Callable[[torch.Generator], Tensor], rng: torch.Generator
):
    # Far apart, so that it is not for its colour that nothing is read.
    reading = read(image(rng), Circles(colour_separation=0.8))
    assert not reading.circle.any()
    found = coordinates(reading, "")
    assert found["circles"].value == 0
    for axis in ("blue", "small"):
        assert (found[axis].value, found[axis].low, found[axis].high) == (0.5, 0, 1)
    assert "blue_way" not in found
    error = concept_mse(reading)
    assert (error.value, error.low, error.high) == (0.25, 0, 1)


def noisy(which: tuple[str, str], noise: float, rng: torch.Generator) -> tuple[Tensor, Circles]:
    world = Circles(colour_separation=0.137)
    image = world.image(asked_scenes(world, which, 256, CPU))
    return (image + noise * torch.randn(image.shape, generator=rng)).clamp(0, 1), world


@pytest.mark.parametrize("which", compositions(Circles.factors))
def test_what_is_read_through_noise_is_right(which: tuple[str, str], rng: torch.Generator):
    reading = read(*noisy(which, 0.15, rng))
    assert reading.circle.float().mean() > 0.9
    right = (reading.way > 0.5) == torch.tensor([which[0] == "blue", which[1] == "small"])
    assert right[reading.circle].all(dim=1).float().mean() > 0.96


def test_noise_that_hides_a_colour_hides_a_circle(rng: torch.Generator):
    image, world = noisy(("red", "small"), 0.35, rng)
    assert read(image, world).circle.float().mean() < 0.1
    # The same noise does not hide colours that are further apart.
    assert read(image, Circles(colour_separation=0.8)).circle.float().mean() > 0.8


def test_the_noise_of_a_pixel_is_estimated(rng: torch.Generator):
    image = 0.5 + 0.1 * torch.randn(64, 3, 64, 64, generator=rng)
    assert float(spotted(image).noise.mean()) == pytest.approx(3 * 0.1**2, rel=0.03)


def test_two_circles_are_not_one():
    world = Circles(among=(("red", "small"),), spread=0.0, noise=0.0)
    scenes = world.scenes(torch.arange(2), 0)
    left, right = (
        world.image(
            replace(
                scenes,
                position=torch.full_like(scenes.position, place),
                backdrop=torch.full_like(scenes.backdrop, 0.9),
            )
        )
        for place in (-0.5, 0.5)
    )
    assert read(left, world).circle.all()
    assert not read(torch.minimum(left, right), world).circle.any()


def test_samples_that_are_no_circles_do_not_count():
    way = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    circle = torch.tensor([True, True, True, False])
    found = coordinates(Reading(circle, way), "@x")
    assert (found["blue@x"].value, found["blue@x"].n) == (pytest.approx(2 / 3), 3)
    assert found["small@x"].value == pytest.approx(2 / 3)
    assert found["circles@x"].value == 0.75
    assert found["blue_way@x"].value == pytest.approx(2 / 3)
    assert concept_mse(Reading(circle, way)).value == pytest.approx(1 / 9)


# The question


def drawing(
    draw_as: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Measurement]:
    """Ask a model that draws true renders of what it makes of its condition."""

    def images(trained: Trained, condition: Tensor, generator: torch.Generator) -> Tensor:
        world = Circles()
        scenes = world.scenes(torch.arange(len(condition)), seed=9)
        told = draw_as(condition / BASE.conditioner.encode.scale)
        return world.image(replace(scenes, colour=told[:, None, :3], size=told[:, 3:]))

    monkeypatch.setattr(Trained, "images", images)
    ask = ConceptSpace(samples=16)
    trained = Trained(BASE, lambda x, sigma, condition: x, CPU)
    return dict(ask(trained, torch.Generator()).measurements)


def test_a_model_that_draws_what_it_is_told_is_at_every_corner(monkeypatch: pytest.MonkeyPatch):
    found = drawing(lambda told: told, monkeypatch)
    assert found["concept_mse"].value == found["concept_mse_ceiling"].value == 0
    for which in compositions(Circles.factors):
        name = " ".join(which)
        assert found[f"accuracy@{name}"].value == 1
        for axis in ("blue", "small"):
            assert found[f"{axis}@{name}"].value == float(axis in which)
            assert found[f"{axis}_ceiling@{name}"].value == float(axis in which)


def test_a_model_that_draws_small_circles_red_is_at_the_corner_it_passes_by(
    monkeypatch: pytest.MonkeyPatch,
):
    def red_if_small(told: Tensor) -> Tensor:
        small = told[:, 3:] < 0.45
        red = told.new_tensor([0.5685, 0.4315, 0.4315])
        return torch.cat([torch.where(small, red, told[:, :3]), told[:, 3:]], dim=1)

    found = drawing(red_if_small, monkeypatch)
    assert (found["blue@blue small"].value, found["small@blue small"].value) == (0, 1)
    assert found["concept_mse"].value == 0.5
    assert found["accuracy@blue small"].value == 0
    assert found["accuracy@blue big"].value == found["accuracy@red small"].value == 1


def test_no_training_shows_small_blue_circles_and_every_question_tells_of_class_means():
    for experiment in SEPARATIONS.values():
        assert experiment.world.among == CIRCLES.seen
        scenes = asked_scenes(experiment.world, ("blue", "small"), 8, CPU)
        assert scenes.size.unique().tolist() == pytest.approx([0.25])
        assert len(scenes.colour.unique(dim=0)) == 1
        half = experiment.world.colour_separation / 2
        assert scenes.colour[0, 0].tolist() == pytest.approx([0.5 - half, 0.5 - half, 0.5 + half])


def test_the_variants_are_the_separations_of_the_figure():
    apart = {name: each.world.colour_separation for name, each in SEPARATIONS.items()}
    assert apart == {
        "separation_0137": 0.137,
        "separation_0247": 0.247,
        "separation_0358": 0.358,
        "separation_0468": 0.468,
        "separation_0579": 0.579,
        "separation_0689": 0.689,
    }
    assert {each.world.size_separation for each in SEPARATIONS.values()} == {0.4}
    assert {each.conditioner.encode for each in SEPARATIONS.values()} == {ScaledValues(scale=0.2)}


def test_milestones_are_even_in_their_root():
    assert milestones(100, 400, 3) == (100, 225, 400)
    assert milestones(500, 20000, 60)[7] == 1331
    steps = BASE.budget.milestones
    assert (steps[0], steps[-1], len(steps)) == (100, BASE.budget.steps, 24)
    with pytest.raises(ValueError, match="9 milestones do not fit between 1 and 4"):
        milestones(1, 4, 9)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="2 samples or more; got 1"):
        ConceptSpace(samples=1)


# Looking back


def curves(
    blue: list[float], small: list[float], circles: list[float] | None = None
) -> dict[str, list]:
    steps = [100 * (at + 1) for at in range(len(blue))]
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


def test_looking_back_finds_the_detour():
    long = replace(BASE, budget=replace(BASE.budget, steps=16_000, milestones=()))
    found = ConceptSpace().looked_back(long, DETOUR)
    measured = found.measurements
    assert measured["concept_mse_rise"].value == pytest.approx(0.505 - 0.25)
    assert measured["concept_mse_highest"].value == pytest.approx(0.505)
    assert measured["blue_lowest"].value == 0
    assert measured["small_lowest"].value == 0.5
    assert found.curves["concept_rise_steps"] == [100, 300]
    assert [step for step, _ in found.curves["concept_speed"]] == [100 * k for k in range(1, 8)]
    assert measured["slow_down_rate"].value > 0
    assert "concept_mse_rise_plotted" not in measured


@pytest.mark.parametrize(("steps", "height"), [(3_000, 0.505 - 0.41), (4_000, 0.0)])
def test_the_authors_begin_after_a_share_of_training(steps: int, height: float):
    """From step 1,331 of 20,000: here 200 of 3,000, or 266 of 4,000; then the error only falls."""
    short = replace(BASE, budget=replace(BASE.budget, steps=steps, milestones=()))
    found = ConceptSpace().looked_back(short, DETOUR).measurements
    assert found["concept_mse_rise_plotted"].value == pytest.approx(height)


def test_the_slow_down_is_that_after_the_detour():
    back = [1 - math.exp(-0.2 * k) for k in range(1, 25)]
    blue = [0.9, 0.5, 0.1, 0.0, *back]
    found = ConceptSpace().looked_back(BASE, curves(blue, [1.0] * len(blue))).measurements
    assert found["slow_down_rate"].value == pytest.approx(0.002, rel=0.1)
    assert found["slow_down_explained"].value > 0.97


def test_the_slow_down_ends_when_less_than_half_a_sample_moves():
    rest = [0.5, 0.75, 0.875, 0.9375, 0.97, 0.99, *[1.0] * 10]
    found = ConceptSpace().looked_back(BASE, curves(rest, [1.0] * len(rest))).measurements
    # What is blurred by 1.5 measurements goes on to move by a little for four more.
    assert 6 <= found["slow_down_rate"].n <= 9


def test_an_error_that_rises_to_the_end_has_no_slow_down():
    found = ConceptSpace().looked_back(BASE, curves([0.9, 0.6, 0.3, 0.0], [1.0] * 4)).measurements
    assert found["concept_mse_rise"].value == pytest.approx((1 - 0.01) / 2)
    assert "slow_down_rate" not in found


def test_looking_back_finds_when_and_in_which_order_concepts_are_learned():
    measured = ConceptSpace().looked_back(BASE, DETOUR).measurements
    assert measured["blue_learned_at"].value == 500
    assert measured["small_learned_at"].value == 200
    assert measured["colour_first"].value == 0
    # Of the compositions that are trained on, colour is first here.
    assert measured["blue_seen_learned_at"].value == 200
    assert measured["small_seen_learned_at"].value == 300
    assert measured["colour_seen_first"].value == 1


def test_a_concept_that_is_never_learned_is_the_last():
    measured = ConceptSpace().looked_back(BASE, curves([0.2] * 5, [0.9] * 5)).measurements
    assert "blue_learned_at" not in measured
    assert measured["colour_first"].value == 0
    measured = ConceptSpace().looked_back(BASE, curves([0.9] * 5, [0.9] * 5)).measurements
    assert measured["colour_first"].value == 0.5
    measured = ConceptSpace().looked_back(BASE, curves([0.2] * 5, [0.2] * 5)).measurements
    assert "colour_first" not in measured


def test_what_was_before_there_were_circles_does_not_count():
    early = curves([1.0, 1.0, 0.5, 0.2, 1.0, 1.0], [1.0] * 6, [0.0, 0.49, 0.5, 0.2, 1.0, 1.0])
    found = ConceptSpace().looked_back(BASE, early)
    assert found.measurements["concept_mse_rise_circles@0.25"].value == pytest.approx(0.64 / 2)
    assert found.measurements["concept_mse_rise_circles@0.9"].value == 0
    assert found.measurements["concept_mse_rise"].value == pytest.approx((0.64 - 0.25) / 2)
    assert [step for step, _ in found.curves["concept_speed"]] == [300, 400, 500, 600]
    assert (
        not ConceptSpace().looked_back(BASE, curves([0.5] * 3, [0.5] * 3, [0.1] * 3)).measurements
    )
    assert not ConceptSpace().looked_back(BASE, {}).measurements


@pytest.mark.parametrize(
    ("separation", "rise", "words"),
    [
        (0.137, Measurement(0.1, 0.01, 0.2, 3), "as asked"),
        (0.137, Measurement(0.3, -0.01, 0.6, 3), "not as asked"),
        (0.247, Measurement(0.09, 0.01, 0.2, 3), "not as asked"),
        (0.468, Measurement(0.2, 0.1, 0.3, 3), "nothing is asked"),
        (0.689, Measurement(0.04, 0.01, 0.1, 3), "as asked"),
        (0.689, Measurement(0.05, 0.01, 0.1, 3), "not as asked"),
    ],
)
def test_the_verdict_is_what_is_asked_at_a_separation(
    separation: float, rise: Measurement, words: str
):
    assert judged(rise, separation).verdict == words


def test_an_experiment_joins_what_its_questions_look_back_on():
    found = BASE.looked_back(DETOUR)
    assert found.measurements == ConceptSpace().looked_back(BASE, DETOUR).measurements
    assert joined([]).measurements == {}
    plain = replace(BASE, asks=())
    assert plain.looked_back(DETOUR).measurements == {}


# The theory


def test_a_signal_is_how_much_of_an_image_a_concept_moves():
    weak, strong = (signals(Circles(colour_separation=by, noise=0.0), 64) for by in (0.2, 0.4))
    assert strong[0] == pytest.approx(2 * weak[0], rel=1e-3)
    # Two channels of three move by the separation, over the area of the circle.
    world = Circles(colour_separation=0.4, noise=0.0)
    ones = asked_scenes(world, ("red", "big"), 64, CPU)
    white = replace(ones, colour=torch.ones_like(ones.colour), backdrop=0 * ones.backdrop)
    share = world.image(white)[:, 0]
    assert strong[0] == pytest.approx(0.4 * math.sqrt(2 / 3 * float(share.square().mean())))
    assert BASE.world.colour_separation < 0.6
    assert signals(BASE.world)[0] < signals(BASE.world)[1]


def test_the_theory_is_the_linear_flow_of_clusters_as_far_apart_as_the_concepts():
    law = theory(BASE.world)
    colour, size = signals(BASE.world)
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
    rises = [
        trajectory.rise((theory(each.world).coordinates - 1).square().mean(dim=1)).height
        for each in SEPARATIONS.values()
    ]
    assert rises[0] > 0.1
    assert rises[-1] < 0.01


# Records, figures and the summary


def record(separation: str, seed: int, found: dict[str, list], seconds: float = 60.0) -> Record:
    experiment = SEPARATIONS[f"separation_{separation}"]
    back = experiment.looked_back(found)
    command = f"recombine run concept_space:separation_{separation} --seed {seed}"
    measured = {**back.measurements, "concept_mse": Measurement(0.01, 0.0, 0.02, n=256)}
    return Record(
        experiment.question,
        command,
        "x",
        seed,
        "stub",
        seconds,
        measured,
        headline=("concept_mse",),
        curves={**found, **back.curves},
    )


def stubs() -> list[Record]:
    """Records of models that follow the theory, a little late with each seed."""
    steps = torch.tensor(milestones(100, 8000, 36)).double()
    made = []
    for name, experiment in SEPARATIONS.items():
        law = theory(experiment.world)
        for seed in range(3):
            blue, small = law.at(steps, 2.0 * (1 + 0.1 * seed)).clamp(0, 1).T.tolist()
            found = curves(blue, small)
            spread = {
                key: [[int(step), v] for step, (_, v) in zip(steps, each, strict=True)]
                for key, each in found.items()
            }
            made.append(record(name.removeprefix("separation_"), seed, spread))
    return made


@pytest.fixture(scope="module")
def runs() -> list[Record]:
    return stubs()


def test_lines_are_separations_and_means_over_seeds():
    other = curves([0.7, 0.3, 0.2, 0.6, 0.9, 1.0, 1.0], [0.5] * 7)
    found = lines([record("0137", 0, DETOUR), record("0137", 1, other), record("0689", 0, other)])
    assert [line.separation for line in found] == [0.137, 0.689]
    first, second = found[0].mean[0], found[0].mean[1]
    assert first[:3] == pytest.approx([100, 0.6, 0.5])
    assert second[:3] == pytest.approx([200, 0.2, 0.7])
    assert len(found[0].seeds) == 2


def test_seeds_whose_circles_come_later_shorten_the_mean():
    late = curves([0.5] * 7, [0.5] * 7, [0, 0, 1, 1, 1, 1, 1])
    (line,) = lines([record("0137", 0, DETOUR), record("0137", 1, late)])
    assert [row[0] for row in line.mean] == [300, 400, 500, 600, 700]


def test_the_summary_recovers_the_time_scale_and_judges_the_rise(runs: list[Record]):
    found = summary(runs)
    assert found.measurements["theory_steps"].value == pytest.approx(2.2, rel=0.03)
    assert found.measurements["theory_error"].value < 0.05
    close, far = (found.measurements[f"concept_mse_rise@{by}"] for by in ("0.137", "0.689"))
    assert close.value > 0.1
    assert close.n == 3
    assert close.low is not None
    assert (close.verdict, far.verdict) == ("as asked", "as asked")
    assert found.measurements["concept_mse_rise@0.358"].verdict == "nothing is asked"
    assert found.measurements["blue_learned_at@0.689"].n == 3
    assert found.seconds == 18 * 60
    assert len(found.curves["course@0.137"]) == 3
    step, blue, small, error = found.curves["theory@0.137"][10]
    assert error == pytest.approx(((blue - 1) ** 2 + (small - 1) ** 2) / 2, abs=1e-4)


def test_seeds_that_agree_by_few_looks_have_no_interval():
    found = summary([record("0137", seed, DETOUR) for seed in range(3)]).measurements
    same = found["small_seen_learned_at@0.137"]
    assert (same.value, same.low, same.high, same.n) == (300, None, None, 3)


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("blue_learned_at", (200, 210, 205), True),
        ("blue_learned_at", (200, 2000, 300), False),
        ("blue_lowest", (0.5, 0.6, 0.55), True),
        ("blue_lowest", (0.1, 0.9, 0.95), False),
        ("concept_mse_rise", (0.0, 0.2, 0.1), True),
    ],
)
def test_an_interval_beyond_what_can_be_is_not_told(name: str, values: tuple, told: bool):
    def run(value: float) -> Record:
        measured = {name: Measurement(value, None, None, n=256)}
        return replace(record("0137", 0, DETOUR), measurements=measured, headline=())

    found = over_seeds([run(value) for value in values], name)
    assert found.value == pytest.approx(sum(values) / 3)
    assert (found.low is not None) == told


def test_a_rise_that_chance_may_have_made_is_not_what_is_asked():
    still = curves([0.5] * 7, [0.5] * 7)
    found = summary([record("0137", 0, DETOUR), record("0137", 1, still)])
    rise = found.measurements["concept_mse_rise@0.137"]
    assert rise.value > 0.1
    assert rise.low < 0
    assert rise.verdict == "not as asked"
    one = summary([record("0137", 0, DETOUR)]).measurements["concept_mse_rise@0.137"]
    assert (one.low, one.n, one.verdict) == (None, 1, "not as asked")
    with pytest.raises(ValueError, match="nothing to fit"):
        summary([])


def test_the_figure_is_the_same_from_the_runs_and_from_their_summary(runs: list[Record]):
    whole = summary(runs)
    from_runs, from_summary = draw([*runs, whole]), draw([whole])
    for one, other in zip(from_runs.axes, from_summary.axes, strict=True):
        assert len(one.lines) == len(other.lines)
        for mine, theirs in zip(one.lines, other.lines, strict=True):
            for a, b in zip(mine.get_data(), theirs.get_data(), strict=True):
                assert list(a) == pytest.approx(list(b), rel=1e-3, abs=1e-4)
    plane, error, speed = from_summary.axes
    # A course, its first point and the theory for each separation.
    assert len(plane.lines) == 3 * 6
    assert len(error.lines) == (3 + 1 + 1) * 6
    assert len(speed.lines) == (3 + 1) * 6
    assert len(draw(runs).axes[0].lines) == 2 * 6


def test_the_figure_shows_every_seed_and_the_mean():
    other = curves([0.7, 0.3, 0.2, 0.6, 0.9, 1.0, 1.0], [0.5] * 7)
    pair = [record("0137", 0, DETOUR), record("0137", 1, other)]
    plane, error, speed = draw(pair).axes
    for axes, name in ((error, "concept_mse"), (speed, "concept_speed")):
        seeds = [[value for _, value in each.curves[name]] for each in pair]
        mean = [sum(values) / 2 for values in zip(*seeds, strict=True)]
        shown = [list(line.get_data()[1]) for line in axes.lines]
        assert len(shown) == 3
        for line, expected in zip(shown, [*seeds, mean], strict=True):
            assert line == pytest.approx(expected)
        assert list(axes.lines[0].get_data()[0]) == [100 * k for k in range(1, 8)]
    across, up = plane.lines[0].get_data()
    assert (list(across)[:2], list(up)[:2]) == (
        pytest.approx([0.6, 0.2]),
        pytest.approx([0.5, 0.7]),
    )


def test_the_trajectories_move_one_frame_per_milestone(tmp_path: Path):
    found = animated([record("0137", 0, DETOUR), record("0689", 0, DETOUR)])
    (tmp_path / "moving.gif").write_bytes(found)
    with Image.open(tmp_path / "moving.gif") as picture:
        assert picture.n_frames == 7
    # 24 frames stay below a third of a megabyte.
    assert len(found) < 333_000 * 7 / 24
    with pytest.raises(ValueError, match="nothing to show"):
        animated([])


def test_the_script_writes_a_record_and_a_moving_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    record("0137", 0, DETOUR).save(tmp_path / "runs/separation_0137/seed0/record.json")
    main(tmp_path / "runs", tmp_path / "found.json")
    assert "theory_steps" in Record.load(tmp_path / "found.json").measurements
    assert (tmp_path / "docs/figures/concept_space.gif").exists()
    with pytest.raises(ValueError, match="has no record.json"):
        main(tmp_path / "none", tmp_path / "found.json")
