"""The table of statements: it runs, nothing is broken, and it would say so if something were."""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from recombine.experiment import Computation, Findings
from recombine.experiments import cpc_lcs
from recombine.experiments.cpc_lcs import Factorizing, base
from recombine.report.record import Record

from recombine.figures.cpc_lcs import draw
from recombine.measure.statement import HEARD, broken, exactly, nonzero, residual
from recombine.measurement import Measurement
from recombine.models import laws


def computed(computation: Factorizing) -> tuple[Findings, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    found = computation(torch.Generator().manual_seed(0), lambda *done: seen.append(done))
    return found, seen


@pytest.fixture(scope="module")
def tiny() -> Findings:
    return computed(base.tiny())[0]


def record(found: Findings) -> Record:
    command = "recombine run cpc_lcs:base --seed 0"
    return Record("?", command, "x", 0, "cpu", 1.0, found.measurements, curves=found.curves)


def test_no_statement_is_broken(tiny: Findings):
    assert isinstance(base, Computation)
    wrong = {n: m for n, m in tiny.measurements.items() if str(m.verdict).startswith("broken")}
    assert not wrong
    assert tiny.measurements["statements_broken"].value == 0
    assert tiny.measurements["statements_broken"].n > 100


@pytest.mark.parametrize(
    "name",
    [
        "lcs_residual@T2",
        "kl_minus_integral@T3_0.5",
        "bound_violations@T8_0.5",
        "leak@T4",
        "retold_leak@T4n",
        "split_residual@3x3x3",
        "mmse_minus_score_gap@T7_1",
        "feature_coupling@shear_1",
        "cosine@L2_coupled",
        "signed_leak_residual@T5_one",
        "influence_residual@T1",
    ],
)
def test_every_kind_of_statement_is_in_the_table(name: str, tiny: Findings):
    assert tiny.measurements[name].verdict


def test_what_is_told_one_object_leaks_as_much_as_the_law_says():
    found = dict(cpc_lcs._scenes(4000, torch.Generator().manual_seed(0)))
    for level, expected in laws.COUPLING_ONE_MARKED.items():
        measured = found[f"cells_coupled@T5_one_{level:g}"]
        assert measured.low - 0.0005 < expected < measured.high + 0.0005
    for level, expected in laws.LEAK_ONE_MARKED.items():
        measured = found[f"leak_ratio@T5_one_{level:g}"]
        assert measured.low - 0.003 < expected < measured.high + 0.003


def test_laws_that_are_not_normal_agree_too():
    # The third statement, the integral, is that of test_divergence.py and takes long.
    found = dict(islice(cpc_lcs._on_a_plane(0.5), 2))
    assert len(found) == 2
    assert not any(str(each.verdict).startswith("broken") for each in found.values())


def test_a_wrong_expectation_is_called_broken(rng):
    known = laws.shifted_gaussian()
    for wrong in (
        replace(known, condition_local=True),
        replace(known, pixel_local=False),
        replace(laws.block_gaussian(), condition_local=False),
    ):
        few = replace(wrong, levels=wrong.levels[::3])
        found = dict(cpc_lcs._local(few, 1, rng))
        assert any(str(each.verdict).startswith("broken") for each in found.values())


def test_the_same_generator_gives_the_same_numbers_and_all_parts_are_counted(monkeypatch):
    monkeypatch.setattr(laws, "known_laws", lambda: ())
    few = replace(base.tiny(), scenes=8, random=1)
    (first, seen), (second, _) = computed(few), computed(few)
    assert first == second
    assert seen == [(done, len(seen)) for done in range(1, len(seen) + 1)]


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(ValueError, match="expected draws, every, random >= 1 and scenes >= 2; got"):
        replace(base, draws=0)
    with pytest.raises(ValueError, match=r"strictly between 0 and 1; got \(0.5, 1.0\)"):
        replace(base, eta=(0.5, 1.0))


def test_verdicts_follow_the_declared_tolerance():
    assert residual(1e-11, 3, 1e-10).verdict == "proved, <= 1e-10"
    assert residual(1e-10, 3, 1e-10).verdict == "proved, <= 1e-10"
    assert residual(2e-10, 3, 1e-10).verdict == "broken: not <= 1e-10"
    assert nonzero(2 * HEARD, 3).verdict == "not 0, as proved (> 1e-06)"
    assert nonzero(HEARD, 3).verdict == "broken: not > 1e-06"
    assert exactly(7, 7, 7).verdict == "proved, 7 of 7"
    assert exactly(6, 7, 7).verdict == "broken: not 7 of 7"
    several = [residual(1, 1, 0.5), nonzero(1, 1), nonzero(0, 1), Measurement(1, None, None, n=1)]
    assert (broken(several).value, broken(several).n) == (2, 3)
    assert broken(several).verdict == "broken: not 0 of 3"
    assert broken(several[1:2]).value == 0


def test_the_figure_shows_residuals_full_and_distances_open(tiny: Findings):
    wrong = {"leak@T9": residual(1.0, 1, 1e-10)}
    left, right = draw([record(replace(tiny, measurements={**tiny.measurements, **wrong}))]).axes
    full, hollow, crossed = set(), set(), set()
    names = [label.get_text() for label in left.get_yticklabels()]
    for line in left.lines:
        x, y = line.get_data()
        if len(x):
            row = names[round(float(y[0]))]
            face = line.get_markerfacecolor()
            kind = crossed if line.get_marker() == "x" else hollow if face == "none" else full
            kind.add(row)
            assert (kind is full) == (x[0] < 1e-6)
    assert "block Gaussian (T1)" in full - hollow
    assert "coupled Gaussian (T3)" in hollow
    assert crossed == {"T9"}
    level, ratio = right.lines[-1].get_data()
    assert list(zip(level, ratio, strict=True)) == [
        (point[0], point[1]) for point in tiny.curves["leak_ratio"]
    ]
    assert right.lines[0].get_ydata()[0] == pytest.approx(0.2)


def test_a_figure_of_nothing_is_empty():
    assert draw([record(Findings({}))]).axes
