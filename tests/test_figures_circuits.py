"""The figure of circuits is drawn from records alone."""

import pytest

from recombine.figures import experiments_of, figures
from recombine.figures.circuits import draw
from recombine.measurement import Measurement
from recombine.report.record import Record


def record(name: str, seed: int, values: dict[str, float], spread: float | None = 0.1) -> Record:
    """A record of a run, each value with an interval of 0.1 to both sides."""
    found = {}
    for key, value in values.items():
        ends = (None, None) if spread is None else (value - spread, value + spread)
        found[key] = Measurement(value, *ends, n=64)
    return Record("?", f"recombine run {name} --seed {seed}", "x", seed, "cpu", 1.0, found)


def lines(axes) -> list[tuple[list[float], list[float]]]:
    """The lines of a panel, at whole places; those of a legend have no points."""
    drawn = [tuple(map(list, line.get_data())) for line in axes.lines]
    return [([round(x) for x in xs], ys) for xs, ys in drawn if xs]


RUNS = [
    record(
        "objective:maskgit",
        seed,
        {
            "polysemantic@layer0": 0.4 + 0.2 * seed,
            "polysemantic@layer10": 0.2,
            "polysemantic@layer2": 0.3,
            "polysemantic_heads@layer0": 0.7,
            "jaccard@apart1": 0.5,
            "jaccard@apart2": 0.25,
            "accuracy@level0": 0.9,
        },
    )
    for seed in (0, 1)
]


def test_a_line_is_the_mean_over_seeds_in_the_order_of_layers():
    neurons, heads, overlap = draw(RUNS).axes
    (xs, ys) = max(lines(neurons), key=lambda line: len(line[0]))
    assert xs == [0, 2, 10]
    assert ys == pytest.approx([0.5, 0.3, 0.2])
    assert ([1, 2], [0.5, 0.25]) in lines(overlap)
    assert ([0], [0.7]) in lines(heads)


def test_neurons_are_above_heads_and_overlap_is_beside_them():
    neurons, heads, overlap = (axes.get_subplotspec() for axes in draw(RUNS).axes)
    assert (neurons.rowspan.start, neurons.colspan.start) == (0, 0)
    assert (heads.rowspan.start, heads.colspan.start) == (1, 0)
    assert (len(overlap.rowspan), overlap.colspan.start) == (2, 1)
    titles = [axes.get_title(loc="left") for axes in draw(RUNS).axes]
    assert [title.split()[-1] for title in titles] == ["neurons", "heads", "neurons"]
    assert titles[2].startswith("Jaccard")


def test_models_stand_side_by_side_around_their_layer():
    models = [*RUNS, record("jepa:base", 0, {"polysemantic@layer0": 0.5}, spread=None)]
    (alone, *_), (both, *_) = draw(RUNS[:1]).axes, draw(models).axes
    first = {line.get_color(): line.get_xdata()[0] for line in both.lines}
    assert sorted(first.values()) == pytest.approx([-0.025, 0.025])
    assert alone.lines[-1].get_xdata()[0] == 0
    # The last layer has its tick: the axis goes on beyond it.
    assert alone.get_xlim()[1] > 10


def test_every_seed_has_its_interval():
    neurons, *_ = draw(RUNS).axes
    bars = [ys for xs, ys in lines(neurons) if xs == [0, 0]]
    assert bars[0] == pytest.approx([0.3, 0.5])
    assert bars[1] == pytest.approx([0.5, 0.7])
    assert len(lines(neurons)) == 7
    bare = record("jepa:base", 0, {"polysemantic@layer0": 0.5}, spread=None)
    assert lines(draw([bare]).axes[0]) == [([0], [0.5])]


def test_a_layer_that_one_seed_lacks_is_drawn_from_the_others():
    lacking = record("objective:maskgit", 2, {"polysemantic@layer2": 0.9})
    neurons, *_ = draw([*RUNS, lacking]).axes
    (_, ys) = max(lines(neurons), key=lambda line: len(line[0]))
    assert ys == pytest.approx([0.5, 0.5, 0.2])


def test_records_without_circuits_are_left_out():
    others = [record("objective:dit_kl", 0, {"accuracy@level0": 0.9})]
    figure = draw([*RUNS, *others, record("jepa:base", 0, {"jaccard@apart1": 0.1})])
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["maskgit", "base"]
    empty = draw(others)
    assert len(empty.axes) == 3
    assert not empty.legends
    assert not any(lines(axes) for axes in empty.axes)


def test_models_do_not_look_the_same():
    names = [f"jepa:v{number}" for number in range(10)]
    figure = draw([record(name, 0, {"jaccard@apart1": 0.5}) for name in names])
    handles = figure.legends[0].get_lines()
    looks = {(line.get_color(), str(line.get_linestyle()), line.is_dashed()) for line in handles}
    assert len(looks) == 10


def test_it_is_one_of_the_figures():
    assert figures()["circuits"] is draw
    assert experiments_of("circuits") == ("circuits",)
