"""Networks trained by SGD, and the diagram of where Swing-by lives."""

import math
from dataclasses import replace

import pytest
import torch
from recombine.compute import unwatched
from recombine.experiments import swing_by_networks, swing_by_phase_diagram
from recombine.experiments.swing_by_networks import Descent
from recombine.experiments.swing_by_phase_diagram import CELL, PhaseDiagram
from recombine.report.record import Record

from recombine.figures import swing_by_networks as networks_figure
from recombine.figures import swing_by_phase_diagram as diagram_figure
from recombine.linear import analysis, symmetric
from recombine.measurement import Measurement

SMALL = Descent(
    "?", seeds=6, dimensions=32, epochs=20, points=800, batch=128, learning_rate=0.4, origin=False
)


def computed(of: Descent | PhaseDiagram, seed: int = 0):
    return of(torch.Generator().manual_seed(seed), unwatched)


def recorded(of: Descent | PhaseDiagram) -> Record:
    found = computed(of)
    return Record("?", "x", "x", 0, "cpu", 1.0, found.measurements, curves=found.curves)


def test_one_layer_learns_each_concept_when_the_theory_says():
    """Item 7 of the sheet's list: within 20 % without bias and origin, from a small start."""
    of = replace(SMALL, bias=False, sigma_as_variance=False, seeds=40)
    found = computed(of).measurements
    for number in (1, 2):
        half, theory = found[f"half_epochs@{number}"], found[f"half_epochs_theory@{number}"]
        assert half.value == pytest.approx(theory.value, rel=0.2)
    steps = math.ceil(1600 / 128)
    assert found["half_epochs_theory@2"].value == pytest.approx(
        math.log(2) / (2 + 0.05**2) / (steps * 2 * 0.4 / 32)
    )
    assert found["in_order_share"].value > 0.9
    assert found["bump_share"].value < 0.2


def test_the_order_of_learning_is_that_of_the_rates():
    swapped = replace(SMALL, means=(3.0, 1.0))
    for of in (SMALL, swapped):
        assert computed(of).measurements["in_order_share"].value > 0.8


def test_answers_do_not_depend_on_how_the_axes_are_turned(rng):
    of = replace(SMALL, rotated=True, seeds=2)
    data = of.drawn(rng)
    layers = of.network.start(2, rng)
    turned_back = [layer._replace(bias=torch.zeros_like(layer.bias)) for layer in layers]
    identity = torch.eye(32).expand(2, 32, 32)
    exact = [turned_back[0]._replace(weight=identity)]
    torch.testing.assert_close(
        of.look(exact, data), of.task.target.float().expand(2, 32), atol=1e-5, rtol=0
    )
    w = layers[0].weight
    expected = data.axes @ w @ data.axes.mT @ of.task.target.float()
    torch.testing.assert_close(of.look(turned_back, data), expected)


def test_points_near_the_test_point_can_be_left_out(rng):
    of = replace(swing_by_networks.fig16_2, points=300, seeds=2)
    data = of.drawn(rng)
    assert (data.points - of.task.target.float()).norm(dim=-1).min() >= 1
    assert data.points.shape == (2, 900, 3)


