"""Influence and overlap are measured on networks small enough to know the answer."""

import pytest
import torch
from torch import Tensor, nn

from recombine.measure import circuits
from recombine.measure.circuits import (
    SHARE,
    by_composition,
    by_head,
    influences,
    overlaps,
    polysemanticity,
)
from recombine.models.masked import Masked

RED_CIRCLE, RED_SQUARE = ("red", "circle"), ("red", "square")
BLUE_CIRCLE, BLUE_SQUARE = ("blue", "circle"), ("blue", "square")
FOUR = [RED_CIRCLE, RED_SQUARE, BLUE_CIRCLE, BLUE_SQUARE]
WORDS = ["red", "blue", "circle", "square"]


class Net(nn.Module):
    """hidden -> ReLU, or nothing -> out."""

    def __init__(self, inputs: int, width: int, bent: bool = True) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, width, dtype=torch.float64)
        self.act = nn.ReLU(inplace=True) if bent else nn.Identity()
        self.out = nn.Linear(width, 2, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act(self.hidden(x)))


def first(answer: Tensor, *inputs: Tensor) -> Tensor:
    return answer[..., 0]


def weighed(answer: Tensor, *inputs: Tensor) -> Tensor:
    """Tokens count for 1, 2, 3, ..."""
    return answer[..., 0] @ torch.arange(1.0, answer.shape[1] + 1, dtype=answer.dtype)


def layers_of(net: nn.Module, names: list[str]) -> dict[str, nn.Module]:
    """By name; neurons are what goes into a layer."""
    return {name: net.get_submodule(name) for name in names}


def influence(*call) -> dict[str, Tensor]:
    return {name: each.mean(dim=0) for name, each in influences(*call).items()}


def most(influence: dict[str, Tensor], share: float = SHARE) -> set[tuple[str, int]]:
    """The most influential neurons of each layer; of equal ones, the first; no dead one."""
    found = set()
    for name, each in influence.items():
        count = max(1, round(share * len(each)))
        ranked = sorted(range(len(each)), key=lambda neuron: (-float(each[neuron]), neuron))
        found |= {(name, neuron) for neuron in ranked[:count] if each[neuron] > 0}
    return found


def jaccard(a: set, b: set) -> float:
    return len(a & b) / max(len(a | b), 1)


