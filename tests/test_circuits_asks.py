"""Masked models are asked which neurons, tokens and factors make their answers."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recombine.condition import Actual, Conditioner, everything
from recombine.experiment import Ask, Experiment, Findings, Trained
from recombine.experiments import conditioning, jepa, objective, points
from recombine.experiments.circuits import (
    LOOKED_AT,
    Circuits,
    TokenLocality,
    apart,
    closeness,
    half_hidden,
    in_a_round,
    looked_at,
    next_value,
    objective_of,
    rendered,
)
from recombine.measure import circuits as measured_circuits
from recombine.measure.circuits import (
    DEFINITION,
    Asked,
    Into,
    by_composition,
    by_head,
    overlaps,
    polysemanticity,
)
from recombine.measurement import Measurement
from recombine.models.heads import DiffusionHead, Mixture
from recombine.objectives.masked import Asked as Hidden
from recombine.scene import concept_rows
from recombine.spelling import spelled
from recombine.split import BINARY, CELEBA
from recombine.worlds.circles import Circles

CPU = torch.device("cpu")
SMALL = replace(objective.TRUNK, head=objective.CodeHead(256), width=16, layers=2, heads=2)
MASKGIT = replace(objective.maskgit, network=SMALL)
STEERED = replace(MASKGIT, network=replace(SMALL, steered=True))
JEPA = replace(MASKGIT, objective=jepa.Jepa((0, 1))(MASKGIT.objective))
HEADS = {"givt": Mixture(8, 3), "mar": DiffusionHead(8, 1, 16, sigma_data=1.0)}
CONTINUOUS = {
    name: replace(getattr(objective, name), network=replace(SMALL, head=head))
    for name, head in HEADS.items()
}
POINTS = {
    name: replace(of, network=replace(SMALL, head=of.network.head))
    for name, of in (("points", points.squared), ("means", points.givt_squared))
}
CIRCUITS, TOKENS = Circuits(samples=3, masks=2), TokenLocality(samples=1)


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_circuits, "DRAWS", 20)


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def untrained(experiment: Experiment) -> nn.Module:
    """A model that says something: fresh logits are 0."""
    torch.manual_seed(1)
    model = experiment.denoiser().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)
    return model


def trained_of(experiment: Experiment, model: nn.Module | None = None) -> Trained:
    def in_bf16(*asked: object) -> None:
        raise AssertionError("questions about small differences are put to `precise`")

    model = untrained(experiment) if model is None else model
    return Trained(experiment, in_bf16, CPU, plain=model.forward)


def asked_of(experiment: Experiment, ask: Ask, seed: int = 0) -> Findings:
    with torch.no_grad():
        return ask(trained_of(experiment), noise(seed))


@pytest.mark.parametrize("ask", [CIRCUITS, TOKENS])
def test_the_same_seed_finds_the_same_in_any_mode(ask):
    trained = trained_of(MASKGIT)
    plain = ask(trained, noise())
    for mode in (torch.no_grad(), torch.inference_mode(False), torch.inference_mode()):
        with mode:
            assert ask(trained, noise()) == plain
    assert ask(trained, noise(1)) != plain
    assert replace(ask, seed=7)(trained, noise()) != plain
    assert isinstance(ask, Ask)
    assert "seed=10061" in spelled(ask)


@pytest.mark.parametrize(
    "experiment",
    [MASKGIT, STEERED, *CONTINUOUS.values(), *POINTS.values()],
    ids=["codes", "steered", *HEADS, *POINTS],
)
def test_every_kind_of_masked_model_can_be_asked(experiment):
    found = asked_of(experiment, CIRCUITS)
    layers = [
        f"{name}@layer{at}" for at in (0, 1) for name in ("polysemantic", "polysemantic_heads")
    ]
    gaps = [f"jaccard@apart{factors}" for factors in (1, 2, 3)]
    assert list(found.measurements) == [*layers, *gaps]
    assert {each.n for each in found.measurements.values()} == {8 * 3}
    assert found.curves["circuits"] == [DEFINITION, LOOKED_AT]
    assert len(found.curves["jaccard_pairs"]) == 28
    assert "undefined" not in found.curves
    said = asked_of(experiment, TOKENS)
    sizes = {0: 4, 1: 3, 2: 1}
    for level, n in sizes.items():
        for name in ("token_locality", "token_locality_even", "factor_interaction"):
            assert said.measurements[f"{name}@level{level}"].n == n
    assert len(said.measurements) == 9
    assert said.curves == {}


@pytest.mark.parametrize("ask", [CIRCUITS, TOKENS])
def test_a_network_with_jepa_around_it_is_the_same_network(ask):
    wrapped = untrained(JEPA)
    with torch.no_grad():
        around = ask(trained_of(JEPA, wrapped), noise())
        alone = ask(trained_of(MASKGIT, wrapped.network), noise())
    assert around == alone


def test_circuits_are_those_of_the_declared_functions():
    """Mask by mask, with samples 0 and 2 under the first and 1 under the second."""
    trained = trained_of(MASKGIT)
    found = CIRCUITS(trained, noise())
    rng = noise()
    tokens, told = rendered(trained, BINARY.asked, 3, CIRCUITS.seed)
    MASKGIT.objective.asked(tokens, rng)
    masks = half_hidden(2, 7, rng)
    net = trained.plain.__self__
    inside = {f"n{at}": Into(block.outer) for at, block in enumerate(net.blocks)}
    inside |= {f"h{at}": Into(block.attention.out) for at, block in enumerate(net.blocks)}
    parts, which = [], []
    for mask, mine in zip(masks, ([0, 2], [1]), strict=True):
        rows = [3 * place + sample for place in range(8) for sample in mine]
        inputs = (tokens[rows], mask.expand(len(rows), 7, 7), told[rows])

        def likelihood(answer, tokens, hidden, condition):
            chosen = answer.output.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
            return (chosen * hidden).sum((1, 2)) / 24

        parts.append(Asked(net, inside, inputs, likelihood).influences())
        which += [BINARY.asked[row // 3] for row in rows]
    rows = {name: torch.cat([part[name] for part in parts]) for name in inside}
    neurons = by_composition({name: rows[name] for name in ("n0", "n1")}, which)
    heads = by_composition(by_head({name: rows[name] for name in ("h0", "h1")}, 2), which)
    for at in (0, 1):
        several = polysemanticity(neurons, noise())[f"n{at}"].value
        assert found.measurements[f"polysemantic@layer{at}"].value == several
        several = polysemanticity(heads, noise())[f"h{at}"].value
        assert found.measurements[f"polysemantic_heads@layer{at}"].value == several
    pairs = overlaps(neurons, noise())
    listed = {(a, b): value for a, b, value, *_ in found.curves["jaccard_pairs"]}
    assert listed == {("-".join(a), "-".join(b)): each.value for (a, b), each in pairs.items()}
    assert len({*listed.values()}) > 3


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


def test_a_silent_model_has_no_circuits_and_says_so():
    model = untrained(MASKGIT)
    nn.init.zeros_(model.outlet.weight)
    trained = trained_of(MASKGIT, model)
    found = CIRCUITS(trained, noise())
    assert found.measurements == {}
    names = [name for name, _ in found.curves["undefined"]]
    assert names[:2] == ["polysemantic@layer0", "polysemantic_heads@layer0"]
    assert names[-1] == "jaccard"
    said = TOKENS(trained, noise())
    assert list(said.measurements) == [f"token_locality_even@level{level}" for level in (0, 1, 2)]
    assert len(said.curves["undefined"]) == 6


def test_a_silent_layer_is_undefined_and_the_others_are_not():
    model = untrained(MASKGIT)
    for layer in (model.blocks[1].outer, model.blocks[1].attention.out):
        nn.init.zeros_(layer.weight)
    found = CIRCUITS(trained_of(MASKGIT, model), noise())
    undefined = [name for name, _ in found.curves["undefined"]]
    assert undefined == ["polysemantic@layer1", "polysemantic_heads@layer1"]
    assert {"polysemantic@layer0", "polysemantic_heads@layer0"} < set(found.measurements)
    assert "jaccard@apart1" in found.measurements


def test_tiny_questions_are_about_one_layer_and_one_sample():
    found = asked_of(MASKGIT, Circuits().tiny()).measurements
    assert [name for name in found if "layer" in name] == [
        "polysemantic@layer0",
        "polysemantic_heads@layer0",
    ]
    said = asked_of(MASKGIT, TokenLocality().tiny()).measurements
    assert said["token_locality@level0"].n == 4
    assert said["token_locality@level2"].low is None


def test_layers_may_be_chosen():
    found = looked_at(trained_of(JEPA), (1,))
    assert list(found) == ["polysemantic@layer1", "polysemantic_heads@layer1"]
    with pytest.raises(ValueError, match=r"the layers 0\.\.1; got 2"):
        looked_at(trained_of(MASKGIT), (0, 2))


@pytest.mark.parametrize(
    "experiment", [MASKGIT, *CONTINUOUS.values(), *POINTS.values()], ids=["codes", *HEADS, *POINTS]
)
def test_closeness_is_minus_the_loss_of_an_image(experiment):
    model, loss = untrained(experiment), objective_of(experiment)
    tokens, told = rendered(trained_of(experiment, model), BINARY.asked, 1, 3)
    hidden = half_hidden(8, 7, noise())
    hidden[0, 0] = True
    noisy = loss.asked(tokens, noise()).noisy
    with torch.no_grad():
        answer = model(tokens, hidden, told, *noisy)
        found = closeness(loss, answer, tokens, hidden, told, *noisy)
        for image in range(8):
            one = slice(image, image + 1)
            mine = tuple(each[one] for each in noisy)
            answer = model(tokens[one], hidden[one], told[one], *mine)
            exact = -loss.of(answer, tokens[one], Hidden(hidden[one], mine))
            torch.testing.assert_close(found[image], exact, rtol=1e-4, atol=1e-5)


def test_what_is_seen_and_told_is_of_the_composition():
    trained = trained_of(MASKGIT)
    tokens, told = rendered(trained, BINARY.asked, 2, 5)
    assert torch.equal(told[::2, :, :-1].argmax(-1), concept_rows(BINARY.factors, BINARY.asked))
    assert torch.equal(told[::2], told[1::2])
    for place, which in enumerate(BINARY.asked):
        world = replace(MASKGIT.world, among=(which,))
        image = world.image(world.scenes(torch.arange(2), 5))
        assert torch.equal(tokens[2 * place : 2 * place + 2], MASKGIT.view(image))


def test_half_is_hidden_each_time_another():
    hidden = half_hidden(50, 7, noise())
    assert hidden.sum(dim=(1, 2)).unique().tolist() == [24]
    assert hidden.float().mean(dim=0).min() > 0.2
    assert hidden.float().mean(dim=0).max() < 0.8
    assert len(hidden.unique(dim=0)) == 50
    assert len({tuple(half_hidden(1, 3, noise(seed)).flatten().tolist()) for seed in range(9)}) > 4


def test_there_are_no_more_masks_than_samples():
    few, more = (replace(CIRCUITS, masks=masks) for masks in (3, 9))
    trained = trained_of(MASKGIT)
    assert few(trained, noise()) == more(trained, noise())


def test_in_a_round_each_has_another_one():
    for seed in range(20):
        other = in_a_round(7, noise(seed))
        assert sorted(other.tolist()) == list(range(7))
        assert not (other == torch.arange(7)).any()
    assert len({tuple(in_a_round(7, noise(seed)).tolist()) for seed in range(20)}) > 10


def test_after_the_last_concept_of_a_factor_comes_the_first():
    which = ("triangle", "large", "blue")
    assert next_value(which, BINARY.factors, 0) == ("circle", "large", "blue")
    assert next_value(which, BINARY.factors, 1) == ("triangle", "small", "blue")
    assert next_value(which, BINARY.factors, 2) == ("triangle", "large", "red")


class Said(NamedTuple):
    output: Tensor


def listening(near: Tensor):
    """A model of codes that hears neighbours where this is so, and otherwise those farther away."""
    kernel = torch.zeros(13, 13)
    kernel[5:8, 5:8] = 1

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Said:
        seen = torch.where(hidden, 0, tokens / 256)[:, None]
        close, all_of_it = (
            F.conv2d(seen, each[None, None], padding=6)[:, 0] for each in (kernel, 1 + 0 * kernel)
        )
        is_near = (condition[..., 1] == near).all(dim=1)[:, None, None]
        heard = torch.where(is_near, close, all_of_it - close)
        return Said(torch.stack([heard, 0 * heard], dim=-1).double())

    return predictor


@pytest.mark.parametrize(
    ("near", "expected"), [([1.0, 1, 1], {0: 0, 1: 0, 2: 1}), ([0.0, 0, 0], {0: 1 / 4, 1: 0, 2: 0})]
)
def test_locality_is_told_apart_by_level(near, expected):
    """Near is one of four compositions that were seen, or the only one at level 2."""
    trained = Trained(MASKGIT, listening(torch.tensor(near)), CPU)
    found = replace(TOKENS, samples=2)(trained, noise()).measurements
    shares = {level: found[f"token_locality@level{level}"].value for level in (0, 1, 2)}
    assert shares == pytest.approx(expected, abs=1e-3)
    wide = replace(TOKENS, radius=6)(trained, noise()).measurements
    assert wide["token_locality@level1"].value == pytest.approx(1)
    assert wide["token_locality_even@level1"].value == 1
    assert 0.05 < found["token_locality_even@level1"].value < 0.3


def speaking(*terms: tuple[int, ...]):
    """A model whose logits are products of some factors' signs, each with steps of its own."""
    steps = torch.randn(len(terms), 7, 7, 5, generator=noise(2), dtype=torch.float64)

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Said:
        signs = (condition[..., 0] - condition[..., 1]).double()
        parts = [
            signs[:, list(which)].prod(dim=1)[:, None, None, None] * step
            for which, step in zip(terms, steps, strict=True)
        ]
        return Said(sum(parts))

    return predictor


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([(0,), (1,), (2,)], 0),
        ([(0, 1, 2)], 1),
        # Of three pairs of factors, one.
        ([(0, 1)], 1 / 3),
        # Of three pairs, two are heard.
        ([(0,)], 0),
    ],
)
def test_factors_that_act_by_themselves_do_not_interact(terms, expected):
    found = TOKENS(Trained(MASKGIT, speaking(*terms), CPU), noise()).measurements
    for level in (0, 1, 2):
        assert found[f"factor_interaction@level{level}"].value == pytest.approx(expected)


