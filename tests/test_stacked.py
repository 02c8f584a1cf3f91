"""Stacked runs are the runs they would be alone, whatever is trained."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recombine import stacked as chapter
from recombine.models.entry import Vector
from recombine.objectives.diffusion import Diffusion
from recombine.run.state import packed
from recombine.stacked import Drawn, Noting, StackedStep, attention
from recombine.train import Step, train
from stacked_runs import FAMILIES, RUNS, Family, alone, dit, losses_of, rates, started, together

STEPS = 20


def left(step: Step) -> dict[str, Tensor]:
    """Return all that a run leaves: weights, average, moments of the optimizer, random numbers."""
    return packed(step.weights, {"noise": step.generator})


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_stacked_run_is_the_run_alone(name: str):
    """After 20 steps in single precision.

    Adam makes a large step of a gradient that is all rounding, so single weights may be further
    off; each tensor as a whole is not.
    """
    family = FAMILIES[name]
    expected, by_itself = alone(family, STEPS)
    steps = started(family)
    taken = train(StackedStep(steps), together(family), rates, range(1, STEPS + 1))
    torch.testing.assert_close(losses_of(taken), expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(map(left, steps), map(left, by_itself), strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            away = (ours[key].double() - value.double()).norm()
            assert away <= 1e-5 * value.double().norm() + 1e-6, key


@pytest.mark.parametrize("name", ["dit_jepa", "squared_adaln", "mar_jepa", "codes"])
def test_nothing_but_rounding_is_different(name: str):
    """In double precision every number is the same to 1e-9."""
    family = FAMILIES[name]
    expected, by_itself = alone(family, 4, dtype=torch.float64)
    steps = started(family, dtype=torch.float64)
    given = together(family, dtype=torch.float64)
    taken = train(StackedStep(steps), given, rates, range(1, 5))
    torch.testing.assert_close(losses_of(taken), expected, atol=1e-9, rtol=1e-9)
    for ours, theirs in zip(map(left, steps), map(left, by_itself), strict=True):
        for key, value in theirs.items():
            torch.testing.assert_close(ours[key], value, atol=1e-9, rtol=1e-8)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", ["dit_jepa", "squared_jepa", "mar", "codes"])
def test_what_is_compiled_is_the_same_operations(name: str, monkeypatch: pytest.MonkeyPatch):
    """Here without the compiler, which takes a minute: the traced graph in place of the code."""
    family = FAMILIES[name]
    monkeypatch.setattr(chapter.torch, "compile", lambda graph, dynamic: graph)
    expected, _ = alone(family, 4)
    stack = StackedStep(started(family), compiled=True)
    losses = losses_of(train(stack, together(family), rates, range(1, 5)))
    assert isinstance(stack.losses, torch.fx.GraphModule)
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)


def test_a_run_that_is_lost_does_not_touch_the_others():
    family = FAMILIES["maskgit_jepa"]
    expected, (_, by_itself) = alone(family, 5)
    first, second = started(family)
    for parameter in first.weights.denoiser.parameters():
        parameter.data.fill_(torch.nan)
    losses = losses_of(train(StackedStep([first, second]), together(family), rates, range(1, 6)))
    assert losses[:, 0].isnan().all()
    torch.testing.assert_close(losses[:, 1], expected[:, 1], atol=1e-5, rtol=1e-5)
    for value in left(second).values():
        assert value.isfinite().all()


@pytest.mark.parametrize("masked", [False, True])
def test_attention_spelled_out_is_the_fused_one(masked: bool, rng: torch.Generator):
    query, key, value = (torch.randn(2, 3, n, 8, generator=rng) for n in (5, 7, 7))
    mask = torch.rand(2, 1, 1, 7, generator=rng) < 0.6 if masked else None
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(attention(query, key, value, mask), expected)


def test_draws_are_given_in_their_order(rng: torch.Generator):
    def drawing() -> tuple[Tensor, ...]:
        return (
            torch.rand((2,), generator=rng),
            torch.randint(9, (3,), generator=rng),
            torch.ones(2),
        )

    with Noting() as noting:
        drawing()
    assert [each.function for each in noting.draws] == [torch.rand, torch.randint]
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    drawn = [draw.of_each(generators) for draw in noting.draws]
    assert [tuple(each.shape) for each in drawn] == [(2, 2), (2, 3)]
    for row, seed in enumerate((1, 2)):
        rng.manual_seed(seed)
        expected = drawing()
        with Drawn([each[row] for each in drawn]):
            assert all(map(torch.equal, drawing(), expected))


def test_other_draws_are_refused(rng: torch.Generator):
    with (
        Noting(),
        pytest.raises(ValueError, match=r"can draw by rand, randn, randint; got multinomial"),
    ):
        torch.multinomial(torch.ones(3), 1, generator=rng)


def test_runs_that_differ_are_refused():
    steps = started(FAMILIES["dit"])
    other = replace(steps[1], objective=Diffusion())
    with pytest.raises(ValueError, match=r"stacked runs have one objective; got Diffusion\("):
        StackedStep([steps[0], other])
    with pytest.raises(ValueError, match=r"stacked runs have one view; got <fun.* and None"):
        StackedStep([steps[0], replace(steps[1], view=None)])
    narrow = started(Family(dit(Vector(5)), FAMILIES["dit"].objective))
    shapes = r"one network; network.embedding.condition.layer.weight has the shapes \(16, 6\) and"
    with pytest.raises(ValueError, match=shapes):
        StackedStep([steps[0], narrow[0]])
    deep = started(FAMILIES["dit_jepa"])
    with pytest.raises(ValueError, match=r"one network; \S+ has the shapes None and \("):
        StackedStep([steps[0], replace(deep[0], objective=steps[0].objective, average=None)])
    steps[1].weights.denoiser.network.where += 1
    with pytest.raises(ValueError, match="in what they learn only; network.where differs, too"):
        StackedStep(steps)


def test_modules_see_the_stack():
    """Whoever looks at a run between two steps sees its weights of that moment."""
    steps = started(FAMILIES["dit"])
    stack = StackedStep(steps)
    assert len(stack.generators) == RUNS
    stack.set_rate([0.25, 0.5])
    assert [float(step.weights.optimizer.param_groups[0]["lr"]) for step in steps] == [0.25, 0.5]
    before = [left(step) for step in steps]
    stack(*next(together(FAMILIES["dit"])))
    for row, (step, old) in enumerate(zip(steps, before, strict=True)):
        network = dict(step.weights.denoiser.named_parameters())
        average = dict(step.weights.average.module.named_parameters())
        for name, whole in stack.parameters.items():
            assert torch.equal(network[name], whole[row])
            assert torch.equal(average[name], stack.averages[name][row])
        assert any(not torch.equal(left(step)[name], value) for name, value in old.items())
