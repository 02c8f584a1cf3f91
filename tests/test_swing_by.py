"""Swing-by: what rises, when, how often, and in which order; and the figures of the paper."""

import math
from dataclasses import replace

import pytest
import torch

from recombine.figures.swing_by import STAGES, draw
from recombine.linear import analysis, curves, symmetric
from recombine.linear.sim import Sim
from recombine.measure.subject import Findings
from recombine.report.published import published
from recombine.results import Origin, Results
from recombine.results.findings import rows
from recombine.results.query import table
from recombine.run.compute import unwatched
from recombine.studies.swing_by import FIGURES, STUDY, Ensemble, SwingBy
from recombine.studies.swing_by_figures import TURNS, AsPublished

CELLS: dict[str, SwingBy] = dict(STUDY.cells)
BASE = SwingBy()
START = torch.Generator()


def losses(w: torch.Tensor, task: Sim) -> torch.Tensor:
    return analysis.out_of_distribution_loss(w @ task.target, task.target)


def followed(w: list[list[float]], task: Sim, times: torch.Tensor) -> torch.Tensor:
    """W over time, from a W that has a root."""
    start = torch.linalg.cholesky(torch.tensor(w).double())
    return symmetric.trajectories(start, task.rates, times, 1e-11, symmetric.jacobian)


def found(of: SwingBy, seed: int = 0) -> Findings:
    return of(torch.Generator().manual_seed(seed), unwatched)


def computed(of: SwingBy, seed: int = 0) -> dict[str, float]:
    return {name: each.value for name, each in found(of, seed).measurements.items()}


def test_a_bump_is_a_rise_above_what_was_before():
    loss = torch.tensor([[4.0, 1.0], [1.0, 2.0], [3.0, 3.0], [0.0, 1.0], [1.0, 3.5]])
    assert analysis.bump(loss).tolist() == [2.0, 2.5]
    assert analysis.drawdown(loss).tolist() == [4.0, 2.0]
    assert analysis.monotone(loss).tolist() == [False, False]
    assert analysis.monotone(torch.tensor([[2.0], [2.0], [1.0]])).item()


@pytest.mark.parametrize(
    ("loss", "falls", "turns"),
    [
        ([10.0, 5, 1, 0], 1, []),
        ([10.0, 1, 5, 0], 2, [1, 2]),
        ([10.0, 5, 5.04, 4], 1, []),
        ([10.0, 5, 6, 4, 4.5, 0], 3, [1, 2, 3, 4]),
        ([10.0, 12, 1], 1, [0, 1]),
        ([10.0, 10, 10], 0, []),
    ],
)
def test_descents_are_falls_that_rises_separate(loss: list[float], falls: int, turns: list[int]):
    tensor = torch.tensor(loss)
    assert analysis.descents(tensor[:, None], 0.01).tolist() == [falls]
    assert analysis.turning_points(tensor, 0.01) == turns


def test_the_time_of_learning_lies_between_two_looks():
    times = torch.tensor([0.0, 1.0, 3.0]).double()
    output = torch.tensor([[0.0, 0.0], [0.2, 0.1], [1.0, 0.2]]).double()
    found = analysis.learned_at(output, torch.ones(2).double(), times, 0.6)
    assert found.tolist() == [pytest.approx(2.0), math.inf]


def test_edges_of_the_hypercube_along_which_the_loss_falls_are_violations():
    losses_of = torch.tensor([[0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 2.0, 3.0], [0.0, 2.0, 3.0, 1.0]])
    assert analysis.edge_violations(losses_of).tolist() == [0, 0.5, 0.5]
    without = analysis.edge_violations(losses_of, with_origin=False)
    assert without.tolist() == [0, 0, 1]
    corners = Sim((1.0, 2.0), (0.1, 0.1), 2).corners
    assert analysis.corner_losses(torch.zeros(4, 2).double(), corners).tolist() == [0, 2, 0.5, 2.5]


# The check run of the sheet, section 5.3.
SLOW = Sim((1.0, 2.5), (0.05, 0.05), 2)
WEAK, STRONG = SLOW.rates.tolist()


def test_early_growth_has_the_rates_of_the_theory():
    times = torch.tensor([0.1, 0.75]).double()
    w = followed([[1e-6, 0.8e-6], [0.8e-6, 1e-6]], SLOW, times)
    slopes = (w[1] / w[0]).log() / 0.65
    sums = SLOW.rates[:, None] + SLOW.rates
    torch.testing.assert_close(slopes, sums, rtol=0.01, atol=0)


