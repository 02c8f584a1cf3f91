"""Influence and overlap are measured on networks small enough to know the answer."""

import pytest
import torch
from torch import Tensor, nn

from recombine.measure import circuits
from recombine.measure.circuits import (
    Attribution,
    InputOf,
    by_composition,
    by_head,
    influence,
    jaccard,
    most,
    overlaps,
    patched_influence,
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
    return {name: net.get_submodule(name) for name in names}


def drawn(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def close(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        torch.allclose(a[name], b[name], rtol=0, atol=1e-10) for name in a
    )


def test_influence_in_a_linear_network_is_weight_times_distance_from_the_mean(rng):
    net, x = Net(3, 5, bent=False), drawn(rng, 7, 3)
    found = influence(net, layers_of(net, ["hidden"]), (x,), first)
    hidden = net.hidden(x)
    expected = (net.out.weight[0] * (hidden - hidden.mean(dim=0))).abs().mean(dim=0)
    assert close(found, {"hidden": expected})


def test_each_token_has_its_own_mean_and_its_own_gradient(rng):
    net, x = Net(3, 5, bent=False), drawn(rng, 7, 4, 3) + 10 * drawn(rng, 4, 1)
    hidden, expected = net.hidden(x), torch.zeros(5, dtype=torch.float64)
    for each in hidden:
        for token in range(4):
            away = each[token] - hidden[:, token].mean(dim=0)
            expected += ((token + 1) * net.out.weight[0] * away).abs() / (7 * 4)
    found = influence(net, layers_of(net, ["hidden"]), (x,), weighed)
    assert close(found, {"hidden": expected})


def test_influence_before_and_after_a_relu_has_its_closed_form(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    before = net.hidden(x).detach()
    after, weight = before.clamp(min=0), net.out.weight[0]
    layers = layers_of(net, ["hidden", "act"])
    slope = weight * (before > 0)
    at_mean = before.mean(dim=0).clamp(min=0)
    above = (weight * (after - after.mean(dim=0))).abs().mean(dim=0)
    assert close(
        influence(net, layers, (x,), first),
        {"hidden": (slope * (before - before.mean(dim=0))).abs().mean(dim=0), "act": above},
    )
    assert close(
        patched_influence(net, layers, (x,), first),
        {"hidden": (weight * (after - at_mean)).abs().mean(dim=0), "act": above},
    )


@pytest.mark.parametrize("tokens", [(), (3,)])
def test_patching_agrees_with_the_gradient_in_a_deep_linear_network(rng, tokens):
    net = nn.Sequential(Net(3, 5, bent=False), nn.Linear(2, 4), Net(4, 6, bent=False)).double()
    layers = layers_of(net, ["0.hidden", "1", "2.hidden", "2"])
    call = (net, layers, (drawn(rng, 7, *tokens, 3),), weighed if tokens else first)
    assert close(influence(*call), patched_influence(*call))
    assert influence(*call)["0.hidden"].min() > 0


def test_the_target_may_look_at_inputs_that_the_network_does_not(rng):
    net, x, scale = Net(3, 5, bent=False), drawn(rng, 7, 3), drawn(rng, 7)
    layers = layers_of(net, ["hidden"])
    found = influence(
        lambda x, scale: net(x), layers, (x, scale), lambda out, x, scale: out[:, 0] * scale
    )
    hidden = net.hidden(x)
    away = net.out.weight[0] * (hidden - hidden.mean(dim=0)) * scale[:, None]
    assert close(found, {"hidden": away.abs().mean(dim=0)})


@pytest.mark.parametrize("how", ["influences", "patched_influences"])
def test_neither_the_order_of_inputs_nor_how_many_go_at_once_matters(rng, how):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    layers, order = layers_of(net, ["hidden", "act"]), torch.randperm(7, generator=rng)
    rows = getattr(Attribution(net, layers, (x,), first), how)()
    shuffled = getattr(Attribution(net, layers, (x[order],), first, at_once=3), how)()
    assert close({name: each[order] for name, each in rows.items()}, shuffled)


def test_what_goes_into_a_layer_has_an_influence(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    layers = {"act": net.act, "out": InputOf(net.out)}
    for how in (influence, patched_influence):
        found = how(net, layers, (x,), first)
        assert torch.allclose(found["out"], found["act"], rtol=0, atol=1e-10)


def test_patching_a_layer_leaves_alone_what_went_into_it(rng):
    call = (lambda x: x - 3 * layer(x), {"same": (layer := nn.Identity())}, (drawn(rng, 7, 2),))
    assert close(influence(*call, first), patched_influence(*call, first))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_a_network_is_left_as_it_was(rng, mode):
    net, x = Net(3, 5).requires_grad_(False), drawn(rng, 7, 3)
    layers = {**layers_of(net, ["hidden"]), "out": InputOf(net.out)}
    plain = net(x)
    with mode():
        found = influence(net, layers, (x.clone(),), first)
    net.requires_grad_(True)
    assert close(found, influence(net, layers, (x,), first))
    with pytest.raises(ValueError, match="finite number"):
        influence(net, layers, (x,), lambda out, x: out)
    assert torch.equal(net(x), plain)
    assert not net.hidden._forward_hooks
    assert not net.out._forward_pre_hooks
    assert all(weight.grad is None for weight in net.parameters())
    assert not patched_influence(net, layers, (x,), first)["hidden"].requires_grad


def test_a_neuron_that_never_changes_has_exactly_no_influence(rng):
    net = Net(3, 5, bent=False).float()
    net.hidden.weight.data[1], net.hidden.bias.data[1] = 0, 0.1
    x = drawn(rng, 7, 3).float()
    for how in (influence, patched_influence):
        found = how(net, layers_of(net, ["hidden"]), (x,), first)
        assert found["hidden"][1] == 0
        assert most(found, 1.0) == {("hidden", neuron) for neuron in (0, 2, 3, 4)}


def test_a_layer_that_the_target_does_not_depend_on_has_no_influence(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    other = nn.Linear(3, 2, dtype=torch.float64)
    layers = {"hidden": net.hidden, "other": other}
    for how in (influence, patched_influence):
        found = how(lambda x: (net(x), other(x))[0], layers, (x,), first)
        assert found["other"].tolist() == [0, 0]
        assert found["hidden"].max() > 0


def test_heads_of_a_transformer_are_groups_of_neurons(rng):
    net = Masked(side=2, width=8, layers=2, heads=2).build().requires_grad_(False).double()
    for weight in net.parameters():
        weight.copy_(drawn(rng, *weight.shape))
    tokens = torch.randint(256, (6, 2, 2), generator=rng)
    hidden = torch.rand(6, 2, 2, generator=rng) < 0.5
    names = [f"blocks.{block}.attention.out" for block in (0, 1)]
    layers = {name: InputOf(layer) for name, layer in layers_of(net, names).items()}

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


def test_the_most_influential_are_a_share_of_each_layer():
    layers = {"a": torch.arange(1.0, 101), "b": torch.tensor([1.0, 3, 2])}
    assert most(layers) == {("a", number) for number in range(95, 100)} | {("b", 1)}
    assert len(most({"a": layers["a"]}, 0.29)) == 29
    assert len(most(layers, 1.0)) == 103


def test_of_equal_neurons_the_first_is_taken_and_a_dead_one_never():
    assert most({"a": torch.ones(100)}, 0.02) == {("a", 0), ("a", 1)}
    assert most({"a": torch.tensor([0.0, 0, 3, 0])}, 0.5) == {("a", 2)}
    assert most({"a": torch.zeros(4)}) == set()


def test_jaccard_is_the_share_in_both_of_those_in_either():
    a, b, c, d = (("layer", number) for number in range(4))
    assert jaccard({a, b}, {c, d}) == 0
    assert jaccard({a, b}, {b, a}) == 1
    assert jaccard({a, b}, {b, c}) == pytest.approx(1 / 3)
    assert jaccard({a}, {("other", 0)}) == 0
    assert jaccard(set(), set()) == 0


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
    rows = Attribution(net, layers_of(net, ["hidden"]), (x,), first).influences()
    by = by_composition(rows, of)
    assert list(by) == FOUR
    several = polysemanticity(by, rng, share)["hidden"]
    pairs = overlaps(by, rng, share)
    assert several.n == 16
    assert {pair.n for pair in pairs.values()} == {8}
    tops = {which: most({"hidden": mine["hidden"].mean(0)}, share) for which, mine in by.items()}
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
    """Rows in which these of 20 neurons stand out."""
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


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_is_above_0_and_at_most_1(rng, share):
    with pytest.raises(ValueError, match="above 0 and at most 1; got"):
        most({"a": torch.ones(3)}, share)
    with pytest.raises(ValueError, match="above 0 and at most 1; got"):
        overlaps({RED_CIRCLE: rows_of(0), BLUE_SQUARE: rows_of(0)}, rng, share)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ({}, "2 compositions or more"),
        ({RED_CIRCLE: rows_of(0)}, "2 compositions or more"),
        ({RED_CIRCLE: rows_of(0), ("red",): rows_of(0)}, "same factors"),
        ({RED_CIRCLE: rows_of(0), BLUE_SQUARE: {"b": torch.ones(3, 20)}}, "same neurons"),
        ({RED_CIRCLE: rows_of(0), BLUE_SQUARE: {"layer": torch.ones(3, 4)}}, "same neurons"),
        ({RED_CIRCLE: rows_of(0), BLUE_SQUARE: rows_of(0, n=1)}, "2 inputs or more"),
        ({RED_CIRCLE: {}, BLUE_SQUARE: {}}, "2 inputs or more"),
        ({RED_CIRCLE: rows_of(0), BLUE_SQUARE: {"layer": torch.full((3, 20), torch.nan)}}, "NaN"),
    ],
)
def test_what_cannot_be_compared_is_refused(rng, by, words):
    for measure in (overlaps, polysemanticity):
        with pytest.raises(ValueError, match=words):
            measure(by, rng)


def test_a_question_that_makes_no_sense_is_refused(rng):
    net, x = Net(3, 5), drawn(rng, 7, 3)
    layers = layers_of(net, ["hidden"])
    for words, call in [
        ("2 inputs or more", lambda: influence(net, layers, (x[:1],), first)),
        ("2 inputs or more", lambda: influence(net, layers, (x, x[:3]), first)),
        ("1 at once", lambda: Attribution(net, layers, (x,), first, at_once=0)),
        ("finite number for", lambda: influence(net, layers, (x,), lambda out, x: out[:, 0] / 0)),
        ("no gradient", lambda: influence(net, layers, (x,), lambda out, x: out[:, 0].detach())),
        ("not 2 equal heads", lambda: by_head({"a": torch.ones(5)}, 2)),
        ("a composition for each", lambda: by_composition(rows_of(0), [RED_CIRCLE])),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_a_layer_runs_once_and_gives_tokens_or_a_vector(rng):
    layer, x = Net(3, 3).hidden, drawn(rng, 7, 3)
    for words, model, layers, inputs in [
        (r"once in a pass; \['h', 'h'\]", lambda x: layer(layer(x)), {"h": layer}, x),
        (r"once in a pass; \[\] of \['h'\]", lambda x: x, {"h": layer}, x),
        ("1 or more, runs once", layer, {}, x),
        (r"got torch.Size\(\[7, 1, 1, 3\]\)", layer, {"h": layer}, x[:, None, None]),
        ("got tuple", nn.LSTM(3, 3).double(), None, x),
    ]:
        with pytest.raises(ValueError, match=words):
            influence(model, {"lstm": model} if layers is None else layers, (inputs,), first)
