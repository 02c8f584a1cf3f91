"""The table of statements: it runs, nothing is broken, and it would say so if something were."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from recombine.figures.laws import draw
from recombine.measure.statement import NONZERO, Statement, exactly, nonzero, violated, zero
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.models import laws
from recombine.results import Origin, Results
from recombine.results.findings import rows
from recombine.results.query import table
from recombine.studies import laws as study
from recombine.studies.laws import Factorizing

BASE = Factorizing()


def computed(computation: Factorizing) -> tuple[Findings, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    found = computation(torch.Generator().manual_seed(0), lambda *done: seen.append(done))
    return found, seen


@pytest.fixture(scope="module")
def tiny() -> Findings:
    return computed(BASE.tiny())[0]


def test_no_statement_is_broken(tiny: Findings):
    assert study.STUDY.cells == {"base": BASE}
    assert not tiny.alarms
    assert tiny.measurements["statements_broken"].value == 0
    assert tiny.measurements["statements_broken"].n > 100


def test_a_broken_statement_is_counted_and_named(monkeypatch: pytest.MonkeyPatch):
    wrong = replace(laws.block_gaussian(), pixel_local=False)
    monkeypatch.setattr(laws, "known_laws", lambda: (wrong,))
    found, _ = computed(replace(BASE.tiny(), scenes=8, random=1))
    names = [alarm.partition(" is ")[0] for alarm in found.alarms]
    assert names[:3] == ["lcs_residual@T1", "coupling@T1", "levels_with_lcs@T1"]
    assert found.measurements["statements_broken"].value == len(found.alarms)
    assert all(name in found.measurements for name in names)


@pytest.mark.parametrize(
    "name",
    [
        "lcs_residual@T2",
        "kl_minus_integral@T3_0.5",
        "bound_violations@T8_0.5",
        "leak@T4",
        "changed_leak@T4n",
        "split_residual@3x3x3",
        "mmse_minus_score_gap@T7_1",
        "feature_coupling@shear_1",
        "cosine@L2_coupled",
        "signed_leak_residual@T5_one",
        "influence_residual@T1",
    ],
)
def test_every_kind_of_statement_is_in_the_table(name: str, tiny: Findings):
    assert name in tiny.measurements


def named(statements) -> dict[str, Statement]:
    return {each.name: each for each in statements}


def test_one_marked_object_leaks_as_much_as_the_law_says():
    found = named(study._scenes(4000, torch.Generator().manual_seed(0)))
    for level, expected in laws.COUPLING_ONE_MARKED.items():
        measured = found[f"cells_coupled@T5_one_{level:g}"].measurement
        assert measured.low - 0.0005 < expected < measured.high + 0.0005
    for level, expected in laws.LEAK_ONE_MARKED.items():
        measured = found[f"leak_ratio@T5_one_{level:g}"].measurement
        assert measured.low - 0.003 < expected < measured.high + 0.003


def test_laws_that_are_not_normal_agree_too():
    # The third statement, the integral, is that of test_divergence.py and takes long.
    found = named(islice(study._on_a_plane(0.5), 2))
    assert len(found) == 2
    assert all(each.holds for each in found.values())


def test_a_wrong_expectation_is_called_broken(rng):
    known = laws.shifted_gaussian()
    for wrong in (
        replace(known, condition_local=True),
        replace(known, pixel_local=False),
        replace(laws.block_gaussian(), condition_local=False),
    ):
        few = replace(wrong, levels=wrong.levels[::3])
        assert any(each.holds is False for each in study._local(few, 1, rng))


def test_the_same_generator_gives_the_same_numbers_and_all_parts_are_counted(monkeypatch):
    monkeypatch.setattr(laws, "known_laws", lambda: ())
    few = replace(BASE.tiny(), scenes=8, random=1)
    (first, seen), (second, _) = computed(few), computed(few)
    assert first == second
    assert seen == [(done, len(seen)) for done in range(1, len(seen) + 1)]


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(ValueError, match="expected draws, every, random >= 1 and scenes >= 2; got"):
        replace(BASE, draws=0)
    with pytest.raises(ValueError, match=r"strictly between 0 and 1; got \(0.5, 1.0\)"):
        replace(BASE, eta=(0.5, 1.0))


def test_statements_hold_up_to_the_declared_tolerance():
    assert zero("a", 1e-10, 3, 1e-10) == Statement("a", Measurement(1e-10, None, None, 3), True)
    assert zero("a", 1e-11, 3, 1e-10).holds
    assert not zero("a", 2e-10, 3, 1e-10).holds
    assert nonzero("a", 2 * NONZERO, 3).holds
    assert not nonzero("a", NONZERO, 3).holds
    assert exactly("a", 7, 7, 7).holds
    assert not exactly("a", 6, 7, 7).holds
    several = [zero("a", 1, 1, 0.5), nonzero("b", 1, 1), nonzero("c", 0, 1)]
    several.append(Statement("d", Measurement(1, None, None, n=1)))
    assert (violated(several).value, violated(several).n) == (2, 3)
    assert violated(several[1:2]).value == 0


def recorded(found: Findings):
    return table([Results(Origin("laws", "base", 0, "cpu"), rows(found))])


def test_the_figure_shows_residuals_full_and_distances_open(tiny: Findings):
    left, right = draw(recorded(tiny), {}).axes
    full, hollow = set(), set()
    names = [label.get_text() for label in left.get_yticklabels()]
    for line in left.lines:
        x, y = line.get_data()
        if len(x):
            row = names[round(float(y[0]))]
            kind = hollow if line.get_markerfacecolor() == "none" else full
            kind.add(row)
            assert (kind is full) == (x[0] < 1e-6)
    assert "block Gaussian" in full - hollow
    assert "coupled Gaussian" in hollow
    assert left.get_title(loc="left").startswith("0 of ")
    legend = [text.get_text() for text in left.get_legend().get_texts()]
    assert "tolerances" in legend
    limit, ratio = right.lines
    kept = [point[1] for point in tiny.curves["leak_ratio"]]
    assert list(ratio.get_ydata()) == pytest.approx(kept, rel=1e-5)
    assert limit.get_ydata().tolist() == [pytest.approx(0.2)] * 2


def test_every_law_of_the_figure_has_words_and_every_statement_is_drawn_once(tiny: Findings):
    left, _ = draw(recorded(tiny), {}).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert len(names) == len(set(names)) == 16
    assert not any("_" in name or name.startswith("T") for name in names)
    counted = ("levels_with_lcs", "bound_", "leak_ratio", "cells_coupled@T5_one")
    shown = [name for name in tiny.measurements if "@" in name and not name.startswith(counted)]
    assert sum(len(line.get_xdata()) for line in left.lines) == len(shown)


def test_a_figure_of_nothing_is_empty():
    assert draw(recorded(Findings({"statements_broken": Measurement(0, None, None, 1)})), {}).axes