def test_a_change_of_actual_values_is_of_one_factor_too():
    told = Conditioner(everything, Actual())
    experiment = replace(MASKGIT, conditioner=told, network=replace(SMALL, features=3))
    assert asked_of(experiment, TOKENS).measurements["factor_interaction@level2"].value > 0


@pytest.mark.parametrize("ask", [CIRCUITS, TOKENS])
@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        (objective.dit_kl, "of a Masked of Shapes2D; got DiT of Shapes2D"),
        (replace(MASKGIT, world=Circles()), "of a Masked of Shapes2D; got Masked of Circles"),
        (conditioning.full, "got DiT of Shapes2D"),
    ],
)
def test_other_models_are_told_what_can_be_asked(ask, experiment, words):
    trained = Trained(experiment, lambda *asked: asked[0], CPU)
    with pytest.raises(ValueError, match=words):
        ask(trained, noise())


@pytest.mark.parametrize("ask", [CIRCUITS, TOKENS])
def test_a_split_of_another_world_is_named(ask):
    with pytest.raises(ValueError, match="a split has the world's factors"):
        replace(ask, split=CELEBA)(trained_of(MASKGIT), noise())


def test_circuits_need_a_network_with_layers():
    with pytest.raises(ValueError, match="circuits are those of a MaskedModule; got function"):
        CIRCUITS(Trained(MASKGIT, speaking((0,)), CPU), noise())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Circuits(samples=1), "got 1 and 4"),
        (lambda: Circuits(masks=0), "got 32 and 0"),
        (lambda: TokenLocality(samples=0), "got 0 and 1"),
        (lambda: TokenLocality(radius=0), "got 32 and 0"),
    ],
)
def test_questions_that_cannot_be_answered_are_not_asked(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