def test_corners_of_the_hypercube_are_ordered_but_for_a_few():
    of = replace(SMALL, means=(1.0, 2.0, 3.0), sigma=(0.5,), bias=False, epochs=4)
    found = computed(of).measurements
    assert found["edge_violations_inside@epoch2"].value < 0.2
    assert found["edge_violations@epoch0"].n == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 1}, "2 seeds or more; got 1"),
        ({"epochs": 0}, "epochs, points and batch are at least 1; got 0, 800 and 128"),
        ({"learning_rate": 50.0}, "50.0 is not stable; the largest stable one is about 12"),
        ({"learning_rate": 0.0}, "is not stable"),
        ({"layers": 0}, "a network has a layer"),
        ({"sigma": (0.1, 0.1, 0.1)}, "deviations are one per concept"),
    ],
)
def test_what_makes_no_sense_is_said(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


def test_networks_are_drawn_with_all_their_seeds():
    record = recorded(replace(SMALL, seeds=3, epochs=3))
    shown, *others = networks_figure.draw([record]).axes
    assert len(shown.lines) == 3 + 2
    share = record.measurements["bump_share"].value
    assert shown.get_title(loc="left").endswith(f": {share:.0%} rise")
    assert not any(axes.get_visible() for axes in others)
    assert (
        len([axes for axes in networks_figure.draw([record] * 7).axes if axes.get_visible()]) == 7
    )


DIAGRAM = PhaseDiagram(
    "?", ratios=(1.0, 3.0), correlations=(0.0, 0.9), dimensions=(2, 8), depths=(1, 2), seeds=12
)


def test_rows_of_a_start_have_the_correlation_and_length_that_are_asked_for(rng):
    w = replace(DIAGRAM, seeds=4000).starts(8, rng)
    assert w.shape == (2, 4000, 8, 8)
    major, minor = w[..., 0, 0].mean(dim=1), w[..., 0, 5].mean(dim=1)
    assert major.tolist() == pytest.approx([0.09, 0.09], rel=0.05)
    assert (minor / major).tolist() == pytest.approx([0.0, 0.9], abs=0.03)
    assert not symmetric.lost(w[:, :50], -1e-10).any()


def test_swing_by_needs_two_layers_unequal_means_and_rows_that_start_alike():
    found = computed(DIAGRAM)
    cells = {tuple(cell[:4]): dict(zip(CELL, cell, strict=True)) for cell in found.curves["cells"]}
    assert len(cells) == 16
    share = {place: cell["bump_share"] for place, cell in cells.items()}
    assert share[3.0, 0.9, 2, 2] > 0.7
    assert share[3.0, 0.0, 8, 2] < 0.2
    assert share[1.0, 0.9, 8, 2] == 0
    assert all(value < 0.5 for place, value in share.items() if place[3] == 1)
    one = cells[3.0, 0.9, 2, 2]
    expected = Measurement.rate(round(12 * one["bump_share"]), 12)
    assert (one["low"], one["high"]) == (expected.low, expected.high)


def test_shares_of_a_diagram_are_those_of_its_cells():
    found = computed(DIAGRAM)
    cells = found.curves["cells"]
    for name, at, value in (("ratio3", 0, 3.0), ("correlation0.9", 1, 0.9), ("depth2", 3, 2.0)):
        of = [cell[4] for cell in cells if cell[at] == value]
        measured = found.measurements[f"bump_share@{name}"]
        assert measured.value == pytest.approx(sum(of) / len(of))
        assert measured.n == 8 * 12
    whole = found.measurements["bump_share"]
    assert whole.value == pytest.approx(sum(cell[4] for cell in cells) / 16)
    assert found.measurements["bump_share_most"].value == max(cell[4] for cell in cells)


def test_two_layers_of_the_diagram_rise_as_the_cells_say(rng):
    """A naive twin: small steps of both layers, one start at a time."""
    of = replace(DIAGRAM, ratios=(3.0,), correlations=(0.9,), seeds=2)
    found = of.bumps(2, 2, torch.Generator().manual_seed(3))[0, 0]
    w = of.starts(2, torch.Generator().manual_seed(3))[0]
    a, target = torch.tensor([0.5025, 4.5025]).double(), torch.tensor([1.0, 3.0]).double()
    for seed in range(2):
        values, basis = torch.linalg.eigh(w[seed])
        first = second = basis @ torch.diag(values.sqrt()) @ basis.mT
        losses = []
        for _ in range(8000):
            error = second @ first - torch.eye(2).double()
            losses.append(((error @ target) ** 2).sum() / 2)
            slope = error * a
            first, second = first - 0.001 * second.mT @ slope, second - 0.001 * slope @ first.mT
        loss = torch.stack(losses)
        rise = (analysis.bump(loss) / loss[0]).item()
        assert found[seed].item() == pytest.approx(rise, rel=0.02, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "a share needs a seed or more; got 0"),
        ({"ratios": ()}, "a diagram needs a ratio"),
        ({"correlations": (1.0,)}, r"correlations lie in \[0, 1\); got \(1.0,\)"),
        ({"depths": (0,)}, "1 layer and 2 dimensions or more; got 0 and 2"),
        ({"dimensions": (1,)}, "1 layer and 2 dimensions or more; got 1 and 1"),
    ],
)
def test_a_diagram_that_makes_no_sense_is_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(DIAGRAM, **changes)


def test_a_diagram_has_a_panel_for_every_depth_and_dimension():
    record = recorded(replace(DIAGRAM, seeds=2, time=4.0))
    *panels, bar = diagram_figure.draw([record]).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        f"{depth} layers, {width} dimensions" for depth in (1, 2) for width in (2, 8)
    ]
    shown = panels[3].images[0].get_array().tolist()
    cells = record.curves["cells"]
    assert shown[1][0] == next(c[4] for c in cells if c[:4] == [1.0, 0.9, 8, 2])
    assert shown[0][1] == next(c[4] for c in cells if c[:4] == [3.0, 0.0, 8, 2])


def test_the_declared_diagram_spans_what_the_paper_shows_points_of():
    declared = swing_by_phase_diagram.base
    assert {2, 16} <= set(declared.dimensions)
    assert set(declared.depths) == {1, 2, 3, 4}
