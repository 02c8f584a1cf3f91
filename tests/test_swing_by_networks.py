"""Networks trained by SGD, and the diagram of where Swing-by lives."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from recombine.figures import phase_diagram as diagram_figure
from recombine.figures import swing_by_networks as networks_figure
from recombine.linear import analysis, symmetric
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import Origin, Results
from recombine.results.findings import rows
from recombine.results.query import table
from recombine.run.compute import unwatched
from recombine.studies import phase_diagram, swing_by_networks
from recombine.studies.phase_diagram import POINT, PhaseDiagram
from recombine.studies.swing_by_networks import Descent

CELLS: dict[str, Descent] = dict(swing_by_networks.STUDY.cells)
SMALL = Descent(
    networks=6, dimensions=32, epochs=20, points=800, batch=128, learning_rate=0.4, origin=False
)


def computed(of: Descent | PhaseDiagram, seed: int = 0) -> Findings:
    return of(torch.Generator().manual_seed(seed), unwatched)


def test_one_layer_learns_each_concept_when_the_theory_says():
    """Item 7 of the sheet's list: within 20 % without bias and origin, from a small start."""
    of = replace(SMALL, bias=False, sigma_as_variance=False, networks=40)
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
    of = replace(SMALL, rotated=True, networks=2)
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
    of = replace(CELLS["three_narrow-means_2_4-apart1"], points=300, networks=2)
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
        ({"networks": 1}, "2 networks or more; got 1"),
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


def test_tracks_and_the_loss_run_over_all_epochs():
    of = replace(SMALL, networks=12, epochs=3, means=(1.0, 2.0, 3.0))
    found = computed(of)
    tracks = found.arrays["tracks"]
    assert tracks.shape == (10, len(found.curves["loss_of_networks"]), 3)
    assert (tracks[:, 0, 0].max(), tracks[:, -1, 0].min()) == (0, 3)
    assert found.curves["target"] == [[1, 1], [2, 2], [3, 3]]
    data = of.drawn(torch.Generator().manual_seed(0))
    again = torch.Generator().manual_seed(0)
    of.drawn(again)
    torch.randperm(data.points.shape[1], generator=again)
    start = of.look(of.network.start(12, again), data)
    torch.testing.assert_close(tracks[:, 0, 1:], start[:10][:, [0, 2]])


def test_the_table_has_every_network_of_the_paper():
    assert len(CELLS) == 33
    first = CELLS["one_layer-as_theory"]
    assert (first.bias, first.origin, first.sigma_as_variance) == (False, False, False)
    deep = {key: of for key, of in CELLS.items() if of.layers > 2}
    assert {(of.layers, of.dimensions) for of in deep.values()} == {(3, 3), (4, 2), (4, 64)}
    assert CELLS["four_narrow-means_2_4-apart1"] == replace(
        CELLS["four_narrow"], means=(2.0, 4.0), apart=1.0
    )
    corners = CELLS["two_layers_relu-four_concepts-deviation"]
    assert (corners.relu, corners.origin, corners.sigma) == (True, False, (0.5,))


def recorded(key: str) -> tuple[Results, dict[str, Any]]:
    found = computed(replace(CELLS[key].tiny(), networks=3))
    origin = Origin("swing_by_networks", key, 0, "cpu", swing_by_networks.STUDY.levels[key])
    tracks = found.arrays["tracks"].numpy()
    return Results(origin, rows(found)), {f"{key}/seed0/tracks": tracks}


def test_networks_are_drawn_architecture_after_architecture_in_twelve_panels_at_most():
    drawn = ["four_narrow", "one_layer-means_3_2", "one_layer"]
    left_out = ["one_layer-as_theory", "three_narrow-apart0.5", "two_layers_relu"]
    made = [recorded(key) for key in (*drawn, *left_out)]
    every, arrays = table(each for each, _ in made), {k: v for _, a in made for k, v in a.items()}
    figure = networks_figure.draw(every, arrays)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    titles = [axes.get_title(loc="left").split("\n")[0] for axes in shown]
    assert titles == [
        "one layer, means 1 and 2",
        "one layer, means 3 and 2",
        "four narrow layers, means 1 and 2",
    ]
    assert all(len(axes.lines) == 3 + 2 for axes in shown)
    track = arrays["one_layer/seed0/tracks"][1]
    assert shown[0].lines[1].get_xdata().tolist() == track[:, 1].tolist()
    share = made[2][0].rows[0]
    assert share.measurement == "bump_share"
    assert shown[0].get_title(loc="left").endswith(f"\n{share.value:.0%} rise")
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["a network", "training clusters", "test point"]
    kinds = len(networks_figure.NETWORKS) * len(networks_figure.DATA)
    assert networks_figure.PANELS == 12 < kinds
    assert not [axes for axes in networks_figure.draw(every, {}).axes if axes.get_visible()]


