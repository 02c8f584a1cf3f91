"""Contrasts of synthetic results whose effects are known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from recombine.report.effects import Contrast, Effects, effect, exchange_p, holm
from recombine.report.templates import TEMPLATES

AXES = ("loss", "cover", "jepa")
LEVELS = {"loss": ("cross", "squared"), "cover": ("few", "many"), "jepa": ("without", "with")}


def results(noise: float = 0.0, seeds: int = 4, joint: float = 0.0) -> pd.DataFrame:
    """Accuracy .2, squared +.3, many +.1, both `joint` besides, a step for each replicate."""
    random, rows = np.random.default_rng(1), []
    for seed, loss, cover, jepa in product(range(seeds), *LEVELS.values()):
        value = 0.2 + 0.3 * (loss == "squared") + 0.1 * (cover == "many") + 0.05 * seed
        value += joint * (loss == "squared" and cover == "many") + noise * random.normal()
        cell = f"{loss}-{cover}-{jepa}"
        facts = {"study": "s", "cell": cell, "loss": loss, "cover": cover, "jepa": jepa}
        for name, number in (
            ("accuracy@test", value),
            ("accuracy@seen", 1 - 0.4 * (jepa == "with")),
        ):
            rows.append({**facts, "seed": seed, "measurement": name, "value": number, "n": 64})
    return pd.DataFrame(rows).assign(step=float("nan"), low=0.0, high=1.0)


def one(contrast: Contrast, **of: float) -> object:
    table = results(**of)
    return effect(contrast, table[table["measurement"] == "accuracy@test"], AXES)


def test_an_effect_is_the_difference_that_was_put_in():
    found = one(Contrast("loss", "squared", "cross"))
    assert found.measured.value == pytest.approx(0.3)
    assert (found.measured.n, found.pairs) == (4, 16)
    assert found.measured.high - found.measured.low == pytest.approx(0, abs=1e-9)
    assert one(Contrast("loss", "cross", "squared")).measured.value == pytest.approx(-0.3)
    assert one(Contrast("jepa", "with", "without")).measured.value == pytest.approx(0)


def test_what_replicates_share_is_not_noise():
    """Replicates differ by .05 each, in both levels alike: the interval does not see it."""
    found = one(Contrast("cover", "many", "few"), noise=0.01)
    assert found.measured.low < 0.1 < found.measured.high
    assert found.measured.high - found.measured.low < 0.05


def test_an_interaction_is_the_difference_of_differences():
    both = Contrast("loss", "squared", "cross", by=("cover", "few", "many"))
    assert one(both, joint=0.2).measured.value == pytest.approx(0.2)
    assert one(both, joint=0.2).pairs == 8
    assert one(both).measured.value == pytest.approx(0)


def test_only_the_named_levels_count_and_no_pair_is_no_effect():
    few = Contrast("loss", "squared", "cross", where={"cover": ("many",)})
    assert one(few, joint=0.2).measured.value == pytest.approx(0.5)
    assert one(Contrast("loss", "squared", "likelihood")) is None


def test_p_counts_every_exchange():
    # Of the 16 signs of four numbers two give a sum as far from 0.
    assert exchange_p(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(2 / 16)
    assert exchange_p(np.array([1.0, -1.0])) == 1
    many = np.random.default_rng(2).normal(size=(200, 20))
    # Without an effect p is uniform.
    assert np.mean([exchange_p(each) <= 0.1 for each in many]) == pytest.approx(0.1, abs=0.05)
    assert exchange_p(many[0] + 2) < 1e-3


def test_holm_corrects_as_in_his_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_table_has_a_row_a_contrast_and_leaves_out_the_undertrained():
    contrasts = (Contrast("loss", "squared", "cross"), Contrast("cover", "many", "few"))
    made = Effects(("s",), "accuracy@test", AXES, contrasts)
    shown = made(results())
    assert [row[0] for row in shown.rows] == ["loss: squared - cross", "cover: many - few"]
    assert shown.rows[0][2:4] == ("4", "16")
    gated = Effects(("s",), "accuracy@test", AXES, contrasts, trained=("accuracy@seen", 0.95))
    assert gated(results()).rows[0][2:4] == ("4", "8")
    assert "left out: 4" in gated(results()).note


def test_templates_of_effects_name_axes_and_levels_that_there_are():
    from recombine import studies

    for query in TEMPLATES.values():
        if not isinstance(query, Effects):
            continue
        axes = studies.load(query.of[0].partition(":")[0]).axes
        assert set(query.axes) == set(axes)
        for each in query.contrasts:
            assert {each.high, each.low} <= set(axes[each.axis].levels)
            for axis, levels in each.where.items():
                assert set(levels) <= set(axes[axis].levels)