def drawn(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def close(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        torch.allclose(a[name], b[name], rtol=0, atol=1e-10) for name in a
    )


def test_each_token_has_its_own_mean_and_its_own_gradient(rng):
    net, x = Net(3, 5, bent=False), drawn(rng, 7, 4, 3) + 10 * drawn(rng, 4, 1)
    hidden, expected = net.hidden(x), torch.zeros(5, dtype=torch.float64)
    for each in hidden:
        for token in range(4):
            away = each[token] - hidden[:, token].mean(dim=0)
            expected += ((token + 1) * net.out.weight[0] * away).abs() / (7 * 4)
    found = influence(net, layers_of(net, ["act"]), (x,), weighed)
    assert close(found, {"act": expected})


def test_influence_before_and_after_a_relu_has_its_closed_form(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    before = net.hidden(x).detach()
    after, weight = before.clamp(min=0), net.out.weight[0]
    layers = layers_of(net, ["act", "out"])
    slope = weight * (before > 0)
    above = (weight * (after - after.mean(dim=0))).abs().mean(dim=0)
    assert close(
        influence(net, layers, (x,), first),
        {"act": (slope * (before - before.mean(dim=0))).abs().mean(dim=0), "out": above},
    )


def test_the_target_may_look_at_inputs_that_the_network_does_not(rng):
    net, x, scale = Net(3, 5, bent=False), drawn(rng, 7, 3), drawn(rng, 7)
    layers = layers_of(net, ["act"])
    found = influence(
        lambda x, scale: net(x), layers, (x, scale), lambda out, x, scale: out[:, 0] * scale
    )
    hidden = net.hidden(x)
    away = net.out.weight[0] * (hidden - hidden.mean(dim=0)) * scale[:, None]
    assert close(found, {"act": away.abs().mean(dim=0)})


def test_neither_the_order_of_inputs_nor_how_many_go_at_once_matters(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    layers, order = layers_of(net, ["act", "out"]), torch.randperm(7, generator=rng)
    rows = influences(net, layers, (x,), first)
    shuffled = influences(net, layers, (x[order],), first, 3)
    assert close({name: each[order] for name, each in rows.items()}, shuffled)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_a_network_is_left_as_it_was(rng, mode):
    net, x = Net(3, 5).requires_grad_(False), drawn(rng, 7, 3)
    layers = layers_of(net, ["act", "out"])
    plain = net(x)
    with mode():
        found = influence(net, layers, (x.clone(),), first)
    net.requires_grad_(True)
    assert close(found, influence(net, layers, (x,), first))
    assert torch.equal(net(x), plain)
    assert not net.act._forward_pre_hooks
    assert not net.out._forward_pre_hooks
    assert all(weight.grad is None for weight in net.parameters())


def test_a_neuron_that_never_changes_has_exactly_no_influence(rng):
    net = Net(3, 5, bent=False).float()
    net.hidden.weight.data[1], net.hidden.bias.data[1] = 0, 0.1
    x = drawn(rng, 7, 3).float()
    found = influence(net, layers_of(net, ["act"]), (x,), first)
    assert found["act"][1] == 0
    assert most(found, 1.0) == {("act", neuron) for neuron in (0, 2, 3, 4)}


def test_a_layer_that_the_target_does_not_depend_on_has_no_influence(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    other = nn.Linear(3, 2, dtype=torch.float64)
    layers = {"act": net.act, "other": other}
    found = influence(lambda x: (net(x), other(x))[0], layers, (x,), first)
    assert found["other"].tolist() == [0, 0, 0]
    assert found["act"].max() > 0


def test_heads_of_a_transformer_are_groups_of_neurons(rng):
    net = Masked(side=2, width=8, layers=2, heads=2).build().requires_grad_(False).double()
    for weight in net.parameters():
        weight.copy_(drawn(rng, *weight.shape))
    tokens = torch.randint(256, (6, 2, 2), generator=rng)
    hidden = torch.rand(6, 2, 2, generator=rng) < 0.5
    names = [f"blocks.{block}.attention.out" for block in (0, 1)]
    layers = layers_of(net, names)

    def likelihood(answer, tokens, hidden, condition):
        return answer.output.log_softmax(-1).gather(-1, tokens[..., None])[..., 0].sum((1, 2))

    found = influence(net, layers, (tokens, hidden, drawn(rng, 6, 3, 4)), likelihood)
    assert list(found) == names
    heads = by_head(found, 2)
    for name in names:
        assert found[name].shape == (8,)
        assert found[name].min() > 0
        assert torch.allclose(heads[name][1], found[name][4:].sum())


def test_by_head_adds_up_channels_that_lie_side_by_side():
    numbers = torch.arange(6.0)
    assert by_head({"a": numbers}, 3)["a"].tolist() == [1, 5, 9]
    assert by_head({"a": numbers.expand(2, 6)}, 2)["a"].tolist() == [[3, 12]] * 2


def conditioned(rng: torch.Generator, each: int = 4) -> tuple[Tensor, list]:
    """One-hot words and compositions, louder or less so: (input, 8)."""
    of = [which for which in FOUR for _ in range(each)]
    words = torch.tensor([[float(word in which) for word in WORDS] for which in of])
    ids = torch.tensor([[float(which == other) for other in FOUR] for which in of])
    loud = 1 + 0.1 * torch.rand(len(of), 1, generator=rng)
    return torch.cat([words, ids], dim=1).double() * loud, of


def serving(columns: list[int] | None) -> Net:
    """20 neurons, silent by themselves; 5 for each of four columns, or the first 5 for all."""
    net = Net(8, 20)
    weights = torch.zeros(20, 8, dtype=torch.float64)
    weights[:5, 4:] = 0 if columns else 2
    for place, column in enumerate(columns or ()):
        weights[5 * place : 5 * place + 5, column] = 2
    net.hidden.weight.data, net.hidden.bias.data = weights, -torch.ones_like(weights[:, 0])
    net.out.weight.data.fill_(1)
    return net


def answers(net: Net, share: float, rng: torch.Generator) -> tuple[float, dict]:
    x, of = conditioned(rng)
    rows = influences(net, layers_of(net, ["act"]), (x,), first)
    by = by_composition(rows, of)
    assert list(by) == FOUR
    several = polysemanticity(by, rng, share)["act"]
    pairs = overlaps(by, rng, share)
    assert several.n == 16
    assert {pair.n for pair in pairs.values()} == {8}
    tops = {which: most({"act": mine["act"].mean(0)}, share) for which, mine in by.items()}
    assert all(found.value == jaccard(tops[a], tops[b]) for (a, b), found in pairs.items())
    return several.value, {pair: found.value for pair, found in pairs.items()}


@pytest.mark.parametrize(("columns", "shared"), [([4, 5, 6, 7], 0), (None, 1)])
def test_all_or_nothing_is_shared_as_neurons_serve_all_or_one(rng, columns, shared):
    several, pairs = answers(serving(columns), 0.25, rng)
    assert several == shared
    assert list(pairs.values()) == [shared] * 6


def test_where_neurons_serve_a_concept_compositions_share_but_no_neuron_is_polysemantic(rng):
    several, pairs = answers(serving([0, 1, 2, 3]), 0.5, rng)
    assert several == 0
    for (a, b), found in pairs.items():
        assert found == pytest.approx(1 / 3 if set(a) & set(b) else 0)


def rows_of(*tops: int, n: int = 3) -> dict[str, Tensor]:
    """Neurons in which these of 20 neurons stand out."""
    rows = torch.full((n, 20), 0.1)
    rows[:, list(tops)] = 1
    return {"layer": rows}


def test_a_neuron_is_polysemantic_if_its_compositions_have_no_concept_in_common(rng):
    by = {RED_CIRCLE: rows_of(0, 1), BLUE_SQUARE: rows_of(0, 2), RED_SQUARE: rows_of(1, 2)}
    assert polysemanticity(by, rng, 0.1)["layer"].value == pytest.approx(1 / 3)
    assert [each.value for each in overlaps(by, rng, 0.1).values()] == pytest.approx([1 / 3] * 3)


def test_a_neuron_need_not_serve_all_concepts_of_a_factor_to_be_polysemantic(rng):
    by = {("red",): rows_of(0, 1), ("blue",): rows_of(0, 2), ("green",): rows_of(3, 4)}
    assert polysemanticity(by, rng, 0.1)["layer"].value == pytest.approx(1 / 5)


def test_a_concept_that_all_compositions_have_does_not_count(rng):
    by = {RED_CIRCLE: rows_of(0, 1), BLUE_CIRCLE: rows_of(0, 2)}
    assert polysemanticity(by, rng, 0.1)["layer"].value == pytest.approx(1 / 3)


def test_layers_are_ranked_and_reported_apart(rng):
    a, b = rows_of(0)["layer"], 100 * rows_of(1)["layer"]
    by = {RED_CIRCLE: {"low": a, "high": b}, BLUE_SQUARE: {"high": a, "low": a}}
    found = polysemanticity(by, rng)
    assert {name: each.value for name, each in found.items()} == {"low": 1, "high": 0}
    assert overlaps(by, rng)[RED_CIRCLE, BLUE_SQUARE].value == pytest.approx(1 / 3)


def test_the_interval_is_that_of_inputs_drawn_anew(rng, monkeypatch):
    monkeypatch.setattr(circuits, "DRAWS", 60)
    by = {
        which: {
            name: (drawn(rng, n, width) + drawn(rng, width)).abs()
            for name, width in (("a", 200), ("b", 300))
        }
        for which, n in ((RED_CIRCLE, 9), (BLUE_SQUARE, 6))
    }
    found = overlaps(by, torch.Generator().manual_seed(1), 0.2)[RED_CIRCLE, BLUE_SQUARE]
    again, tops = torch.Generator().manual_seed(1), {}
    for which, rows in by.items():
        n = len(rows["a"])
        tops[which] = [
            most({name: each[draw].mean(dim=0) for name, each in rows.items()}, 0.2)
            for draw in [torch.arange(n), *torch.randint(n, (60, n), generator=again)]
        ]
    value, *shares = [jaccard(*each) for each in zip(*tops.values(), strict=True)]
    ends = torch.tensor(shares).double().quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    assert ends[0] < found.value == value < ends[1]
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert found.n == 15


def test_an_interval_holds_its_value_even_where_every_draw_is_lower(rng, monkeypatch):
    monkeypatch.setattr(circuits, "DRAWS", 20)
    rows = torch.eye(40) + 1
    found = overlaps({RED_CIRCLE: {"a": rows}, BLUE_SQUARE: {"a": rows}}, rng, 0.5)
    only = found[RED_CIRCLE, BLUE_SQUARE]
    assert only.value == only.high == 1
    assert only.low < 0.9


def test_of_equal_neurons_the_first_serve_and_a_dead_one_never_does(rng):
    first_two = {"a": torch.ones(2, 100)}
    dead = {"a": torch.zeros(2, 100)}
    dead["a"][:, 1] = 1
    for which, expected in ((first_two, 1), (dead, 1 / 2)):
        pair = overlaps({RED_CIRCLE: first_two, BLUE_SQUARE: which}, rng, 0.02)
        assert pair[RED_CIRCLE, BLUE_SQUARE].value == expected


def test_an_influence_that_is_not_a_number_is_refused(rng):
    by = {RED_CIRCLE: rows_of(0), BLUE_SQUARE: {"layer": torch.full((3, 20), torch.nan)}}
    for measure in (overlaps, polysemanticity):
        with pytest.raises(ValueError, match="NaN"):
            measure(by, rng)


def test_a_layer_runs_once(rng):
    layer, x = Net(3, 3).hidden, drawn(rng, 7, 3)
    for words, model in [
        (r"once in a pass; \['h', 'h'\]", lambda x: layer(layer(x))),
        (r"once in a pass; \[\] of \['h'\]", lambda x: x),
    ]:
        with pytest.raises(ValueError, match=words):
            influence(model, {"h": layer}, (x,), first)