DIAGRAM = PhaseDiagram(
    ratios=(1.0, 3.0), correlations=(0.0, 0.9), dimensions=(2, 8), depths=(1, 2), starts=12
)


def test_rows_of_a_start_have_their_correlation_and_length(rng):
    w = replace(DIAGRAM, starts=4000).drawn(8, rng)
    assert w.shape == (2, 4000, 8, 8)
    major, minor = w[..., 0, 0].mean(dim=1), w[..., 0, 5].mean(dim=1)
    assert major.tolist() == pytest.approx([0.09, 0.09], rel=0.05)
    assert (minor / major).tolist() == pytest.approx([0.0, 0.9], abs=0.03)
    assert not symmetric.lost(w[:, :50], -1e-10).any()


@pytest.fixture(scope="module")
def diagram() -> Findings:
    return computed(DIAGRAM)


def test_swing_by_needs_two_layers_unequal_means_and_rows_that_start_alike(diagram: Findings):
    points = diagram.arrays["points"]
    assert points.shape == (16, len(POINT))
    every = [dict(zip(POINT, point, strict=True)) for point in points.tolist()]
    share = {tuple(each[name] for name in POINT[:4]): each["bump_share"] for each in every}
    assert len(share) == 16
    assert share[3.0, 0.9, 2, 2] > 0.7
    assert share[3.0, 0.0, 8, 2] < 0.2
    assert share[1.0, 0.9, 8, 2] == 0
    assert all(value < 0.5 for place, value in share.items() if place[3] == 1)
    for each in every:
        expected = Measurement.rate(round(12 * each["bump_share"]), 12)
        assert (each["low"], each["high"]) == (expected.low, expected.high)


def test_shares_of_a_diagram_are_those_of_its_points(diagram: Findings):
    points = diagram.arrays["points"]
    for name, at, value in (
        ("ratio3", 0, 3.0),
        ("correlation0.9", 1, 0.9),
        ("dimensions8", 2, 8.0),
        ("depth2", 3, 2.0),
    ):
        mine = points[points[:, at] == value]
        measured = diagram.measurements[f"bump_share@{name}"]
        assert measured.value == pytest.approx(mine[:, 4].mean().item())
        assert measured.n == 8 * 12
    whole = diagram.measurements["bump_share"]
    assert whole.value == pytest.approx(points[:, 4].mean().item())
    most = diagram.measurements["bump_share_most"]
    assert (most.value, most.n) == (points[:, 4].max().item(), 12)


def test_two_layers_of_the_diagram_rise_as_the_cells_say(rng):
    """A naive twin: small steps of both layers, one start at a time."""
    of = replace(DIAGRAM, ratios=(3.0,), correlations=(0.9,), starts=2)
    found = of.bumps(2, 2, torch.Generator().manual_seed(3))[0, 0]
    w = of.drawn(2, torch.Generator().manual_seed(3))[0]
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
        ({"starts": 0}, "a share needs a start or more; got 0"),
        ({"ratios": ()}, "a diagram needs a ratio"),
        ({"correlations": (1.0,)}, r"correlations lie in \[0, 1\); got \(1.0,\)"),
        ({"depths": (0,)}, "1 layer and 2 dimensions or more; got 0 and 2"),
        ({"dimensions": (1,)}, "1 layer and 2 dimensions or more; got 1 and 1"),
    ],
)
def test_a_diagram_that_makes_no_sense_is_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(DIAGRAM, **changes)


def test_a_diagram_has_a_panel_for_every_depth_and_dimension_but_those_where_nothing_rises(
    diagram: Findings,
):
    points = diagram.arrays["points"].numpy()
    none = table([])
    *panels, bar = diagram_figure.draw(none, {"base/seed0/points": points}).axes
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["2 layers, 2 dimensions", "2 layers, 8 dimensions"]
    shown = panels[1].images[0].get_array().tolist()
    share = {tuple(point[:4]): point[4] for point in points.tolist()}
    assert shown == [[share[r, c, 8, 2] for r in (1.0, 3.0)] for c in (0.0, 0.9)]
    alone = points[points[:, 3] == 1]
    *panels, _ = diagram_figure.draw(none, {"base/seed0/points": alone}).axes
    assert panels[0].get_title(loc="left") == "1 layer, 2 dimensions"
    assert bar.get_ylabel() == "share of starts whose error rises by 1 %"
    assert not diagram_figure.draw(none, {}).axes


def test_the_declared_diagram_spans_what_the_paper_shows_points_of():
    declared = phase_diagram.STUDY.cells["base"]
    assert isinstance(declared, PhaseDiagram)
    assert {2, 16} <= set(declared.dimensions)
    assert set(declared.depths) == {1, 2, 3, 4}
