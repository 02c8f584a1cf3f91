"""Composition of a trained model: what is sampled, who reads it, and what stands beside it."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recombine.condition import Conditioner, FactorDropout, Labels, all_objects
from recombine.measure.composition import OF_EACH, Composition, conditions, targets_spread
from recombine.measure.renders import fresh
from recombine.measure.subject import Findings
from recombine.models.heads import LogitHead
from recombine.models.masked import Masked
from recombine.objectives.jepa import Jepa, target_spread
from recombine.objectives.masked import MaskedCrossEntropy
from recombine.scene import concept_rows
from recombine.views import Unchanged
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import BINARY, PAPER
from subjects import CPU, Model, training

LABELS = Conditioner(all_objects, Labels((2, 2, 2)))
EVERY = BINARY.compositions


def parts(**others: Any) -> SimpleNamespace:
    return training(**{"world": replace(PAPER, among=BINARY.seen), "conditioner": LABELS, **others})


def measured(
    draw: Callable, measure: Composition, of: Any = None, readers: dict | None = None
) -> Findings:
    subject = Model(of or parts(), draw=draw, readers=readers or {})
    with torch.no_grad():
        return measure(subject, torch.Generator().manual_seed(0))


def circles_only(condition: Tensor, generator: torch.Generator) -> Tensor:
    """A model that knows no triangles: circles in their place, of the right size and colour."""
    samples = len(condition) // len(EVERY)
    drawn = [fresh(PAPER, ("circle", *which[1:]), samples, CPU, first=500) for which in EVERY]
    return torch.cat(drawn)


def test_a_model_without_triangles_is_right_about_circles_alone():
    found = measured(circles_only, Composition(samples=6)).measurements
    assert found["accuracy@circle-small-blue"].value == 1
    assert found["accuracy@triangle-small-blue"].value == 0
    assert found["accuracy@level1"].value == pytest.approx(1 / 3)
    assert found["colour_right@level2"].value == 1
    for whose in ("_ceiling", "_view"):
        assert found[f"accuracy{whose}@level2"].value == 1
    assert found["accuracy@level0"].n == 4 * 6


class Blackens:
    """A view that loses everything."""

    def __call__(self, image: Tensor) -> Tensor:
        return image

    def back(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class ReadsZeros:
    """Reads every factor as its first concept."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, images: Tensor) -> Tensor:
        self.seen.append(images)
        return torch.zeros(len(images), 3).long()


@pytest.mark.parametrize("drops", [False, True])
def test_models_renders_and_views_are_read_apart(drops: bool):
    given: list[Tensor] = []

    def white(condition: Tensor, generator: torch.Generator) -> Tensor:
        given.append(condition)
        return 1 + torch.ones(len(condition), 3, 28, 28)

    reader = ReadsZeros()
    conditioner = FactorDropout(*(LABELS.select, LABELS.encode), share=0.5, when_sampling=drops)
    of = parts(view=Blackens(), conditioner=conditioner)
    found = measured(white, Composition(samples=8), of, {"probe": reader}).measurements
    model, true, through = reader.seen
    assert (model == 1).all()
    assert (through == 0).all()
    assert 0 < true.mean() < 1
    # All factors zero is what was read: one composition of eight is right.
    assert found["accuracy@circle-large-red"].value == 1
    assert found["accuracy_view@level2"].value == 0
    rows = given[0]
    assert (rows[..., -1] == 0).any() == drops
    if not drops:
        values = concept_rows(BINARY.factors, EVERY).repeat_interleave(8, dim=0)
        assert torch.equal(rows[..., :-1].argmax(dim=-1), values)


def test_of_each_level_some_compositions_are_sampled():
    few = Composition(samples=2, most=1)
    assert few.sampled == tuple(w for w in EVERY if w in {BINARY.at(at)[0] for at in (0, 1, 2)})
    assert Composition().sampled == Composition().tiny().sampled == EVERY

    def true(condition: Tensor, generator: torch.Generator) -> Tensor:
        return torch.cat([fresh(PAPER, which, 2, CPU) for which in few.sampled])

    found = measured(true, few)
    first = "-".join(BINARY.at(1)[0])
    assert found.measurements["accuracy@level1"].value == 1
    assert found.measurements["accuracy@level1"] == found.measurements[f"accuracy@{first}"]
    assert {name: len(sheet) for name, sheet in found.images.items()} == {
        "-".join(which): 2 for which in few.sampled
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Composition(samples=1), "2 samples or more of each; got 1"),
        (lambda: Composition(replace(BINARY, left_out=BINARY.at(1))), "has nothing at level 1"),
        (
            lambda: measured(circles_only, Composition(), parts(world=Circles())),
            "composition is measured on worlds of one object; got Circles",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong: Callable, words: str):
    with pytest.raises(ValueError, match=words):
        wrong()


# The targets of JEPA


CODES = Masked(features=2, head=LogitHead(4), width=16, layers=4, heads=2)


class Coarse(Unchanged):
    """Four codes by brightness, 7 x 7 of them."""

    def __call__(self, image: Tensor) -> Tensor:
        grey = torch.nn.functional.avg_pool2d(image, 4).mean(dim=1)
        return (grey * 3.999).long()


def with_jepa(normalised: bool) -> Model:
    jepa = Jepa(layers=(1, 3), normalised=normalised)(MaskedCrossEntropy())
    torch.manual_seed(0)
    network = jepa.wrap(CODES.build()).eval()
    return Model(parts(objective=jepa, view=Coarse()), precise=network.forward)


@pytest.mark.parametrize("normalised", [True, False])
def test_the_spread_of_targets_is_the_least_of_the_layers(normalised: bool):
    """The twin: call the network itself, and normalise its states by hand."""
    subject = with_jepa(normalised)
    found = targets_spread(Composition(), subject)
    assert found.measurements["target_rank"].n == 4 * OF_EACH
    assert found.alarms == ()
    image = torch.cat([fresh(PAPER, which, OF_EACH, CPU) for which in BINARY.at(0)])
    condition = conditions(Composition(), subject, BINARY.at(0), OF_EACH)
    with torch.no_grad():
        states = subject.precise(Coarse()(image), torch.zeros(64, 7, 7).bool(), condition).states
    spreads = []
    for state in (states[1], states[3]):
        if normalised:
            away = state - state.mean(-1, keepdim=True)
            state = away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        spreads.append(target_spread(state))
    for name in ("variance", "rank"):
        least = min(getattr(each, name) for each in spreads)
        assert found.measurements[f"target_{name}"].value == pytest.approx(least, rel=1e-4)


def test_targets_that_have_collapsed_raise_an_alarm_for_each_layer():
    subject = with_jepa(normalised=False)
    for parameter in subject.precise.__self__.parameters():
        nn.init.zeros_(parameter)
    found = targets_spread(Composition(), subject)
    assert found.measurements["target_variance"].value == 0
    assert [alarm.split(":")[0] for alarm in found.alarms] == ["layer 1", "layer 3"]
    assert all("targets collapsed: variance 0 per channel" in alarm for alarm in found.alarms)
    assert targets_spread(Composition(), Model(parts())) == Findings({})
