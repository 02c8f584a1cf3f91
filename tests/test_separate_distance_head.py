"""Vectors that learn by squared error, and their width by likelihood: which loss trains what."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from recombine.models.heads import DistanceHead, Head, LogitHead
from recombine.models.masked import Masked, MaskedModule
from recombine.objectives.masked import Corruption, MaskedCrossEntropy, MaskedSquaredError

SIDE = 3


@dataclass(frozen=True)
class Line:
    """Codes on a line, the last far away."""

    def vectors(self) -> Tensor:
        return torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [6.0, 0.0]])


SQUARES = MaskedSquaredError(book=Line())


def network(head: Head) -> MaskedModule:
    """A small network with nothing at zero."""
    torch.manual_seed(0)
    made = Masked(
        side=SIDE, factors=2, features=1, head=head, width=16, layers=2, heads=2, adaln=True
    ).build()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, what is hidden of them, and what is told."""
    ids = torch.randint(4, (5, SIDE, SIDE), generator=generator)
    hidden = torch.rand(ids.shape, generator=generator) < 0.6
    return ids, hidden, torch.rand(5, 2, 2, generator=generator) + 0.5


def gradients(made: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """What a loss would change, by name; what it does not reach is left out."""
    made.zero_grad()
    loss.backward(retain_graph=True)
    found = {name: each.grad for name, each in made.named_parameters() if each.grad is not None}
    return {name: grad.clone() for name, grad in found.items() if grad.abs().sum() > 0}


def test_the_loss_is_the_squared_error_of_vectors_and_the_surprise_of_codes(rng: torch.Generator):
    """The twin, token by token; what is seen does not count."""
    made = network(DistanceHead(Line(), separate=True))
    ids, hidden, told = batch(rng)
    predicted = made(ids, hidden, told)
    assert predicted.vectors is not None
    assert isinstance(predicted.output, Tensor)
    total = 0.0
    for image, row, column in hidden.nonzero().tolist():
        true = ids[image, row, column]
        vector = predicted.vectors[image, row, column]
        total += (vector - Line().vectors()[true]).square().sum().item()
        total -= predicted.output[image, row, column].log_softmax(-1)[true].item()
    loss = SQUARES.loss(predicted, ids, Corruption(hidden)).item()
    assert loss == pytest.approx(total / hidden.sum().item(), rel=1e-5)


def test_codes_are_scored_by_the_predicted_vectors(rng: torch.Generator):
    """The nearer, the likelier: the vectors of a prediction are those of its logits."""
    ids, hidden, told = batch(rng)
    for head in (DistanceHead(Line()), DistanceHead(Line(), separate=True)):
        predicted = network(head)(ids, hidden, told)
        assert predicted.vectors is not None
        nearest = torch.cdist(predicted.vectors, Line().vectors()).argmin(-1)
        assert torch.equal(predicted.output.argmax(-1), nearest)
    assert network(LogitHead(4))(ids, hidden, told).vectors is None


def test_likelihood_trains_the_width_alone(rng: torch.Generator):
    ids, hidden, told = batch(rng)
    for head, taught in (
        (DistanceHead(Line(), separate=True), {"outlet.scale.weight", "outlet.scale.bias"}),
        (DistanceHead(Line()), None),
    ):
        made = network(head)
        predicted = made(ids, hidden, told)
        reached = gradients(made, MaskedCrossEntropy().loss(predicted, ids, Corruption(hidden)))
        expected = {name for name, _ in made.named_parameters()} if taught is None else taught
        assert set(reached) == expected


def test_all_but_the_width_learns_by_squared_error_alone(rng: torch.Generator):
    ids, hidden, told = batch(rng)
    made = network(DistanceHead(Line(), separate=True))
    predicted = made(ids, hidden, told)
    whole = gradients(made, SQUARES.loss(predicted, ids, Corruption(hidden)))
    assert predicted.vectors is not None
    error = (predicted.vectors - Line().vectors()[ids])[hidden].square().sum(-1).mean()
    squared = gradients(made, error)
    assert set(whole) - set(squared) == {"outlet.scale.weight", "outlet.scale.bias"}
    for name, value in squared.items():
        torch.testing.assert_close(whole[name], value, rtol=1e-4, atol=1e-6)


def test_the_two_losses_start_from_the_same_weights():
    """`separate` changes what the logits train, and no weight."""
    states = []
    for separate in (False, True):
        torch.manual_seed(1)
        head = DistanceHead(Line(), separate=separate)
        states.append(
            Masked(side=SIDE, head=head, width=16, layers=2, heads=2).build().state_dict()
        )
    first, second = states
    assert list(first) == list(second)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_single_logits_have_no_vectors(rng: torch.Generator):
    ids, hidden, told = batch(rng)
    with pytest.raises(ValueError, match=r"a head with vectors, such as DistanceHead\(book\)"):
        SQUARES.loss(network(LogitHead(4))(ids, hidden, told), ids, Corruption(hidden))