def test_the_minor_entry_turns_and_decays_as_the_theory_says():
    times = torch.linspace(0, 8, 4001).double()
    w = followed([[1e-6, 0.8e-6], [0.8e-6, 1e-6]], SLOW, times)
    peak = int(w[:, 0, 1].argmax())
    turnover = 2 * (WEAK + STRONG) / (WEAK + 3 * STRONG)
    assert turnover == pytest.approx(0.7345, abs=1e-4)
    assert w[peak, 1, 1].item() == pytest.approx(turnover, rel=0.01)
    settled = int((w[:, 1, 1] > 0.9999).int().argmax())
    rate = (w[settled, 0, 1] / w[settled + 500, 0, 1]).log().item()
    assert rate == pytest.approx((STRONG - WEAK) / 2, rel=0.01)


@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0])
def test_the_peak_of_the_minor_entry_grows_with_its_power_of_the_start(ratio: float):
    task = Sim((1.0, ratio), (0.05, 0.05), 2)
    sizes = torch.tensor([1e-4, 1e-5, 1e-6]).double()
    shape = torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double()
    start = torch.linalg.cholesky(sizes[:, None, None] * shape)
    times = torch.linspace(0, 40 / ratio, 4001).double()
    minor = lambda u: symmetric.jacobian(u)[..., 0, 1]  # noqa: E731
    peaks = symmetric.trajectories(start, task.rates, times, 1e-9, minor).amax(dim=0)
    fitted = (peaks[0] / peaks[-1]).log().item() / math.log(100)
    weak, strong = task.rates.tolist()
    assert fitted == pytest.approx((1 - weak / strong) / 2, abs=0.02)


@pytest.mark.parametrize(
    ("size", "correlation", "low", "at_low", "high", "at_high", "bump"),
    [(0.1, 0.99, 0.092, 1.07, 0.349, 3.53, 0.151), (0.03, 0.9, 0.228, 1.41, 0.325, 2.85, 0.043)],
)
def test_known_starts_swing_by_as_much_as_known(
    size: float, correlation: float, low: float, at_low: float, high: float, at_high: float, bump
):
    start = torch.linalg.cholesky(
        size * torch.tensor([[1, correlation], [correlation, 1]]).double()
    )
    of = replace(BASE, step=0.01, time=20.0)
    loss = losses(of.closely(start), of.task)
    first, second = analysis.turning_points(loss)
    times = of.clock(len(loss))
    assert loss[first].item() == pytest.approx(low, rel=0.01)
    assert loss[second].item() == pytest.approx(high, rel=0.01)
    assert times[first].item() == pytest.approx(at_low, rel=0.02)
    assert times[second].item() == pytest.approx(at_high, rel=0.02)
    # The sheet gives three digits.
    assert (analysis.bump(loss) / loss[0]).item() == pytest.approx(bump, abs=0.0015)


def test_the_recommended_setting_swings_by_and_its_training_never_does():
    found = computed(BASE)
    assert found["bump_share"] >= 0.95
    assert found["bump_share@5%"] == pytest.approx(0.84, abs=0.1)
    assert found["bump_median"] == pytest.approx(0.106, abs=0.02)
    assert found["training_monotone_share"] == 1
    assert found["descents"] > 1.9
    assert found["weak_drawdown_median"] == pytest.approx(0.35, abs=0.05)
    assert found["blown_up_share"] == 0


