"""The targets of JEPA, as composition measures them."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import OF_EACH, Composition, conditions, targets_spread
from recombine.measure.renders import fresh
from recombine.measure.subject import Findings
from recombine.models.heads import LogitHead
from recombine.models.masked import Masked
from recombine.objectives.jepa import Jepa, target_spread
from recombine.objectives.masked import MaskedCrossEntropy
from recombine.views import Unchanged
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
