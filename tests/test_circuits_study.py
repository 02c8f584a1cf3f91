"""Circuits and token locality of trained masked models."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recombine.condition import Conditioner, FactorValues, Labels, all_objects
from recombine.measure import circuits as definitions
from recombine.measure.circuits import (
    by_composition,
    by_head,
    influences,
    overlaps,
    polysemanticity,
)
from recombine.measure.masked import (
    Circuits,
    apart,
    compared_layers,
    half_hidden,
    next_value,
    rendered,
)
from recombine.measure.subject import Findings, Measure
from recombine.measure.token_locality import TokenLocality
from recombine.measurement import Measurement
from recombine.models.heads import DiffusionHead, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, MaskedMixture
from recombine.scene import concept_rows
from recombine.worlds.circles import Circles
from recombine.worlds.files.celeba import CELEBA
from recombine.worlds.shapes2d import BINARY, PAPER
from subjects import Model, training

SMALL = Masked(features=2, head=LogitHead(256), width=16, layers=2, heads=2)
LABELS = Conditioner(all_objects, Labels((2, 2, 2)))
CIRCUITS, TOKENS = Circuits(samples=3, masks=2), TokenLocality(samples=1)


class Pooled:
    """Tokens are the mean light of 4 x 4 pixels: 256 codes, or latents of 8 numbers."""

    def __init__(self, codes: bool) -> None:
        self.codes = codes

    def __call__(self, image: Tensor) -> Tensor:
        pooled = F.avg_pool2d(image, 4)
        if not self.codes:
            return torch.cat([pooled] * 3, dim=1)[:, :8]
        # Not the mean of the channels: red and blue are as bright.
        return (pooled[:, 0] * 170 + pooled[:, 2] * 85.999).long()


def of(network: Masked, objective: Any, codes: bool = True, **others: Any) -> SimpleNamespace:
    parts = {"world": replace(PAPER, among=BINARY.seen), "conditioner": LABELS, **others}
    return training(**parts, network=network, objective=objective, view=Pooled(codes))


MASKGIT = of(SMALL, MaskedCrossEntropy())
JEPA = of(SMALL, Jepa((0, 1))(MaskedCrossEntropy()))
KINDS = {
    "codes": MASKGIT,
    "adaln": of(replace(SMALL, adaln=True), MaskedCrossEntropy()),
    "givt": of(replace(SMALL, head=MixtureHead(8, 3)), MaskedMixture(), codes=False),
    "mar": of(
        replace(SMALL, head=DiffusionHead(8, 1, 16, sigma_data=1.0)),
        MaskedDiffusion(diffusion=Diffusion(sigma_data=1.0)),
        codes=False,
    ),
}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "DRAWS", 20)


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def untrained(parts: SimpleNamespace) -> nn.Module:
    """A model that predicts something: fresh logits are 0."""
    torch.manual_seed(1)
    model = parts.objective.wrap(parts.network.build()).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)
    return model


def subject_of(parts: SimpleNamespace, model: nn.Module | None = None) -> Model:
    """Both measurements are of small differences: the other precision raises."""
    return Model(parts, precise=(model or untrained(parts)).forward)


def measured(parts: SimpleNamespace, measure: Measure, seed: int = 0) -> Findings:
    with torch.no_grad():
        return measure(subject_of(parts), noise(seed))


@pytest.mark.parametrize("measure", [CIRCUITS, TOKENS])
def test_the_same_seed_finds_the_same_in_any_mode(measure):
    subject = subject_of(MASKGIT)
    plain = measure(subject, noise())
    for mode in (torch.no_grad(), torch.inference_mode(False), torch.inference_mode()):
        with mode:
            assert measure(subject, noise()) == plain
    assert measure(subject, noise(1)) != plain
    assert replace(measure, seed=7)(subject, noise()) != plain


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_masked_model_can_be_measured(kind: str):
    found = measured(KINDS[kind], CIRCUITS)
    layers = [
        f"{name}@layer{at}" for at in (0, 1) for name in ("polysemantic", "polysemantic_heads")
    ]
    gaps = [f"jaccard@apart{factors}" for factors in (1, 2, 3)]
    names = list(found.measurements)
    assert names[:7] == [*layers, *gaps]
    assert {found.measurements[name].n for name in names[:7]} == {8 * 3}
    assert len(names[7:]) == 28
    assert names[7] == "jaccard@circle-large-red~circle-large-blue"
    assert not found.undefined
    tokens = measured(KINDS[kind], TOKENS).measurements
    for level, n in {0: 4, 1: 3, 2: 1}.items():
        for name in ("token_locality", "token_locality_even", "factor_interaction"):
            assert tokens[f"{name}@level{level}"].n == n
    assert len(tokens) == 9


@pytest.mark.parametrize("measure", [CIRCUITS, TOKENS])
def test_a_network_with_jepa_around_it_is_the_same_network(measure):
    wrapped = untrained(JEPA)
    with torch.no_grad():
        around = measure(subject_of(JEPA, wrapped), noise())
        alone = measure(subject_of(MASKGIT, wrapped.network), noise())
    assert around == alone


def test_circuits_are_those_of_the_declared_functions():
    """Mask by mask, with samples 0 and 2 under the first and 1 under the second."""
    subject = subject_of(MASKGIT)
    found = CIRCUITS(subject, noise()).measurements
    rng = noise()
    tokens, condition = rendered(subject, BINARY.compositions, 3, CIRCUITS.seed)
    MASKGIT.objective.corrupted(tokens, rng)
    masks = half_hidden(2, 7, rng)
    net = subject.precise.__self__
    inside = {f"n{at}": block.outer for at, block in enumerate(net.blocks)}
    inside |= {f"h{at}": block.attention.out for at, block in enumerate(net.blocks)}
    parts, which = [], []
    for mask, mine in zip(masks, ([0, 2], [1]), strict=True):
        rows = [3 * place + sample for place in range(8) for sample in mine]
        inputs = (tokens[rows], mask.expand(len(rows), 7, 7), condition[rows])

        def likelihood(answer, tokens, hidden, condition):
            chosen = answer.output.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
            return (chosen * hidden).sum((1, 2)) / 24

        parts.append(influences(net, inside, inputs, likelihood))
        which += [BINARY.compositions[row // 3] for row in rows]
    rows = {name: torch.cat([part[name] for part in parts]) for name in inside}
    neurons = by_composition({name: rows[name] for name in ("n0", "n1")}, which)
    heads = by_composition(by_head({name: rows[name] for name in ("h0", "h1")}, 2), which)
    for at in (0, 1):
        several = polysemanticity(neurons, noise())[f"n{at}"].value
        assert found[f"polysemantic@layer{at}"].value == several
        several = polysemanticity(heads, noise())[f"h{at}"].value
        assert found[f"polysemantic_heads@layer{at}"].value == several
    pairs = overlaps(neurons, noise())
    each = {name: m.value for name, m in found.items() if "~" in name}
    assert each == {f"jaccard@{'-'.join(a)}~{'-'.join(b)}": m.value for (a, b), m in pairs.items()}
    assert len({*each.values()}) > 3


def test_overlaps_are_averaged_over_pairs_as_far_apart():
    a, b, c = ("x", "x"), ("x", "y"), ("y", "y")
    pairs = {
        (a, b): Measurement(0.2, 0.1, 0.5, n=8),
        (b, c): Measurement(0.4, 0.3, 0.7, n=8),
        (a, c): Measurement(0.1, 0.0, 0.2, n=8),
    }
    found = apart(pairs, 4)
    assert list(found) == ["jaccard@apart1", "jaccard@apart2"]
    one, two = found.values()
    assert (one.value, one.low, one.high) == pytest.approx((0.3, 0.2, 0.6))
    assert (two.value, two.low, two.high) == pytest.approx((0.1, 0.0, 0.2))
    assert (one.n, two.n) == (12, 8)


def test_a_constant_model_has_no_circuits_and_its_reasons():
    model = untrained(MASKGIT)
    nn.init.zeros_(model.outlet.weight)
    subject = subject_of(MASKGIT, model)
    found = CIRCUITS(subject, noise())
    assert found.measurements == {}
    names = list(found.undefined)
    assert names[:2] == ["polysemantic@layer0", "polysemantic_heads@layer0"]
    assert names[-1] == "jaccard"
    tokens = TOKENS(subject, noise())
    assert list(tokens.measurements) == [f"token_locality_even@level{at}" for at in (0, 1, 2)]
    assert len(tokens.undefined) == 6


def test_a_layer_without_influence_is_undefined_and_the_others_are_not():
    model = untrained(MASKGIT)
    for layer in (model.blocks[1].outer, model.blocks[1].attention.out):
        nn.init.zeros_(layer.weight)
    with torch.no_grad():
        found = CIRCUITS(subject_of(MASKGIT, model), noise())
    assert list(found.undefined) == ["polysemantic@layer1", "polysemantic_heads@layer1"]
    assert {"polysemantic@layer0", "polysemantic_heads@layer0"} < set(found.measurements)
    assert "jaccard@apart1" in found.measurements


def test_layers_may_be_chosen():
    found = compared_layers(subject_of(JEPA), (1,))
    assert list(found) == ["polysemantic@layer1", "polysemantic_heads@layer1"]
    with pytest.raises(ValueError, match=r"the layers 0\.\.1; got 2"):
        compared_layers(subject_of(MASKGIT), (0, 2))


def test_tokens_and_conditions_are_of_the_composition():
    tokens, condition = rendered(subject_of(MASKGIT), BINARY.compositions, 2, 5)
    values = condition[::2, :, :-1].argmax(-1)
    assert torch.equal(values, concept_rows(BINARY.factors, BINARY.compositions))
    assert torch.equal(condition[::2], condition[1::2])
    for place, which in enumerate(BINARY.compositions):
        world = replace(MASKGIT.world, among=(which,))
        image = world.image(world.scenes(torch.arange(2), 5))
        assert torch.equal(tokens[2 * place : 2 * place + 2], MASKGIT.view(image))


def test_half_is_hidden_each_time_another():
    hidden = half_hidden(50, 7, noise())
    assert hidden.sum(dim=(1, 2)).unique().tolist() == [24]
    assert hidden.float().mean(dim=0).min() > 0.2
    assert hidden.float().mean(dim=0).max() < 0.8
    assert len(hidden.unique(dim=0)) == 50


def test_there_are_no_more_masks_than_samples():
    few, more = (replace(CIRCUITS, masks=masks) for masks in (3, 9))
    subject = subject_of(MASKGIT)
    assert few(subject, noise()) == more(subject, noise())


def test_after_the_last_concept_of_a_factor_comes_the_first():
    which = ("triangle", "large", "blue")
    assert next_value(which, BINARY.factors, 0) == ("circle", "large", "blue")
    assert next_value(which, BINARY.factors, 1) == ("triangle", "small", "blue")
    assert next_value(which, BINARY.factors, 2) == ("triangle", "large", "red")


class Predicted(NamedTuple):
    output: Tensor


def depending(near: Tensor) -> Callable[..., Predicted]:
    """A model of codes: neighbours count under this condition, otherwise those farther away."""
    kernel = torch.zeros(13, 13)
    kernel[5:8, 5:8] = 1

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        seen = torch.where(hidden, 0, tokens / 256)[:, None]
        close, all_of_it = (
            F.conv2d(seen, each[None, None], padding=6)[:, 0] for each in (kernel, 1 + 0 * kernel)
        )
        is_near = (condition[..., 1] == near).all(dim=1)[:, None, None]
        sums = torch.where(is_near, close, all_of_it - close)
        return Predicted(torch.stack([sums, 0 * sums], dim=-1).double())

    return predictor


@pytest.mark.parametrize(
    ("near", "expected"), [([1.0, 1, 1], {0: 0, 1: 0, 2: 1}), ([0.0, 0, 0], {0: 1 / 4, 1: 0, 2: 0})]
)
def test_locality_is_measured_level_by_level(near: list[float], expected: dict[int, float]):
    """Near is one of four compositions that were seen, or the only one at level 2."""
    subject = Model(MASKGIT, precise=depending(torch.tensor(near)))
    found = replace(TOKENS, samples=2)(subject, noise()).measurements
    shares = {level: found[f"token_locality@level{level}"].value for level in (0, 1, 2)}
    assert shares == pytest.approx(expected, abs=1e-3)
    wide = replace(TOKENS, radius=6)(subject, noise()).measurements
    assert wide["token_locality@level1"].value == pytest.approx(1)
    assert wide["token_locality_even@level1"].value == 1
    assert 0.05 < found["token_locality_even@level1"].value < 0.3


def products(*terms: tuple[int, ...]) -> Callable[..., Predicted]:
    """A model whose logits are products of some factors' signs, each with steps of its own."""
    steps = torch.randn(len(terms), 7, 7, 5, generator=noise(2), dtype=torch.float64)

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        signs = (condition[..., 0] - condition[..., 1]).double()
        parts = [
            signs[:, list(which)].prod(dim=1)[:, None, None, None] * step
            for which, step in zip(terms, steps, strict=True)
        ]
        return Predicted(sum(parts))

    return predictor


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([(0,), (1,), (2,)], 0),
        ([(0, 1, 2)], 1),
        # Of three pairs of factors, one.
        ([(0, 1)], 1 / 3),
        # Of three pairs, two move anything.
        ([(0,)], 0),
    ],
)
def test_factors_that_act_by_themselves_do_not_interact(terms: list, expected: float):
    found = TOKENS(Model(MASKGIT, precise=products(*terms)), noise()).measurements
    for level in (0, 1, 2):
        assert found[f"factor_interaction@level{level}"].value == pytest.approx(expected)