def test_negative_minor_entries_and_wide_starts_never_do():
    negative, wide = (CELLS[f"two_concepts-{name}"] for name in ("negative", "wide"))
    assert computed(replace(negative, starts=200, time=20.0))["bump_share"] == 0
    assert computed(replace(wide, starts=50, time=20.0))["bump_share"] == 0
    drawn = [each.drawn(torch.Generator().manual_seed(0)) for each in (BASE, negative)]
    w = [symmetric.jacobian(start[:200]) for start in drawn]
    torch.testing.assert_close(w[1][:, 0, 1], -w[0][:, 0, 1])
    torch.testing.assert_close(w[1].diagonal(dim1=1, dim2=2), w[0].diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize(("sigma", "weak_first"), [(1.0, False), (1.23, None), (1.5, True)])
def test_the_order_of_learning_flips_where_the_rates_are_equal(sigma: float, weak_first):
    task = Sim((1.0, 2.0), (sigma, 0.05), 2)
    times = torch.linspace(0, 10, 501).double()
    w = followed([[0.01, 0.0], [0.0, 0.01]], task, times)
    major = w.diagonal(dim1=1, dim2=2)
    weak, strong = analysis.learned_at(major, torch.ones(2).double(), times).tolist()
    if weak_first is None:
        assert weak / strong == pytest.approx(1, abs=0.02)
    else:
        assert (weak < strong) == weak_first


# Steps at which the loss of the authors' start turns, counted from the first update.
STEPS = {
    "figure5-code": (254, 440),
    "figure5-squared": (253, 435),
    "figure5": (),
    "figure8-code": (90, 150, 383, 725),
    "figure8-squared": (90, 147, 379, 671),
    "figure8": (383, 504),
    "figure8_caption": (178, 231, 514, 764),
    "figure9-code": (108, 146, 228, 374, 1171, 2939),
    "figure9": (205, 316, 644, 921),
    "figure10-code": (32, 107, 493),
    "figure10-squared": (31, 98, 459, 1872),
}


@pytest.mark.parametrize("key", STEPS)
def test_the_figures_of_the_paper_turn_where_they_are_known_to(key: str):
    of = CELLS[key]
    of = replace(of, time=min(of.time, 0.01 * (max(STEPS[key], default=900) * 4.5 + 99)))
    turned = of.turned(of.closely(of.authors()))
    turns = [each.value for name, each in turned.items() if name.startswith("loss@turn")]
    times = [each.value for name, each in turned.items() if name.startswith("time@turn")]
    assert turns == pytest.approx(TURNS.get(key, ()), rel=0.01)
    steps = [round(each / 0.01) - 1 for each in times]
    assert len(steps) == len(STEPS[key])
    assert all(abs(a - b) <= 3 for a, b in zip(steps, STEPS[key], strict=True))
    assert turned["authors_descents"].value == 1 + len(turns) // 2


def test_the_first_start_of_a_figure_is_the_authors():
    u = CELLS["figure5-code"].drawn(torch.Generator().manual_seed(5))[0]
    assert u[0].tolist() == pytest.approx([0.1246143, 0.1263687, 0.1977599], abs=1e-7)
    assert u[2].tolist() == pytest.approx([0.0603865, 0.1967220, 0.0232720], abs=1e-7)
    u = CELLS["figure9-code"].authors()
    assert u[3].tolist() == pytest.approx([0.0400070, 0.0121714, 0.0260231, 0.0402532], abs=1e-7)


def test_the_figures_share_one_stream_of_random_numbers_in_the_order_of_the_table():
    stream = torch.Generator().manual_seed(0)
    for figure in FIGURES:
        for way in ("-code", "-squared", ""):
            of = CELLS[f"{figure}{way}"]
            expected = replace(of, skip=0).drawn(stream)
            assert torch.equal(of.drawn(torch.Generator().manual_seed(0)), expected)


def test_known_turning_points_and_descents_are_counted():
    found = AsPublished()(START, unwatched).measurements
    assert found["agreeing_share"].value == 1
    assert found["agreeing_share"].n == sum(map(len, TURNS.values()))
    assert (found["holds@squared"].value, found["holds@squared"].n) == (5 / 6, 6)
    assert found["holds@theory"].value == 1 / 6
    # The known values have three digits; of short runs hardly anything turns.
    short = AsPublished(longest=3.0)(START, unwatched).measurements
    strict = AsPublished(longest=3.0, within=1e-4)(START, unwatched).measurements
    assert 0 < strict["agreeing_share"].value < short["agreeing_share"].value < 0.7
    assert short["agreeing_share"].n == found["agreeing_share"].n


def test_the_known_turning_points_are_those_that_are_published():
    known = published()
    known = known[known["study"] == "swing_by"].set_index(["cell", "measurement"])["value"]
    assert known.to_dict() == {
        (key, f"loss@turn{number}"): value
        for key, turns in TURNS.items()
        for number, value in enumerate(turns, start=1)
    }


def test_the_failure_of_figure_10_is_a_matrix_that_no_u_has():
    code = replace(CELLS["figure10-code"], time=30.0)
    w = code.closely(code.authors())
    assert symmetric.lost(w).any()
    assert w[-1, 0, 0] < 0
    right = replace(code, iterate_w=False)
    assert not symmetric.lost(right.closely(code.authors())).any()
    assert right.closely(code.authors())[-1, 0, 0] > 0


def test_starts_that_blow_up_are_counted_and_left_out():
    of = replace(CELLS["figure8-code"], starts=40, time=20.0)
    measured = found(of).measurements
    blown = measured["blown_up_share"]
    assert 0.1 < blown.value < 0.7
    assert measured["bump_share"].n == 40 - round(blown.value * 40)
    assert measured["lost_share"].value >= blown.value


def test_a_concept_is_unlearned_while_its_own_entry_is_small():
    short, long = (
        computed(replace(BASE, starts=5, size=0.1, step=0.01, time=time, looks=50))
        for time in (0.05, 16.0)
    )
    assert short["weak_unlearned_share"] == 1
    assert long["weak_unlearned_share"] == 0
    assert long["weak_major_at_end"] > 0.9


def test_a_concept_whose_output_others_carry_is_unlearned():
    weak, major = torch.tensor([[0.2, 0.1], [0.5, 0.9]]), torch.tensor([[0.0, 0.0], [0.05, 0.8]])
    loss = torch.tensor([[2.0, 2.0], [1.0, 1.0]])
    seen = Ensemble(weak, major, loss, loss, torch.zeros(2, 2))
    found = BASE.measured(seen, torch.ones(2).bool(), torch.zeros(2))
    assert found["weak_unlearned_share"].value == 0.5
    assert found["weak_drawdown_median"].value == 0


@pytest.mark.parametrize("step", [None, 0.01])
def test_curves_run_over_the_whole_time(step: float | None):
    kept = found(replace(BASE, starts=3, step=step, time=6.0, looks=100)).curves
    for name in ("loss", "output@1", "output@2", "stage", "w12", "loss_of_starts"):
        assert kept[name][0][0] == 0
        assert kept[name][-1][0] == pytest.approx(6.0)
    assert kept["target"] == [[1, 1], [2, 2]]
    assert all(low <= middle <= high for _, middle, low, high in kept["loss_of_starts"])


def test_rows_of_curves_have_six_digits_and_are_closer_at_first():
    x = torch.tensor([0.0, 1 / 3])
    assert curves.curve(x, torch.tensor([1.0, 2e7 / 3])) == [[0, 1], [0.333333, 6666670]]
    runs = torch.arange(11.0).expand(2, 11)
    assert curves.spread(x, runs)[1] == [0.333333, 5, 1, 9]
    kept = curves.thinned(10_001)
    assert (kept[0], kept[-1]) == (0, 10_000)
    assert (kept.diff().diff() >= -1).all()
    assert curves.thinned(3).tolist() == [0, 1, 2]


def test_adaptive_and_short_equal_steps_agree():
    adaptive = computed(replace(BASE, starts=9, time=9.0))
    equal = computed(replace(BASE, starts=9, time=9.0, step=0.004))
    assert equal["bump_share"] == adaptive["bump_share"]
    assert equal["bump_median"] == pytest.approx(adaptive["bump_median"], rel=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"starts": 0}, "2 starts or more; got 0"),
        ({"size": 0.0}, "size, time and looks are above 0; got 0.0, 40.0 and 1000"),
        ({"time": -1.0}, "looks are above 0"),
        ({"looks": 0}, "got 0.3, 40.0 and 0"),
        ({"iterate_w": True}, "to iterate W takes a step"),
        ({"sigma": (-0.1,)}, "not negative"),
        ({"dimensions": 1}, "2 concepts need as many dimensions or more; got 1"),
        ({"step": 0.6}, "a step of 0.6 is not stable; the largest stable one is 0.499"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        found(replace(BASE, **changes))


def recorded(key: str, of: SwingBy) -> Results:
    origin = Origin("swing_by", key, 0, "cpu", STUDY.levels[key])
    return Results(origin, rows(found(of)))


def test_stages_follow_one_another_and_are_drawn_in_their_colours():
    kept = found(replace(BASE, starts=3)).curves
    stages = [stage for _, stage in kept["stage"]]
    order = [stages[at] for at in range(len(stages)) if at == 0 or stages[at] != stages[at - 1]]
    assert order == [analysis.GROWTH, analysis.SUPPRESSION, analysis.REGROWTH]
    minor = [value for _, value in kept["w12"]]
    assert minor[stages.index(analysis.SUPPRESSION)] == pytest.approx(max(minor), rel=1e-3)
    results = recorded("two_concepts", replace(BASE, starts=3))
    path, loss, entries = draw(table([results]), {}).axes
    legend = [text.get_text() for text in path.get_legend().get_texts()]
    assert legend == [*STAGES, "training clusters", "test point"]
    assert len({line.get_color() for line in loss.lines[:3]}) == 3
    for stretches in (path.lines[:3], loss.lines[:3]):
        ends = [
            (line.get_xydata()[0].tolist(), line.get_xydata()[-1].tolist()) for line in stretches
        ]
        assert ends[0][1] == ends[1][0]
        assert ends[1][1] == ends[2][0]
    last = path.lines[2].get_data()
    assert (last[0][-1], last[1][-1]) == pytest.approx((1, 2), abs=1e-3)
    assert [line.get_label()[:8] for line in entries.lines] == ["$W_{11}$", "$W_{12}$", "$W_{22}$"]
    assert [line.get_linestyle() for line in entries.lines] == ["-", "--", "-"]