def test_a_change_of_actual_values_is_of_one_factor_too():
    actual = Conditioner(all_objects, FactorValues())
    parts = of(replace(SMALL, features=3), MaskedCrossEntropy(), conditioner=actual)
    assert measured(parts, TOKENS).measurements["factor_interaction@level2"].value > 0


@pytest.mark.parametrize("measure", [CIRCUITS, TOKENS], ids=["circuits", "token_locality"])
@pytest.mark.parametrize(
    ("parts", "split", "words"),
    [
        (of(SMALL, Diffusion()), BINARY, "models that predict hidden tokens; got Diffusion"),
        (of(SMALL, MASKGIT.objective, world=Circles()), BINARY, "of one object; got Circles"),
        (MASKGIT, CELEBA, "a split of the world's own factors, shape, size, colour; got celeba"),
    ],
)
def test_what_cannot_be_measured_is_refused(measure, parts, split, words: str):
    subject = Model(parts, precise=lambda *call: call[0])
    with pytest.raises(ValueError, match=f"{measure.name} is measured on .*{words}"):
        replace(measure, split=split)(subject, noise())


def test_circuits_need_a_network_with_known_layers():
    with pytest.raises(ValueError, match="whose neurons and heads are known; got function"):
        CIRCUITS(Model(MASKGIT, precise=products((0,))), noise())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Circuits(samples=1), "got 1 and 4"),
        (lambda: Circuits(masks=0), "got 32 and 0"),
        (lambda: TokenLocality(samples=0), "got 0 and 1"),
        (lambda: TokenLocality(radius=0), "got 32 and 0"),
    ],
)
def test_settings_that_measure_nothing_are_refused(wrong: Callable, words: str):
    with pytest.raises(ValueError, match=words):
        wrong()
