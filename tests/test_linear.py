"""The linear sandbox against closed forms, scipy's integrator and autograd."""

import math

import pytest
import torch
from scipy.integrate import solve_ivp

from recombine.linear import analysis, deep, integrate, network, symmetric
from recombine.linear.sim import Sim, rotation

REFERENCE = Sim((1.0, 2.0), (0.05, 0.05), 2)
IDENTITY = torch.eye(2).double()


def reference_starts(seeds: int, dimensions: int, rng, size: float = 0.3) -> torch.Tensor:
    noise = torch.randn(seeds, dimensions, dimensions, generator=rng, dtype=torch.float64)
    return size * (1 + 0.3 * noise) / math.sqrt(dimensions)


def random_case(rng, dimensions: int = 4, seeds: int = 5):
    u = torch.randn(seeds, dimensions, dimensions, generator=rng, dtype=torch.float64)
    return u, torch.rand(seeds, dimensions, generator=rng, dtype=torch.float64) + 0.1


def one_layer(task: Sim, start: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """Theorem 4.1: the weights under dW/dt = -(W - goal) moment; a column more is the bias."""
    biased = start.shape[-1] == task.dimensions + 1
    rates, basis = torch.linalg.eigh(task.moment if biased else torch.diag(task.rates))
    kept = torch.exp(-times[:, None] * rates)
    goal = torch.nn.functional.pad(torch.eye(task.dimensions).double(), (0, int(biased)))
    return goal + (start.double() - goal) @ ((basis * kept[:, None, :]) @ basis.mT)


def test_the_moment_of_the_task_is_that_of_its_points(rng):
    task = Sim((1.0, 2.0), (0.5, 0.2), 3, origin=True)
    points = task.points(200_000, rng)
    augmented = torch.nn.functional.pad(points, (0, 1), value=1.0)
    torch.testing.assert_close(
        augmented.mT @ augmented / len(augmented), task.moment, atol=0.01, rtol=0
    )
    assert task.moment[0, 0] == pytest.approx(1 / 3 + 0.25)
    assert task.moment[1, 3] == pytest.approx(2 / 3)
    torch.testing.assert_close(task.moment.diagonal()[:3], task.rates)
    assert task.rates[2] == 0


def test_the_conventions_of_the_authors_are_named_options():
    plain = Sim((2.0,), (0.05,), 1)
    assert plain.rates.item() == pytest.approx(4 + 0.0025)
    authors = Sim((2.0,), (0.05,), 1, origin=True, sigma_as_variance=True)
    assert authors.rates.item() == pytest.approx(2 + 0.05)


def test_points_can_be_kept_away_from_the_test_point(rng):
    task = Sim((1.0, 2.0), (0.5, 0.5), 2, origin=True)
    points = task.points(2000, rng, apart=0.5)
    assert (points - task.target).norm(dim=1).min() >= 0.5
    assert len(points) == 6000
    with pytest.raises(ValueError, match=r"no cluster has points 99\.0 away"):
        Sim((1.0,), (0.0,), 1).points(2, rng, apart=99.0)


def test_the_corners_of_the_hypercube_are_in_binary_order():
    corners = Sim((1.0, 2.0), (0.1, 0.1), 3).corners.tolist()
    assert corners == [[0, 0, 0], [0, 2, 0], [1, 0, 0], [1, 2, 0]]


def test_a_rotation_is_orthogonal(rng):
    turned = rotation(5, rng)
    torch.testing.assert_close(turned @ turned.mT, torch.eye(5).double())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), 2), "a task needs a concept"),
        (((1.0, 2.0), (0.1, 0.1), 1), "2 concepts need as many dimensions or more; got 1"),
        (((1.0, 2.0), (0.1, -0.1), 2), "deviations are finite and not negative; got"),
        (((1.0, 2.0), (0.1,), 3), r"one per concept \(2\) or per dimension \(3\); got 1"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused(arguments, message: str):
    with pytest.raises(ValueError, match=message):
        Sim(*arguments)


@pytest.mark.parametrize("bias", [False, True])
def test_one_layer_is_its_closed_form(bias: bool, rng):
    task = Sim((1.0, 2.0), (0.3, 0.1), 2, origin=bias)
    start = torch.randn(2, 2 + bias, generator=rng, dtype=torch.float64)
    moment = task.moment if bias else torch.diag(task.rates)
    goal = torch.nn.functional.pad(IDENTITY, (0, int(bias)))

    def slope(time, flat):
        weights = torch.tensor(flat).view(start.shape)
        return -((weights - goal) @ moment).flatten().numpy()

    times = torch.tensor([0.5, 2.0, 10.0]).double()
    solved = solve_ivp(
        slope, (0, 10), start.flatten().numpy(), "DOP853", times.numpy(), rtol=1e-12, atol=1e-13
    )
    expected = torch.tensor(solved.y.T).view(3, *start.shape)
    found = one_layer(task, start, times)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


def test_one_layer_answers_as_theorem_4_1_says(rng):
    start = torch.randn(2, 2, generator=rng, dtype=torch.float64)
    times = torch.tensor([0.0, 0.7, 3.0]).double()
    found = one_layer(REFERENCE, start, times) @ REFERENCE.target
    kept = torch.exp(-REFERENCE.rates * times[:, None])
    growth = (1 - kept) * REFERENCE.target
    noise = (kept * REFERENCE.target) @ start.mT
    torch.testing.assert_close(found, growth + noise)


def test_a_bias_and_the_origin_slow_the_weak_concept_as_measured():
    """Section 5.1 of the sheet, item 11 of its acceptance list: epochs until 80 %."""
    task = Sim((1.0, 2.0), (0.05, 0.05), 2, origin=True, sigma_as_variance=True)
    assert torch.linalg.eigvalsh(task.moment)[0] == pytest.approx(0.154, abs=5e-4)
    times = torch.linspace(0, 40 * 0.36875, 4001).double()
    grown = one_layer(task, torch.zeros(2, 3), times)
    output = grown[..., :2] @ task.target + grown[..., 2]
    found = analysis.learned_at(output, task.target, times, 0.8) / 0.36875
    assert found.tolist() == pytest.approx([20.9, 3.1], rel=0.02)
    assert found.tolist() == pytest.approx([20.0, 3.6], rel=0.2)
    assert math.log(5) / task.rates[0].item() / 0.36875 == pytest.approx(11.4, rel=0.01)


def test_the_flow_of_u_is_half_the_gradient(rng):
    u, rates = random_case(rng)
    u.requires_grad_()
    analysis.training_loss(symmetric.jacobian(u), rates).sum().backward()
    found = symmetric.velocity(u.detach(), rates)
    torch.testing.assert_close(found, -u.grad / 2, atol=1e-10, rtol=0)


def test_the_flow_of_w_is_that_of_its_u(rng):
    u, rates = random_case(rng)
    slope = symmetric.velocity(u, rates)
    moved = slope @ u.mT + u @ slope.mT
    found = symmetric.jacobian_velocity(symmetric.jacobian(u), rates)
    torch.testing.assert_close(found, moved, atol=1e-10, rtol=0)


def test_adaptive_steps_agree_with_scipy(rng):
    start = reference_starts(3, 2, rng)
    times = torch.tensor([0.0, 0.9, 3.1, 3.15, 20.0]).double()
    found = symmetric.trajectories(start, REFERENCE.rates, times, 1e-10)
    for seed in range(3):

        def slope(time, flat):
            u = torch.tensor(flat).view(2, 2)
            return symmetric.velocity(u, REFERENCE.rates).flatten().numpy()

        first = start[seed].flatten().numpy()
        solved = solve_ivp(slope, (0, 20), first, "DOP853", times.numpy(), rtol=1e-11, atol=1e-13)
        expected = torch.tensor(solved.y.T).view(-1, 2, 2)
        torch.testing.assert_close(found[:, seed], expected, atol=2e-9, rtol=0)


def test_a_smaller_tolerance_is_a_smaller_error():
    grown = math.e - 1
    errors = []
    for tolerance in (1e-4, 1e-7, 1e-10):
        slope = lambda y: y + 1  # noqa: E731
        end = integrate.adaptive(slope, torch.zeros(1).double(), torch.ones(1).double(), tolerance)
        errors.append(abs(end.item() - grown))
    assert errors[0] > 30 * errors[1] > 900 * errors[2]
    assert errors[2] < 1e-9


def test_a_trajectory_that_blows_up_is_said_to():
    with pytest.raises(ValueError, match=r"blow up"):
        integrate.adaptive(torch.square, torch.ones(1).double(), torch.tensor([2.0]).double())


def test_the_start_alone_can_be_looked_at():
    start = torch.ones(2).double()
    assert torch.equal(integrate.adaptive(torch.neg, start, torch.zeros(1).double())[0], start)


@pytest.mark.parametrize("times", [[1.0, 1.0], [-1.0, 1.0]])
def test_times_must_rise(times: list[float]):
    with pytest.raises(ValueError, match="times rise from 0 or more"):
        integrate.adaptive(torch.neg, torch.ones(1).double(), torch.tensor(times).double())


def test_half_the_step_is_half_the_error_of_euler(rng):
    start = reference_starts(1, 2, rng)
    exact = symmetric.trajectories(start, REFERENCE.rates, torch.ones(1).double(), 1e-11)[0]
    errors = [
        (symmetric.stepped(start, REFERENCE.rates, 1 / n, n)[-1] - exact).abs().max().item()
        for n in (100, 200)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_rates_may_differ_between_trajectories(rng):
    u, rates = random_case(rng, 2, 3)
    times = torch.tensor([1.0]).double()
    together = symmetric.trajectories(u, rates, times, 1e-10)
    for seed in range(3):
        alone = symmetric.trajectories(u[seed], rates[seed], times, 1e-10)
        torch.testing.assert_close(together[:, seed], alone, atol=1e-8, rtol=0)


def test_the_largest_stable_step_is_named_and_sharp():
    start, rates = torch.tensor([[0.9]]).double(), torch.tensor([2.0]).double()
    assert symmetric.largest_step(start, rates) == pytest.approx(0.5)
    settled = symmetric.stepped(start, rates, 0.49, 400)[-1]
    assert settled.item() == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match=r"a step of 0.51 is not stable; .* stable one is 0.5"):
        symmetric.stepped(start, rates, 0.51, 1)
    unstable = integrate.fixed(lambda u: u + 0.51 * symmetric.velocity(u, rates), start, 400)[-2:]
    assert (unstable - 1).abs().min() > 0.05
    assert symmetric.largest_step(torch.tensor([[3.0]]).double(), rates) == pytest.approx(1 / 8)


def test_every_second_step_is_seen(rng):
    start = reference_starts(1, 2, rng)
    each = symmetric.stepped(start, REFERENCE.rates, 0.01, 4)
    second = symmetric.stepped(start, REFERENCE.rates, 0.01, 4, every=2)
    torch.testing.assert_close(second, each[::2])
    with pytest.raises(ValueError, match="1 at a time or more; got 0 and 1"):
        integrate.fixed(torch.neg, start, 0)


def test_a_matrix_without_a_root_is_lost():
    held = torch.stack([IDENTITY, IDENTITY * torch.tensor([1, -1e-6]), IDENTITY * torch.inf])
    assert symmetric.lost(held).tolist() == [False, True, True]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_deep_layers_fall_down_the_gradient_and_stay_balanced(depth: int, rng):
    u, rates = random_case(rng, 3, 2)
    start = symmetric.jacobian(0.3 * u)
    layers = deep.balanced(start, depth)
    torch.testing.assert_close(deep.product(layers), start)
    uneven = layers + 0.1 * torch.randn(layers.shape, generator=rng, dtype=torch.float64)
    uneven.requires_grad_()
    analysis.training_loss(deep.product(uneven), rates).sum().backward()
    torch.testing.assert_close(
        deep.velocity(uneven.detach(), rates), -uneven.grad, atol=1e-10, rtol=0
    )
    later = deep.trajectories(layers, rates, torch.tensor([1.0]).double())[0]
    for number in range(depth - 1):
        one, other = later[:, number], later[:, number + 1]
        torch.testing.assert_close(one @ one.mT, other.mT @ other, atol=1e-6, rtol=0)


def test_a_deep_network_of_one_layer_is_the_closed_form(rng):
    start = torch.randn(1, 2, 2, generator=rng, dtype=torch.float64)
    times = torch.tensor([0.5, 4.0]).double()
    found = deep.product(deep.trajectories(start[:, None], REFERENCE.rates, times, 1e-10))
    expected = one_layer(REFERENCE, start[0], times)[:, None]
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_sgd_follows_autograd(layers: int, relu: bool, rng):
    of = network.Perceptron(3, layers, hidden=5, relu=relu)
    made = of.start(2, rng)
    x = torch.randn(2, 7, 3, generator=rng)
    parameters = [each.requires_grad_() for layer in made for each in layer]
    ((of(made, x) - x) ** 2).mean(dim=(1, 2)).sum().backward()
    slopes = [each for layer in of.gradients(made, x) for each in layer]
    for parameter, slope in zip(parameters, slopes, strict=True):
        torch.testing.assert_close(slope, parameter.grad)


def test_a_seed_is_a_network_of_its_own(rng):
    of = network.Perceptron(2, 2, hidden=3, relu=True)
    (one, two) = of.start(2, rng)
    x = torch.randn(2, 4, 2, generator=rng)
    answer = of([one, two], x)
    for seed in range(2):
        hidden = (x[seed] @ one.weight[seed].T + one.bias[seed]).relu()
        torch.testing.assert_close(answer[seed], hidden @ two.weight[seed].T + two.bias[seed])
    assert one.weight.abs().max() <= 2**-0.5
    assert two.bias.abs().max() <= 3**-0.5


def test_the_order_of_batches_is_the_same_in_every_epoch(rng):
    points = torch.arange(10.0).reshape(1, 10, 1)
    ordered = network.batches(points, 4, rng)
    assert [batch.shape[1] for batch in ordered] == [4, 4, 2]
    assert sorted(torch.cat(ordered, dim=1).flatten().tolist()) == list(range(10))
    of = network.Perceptron(1, bias=False)
    layers = of.start(1, rng)
    by_hand = layers[0].weight.item()
    for step in network.descend(of, layers, ordered, 0.001, 2):
        x = ordered[(step - 1) % 3].flatten()
        by_hand -= 0.001 * (2 * (by_hand - 1) * x.square().mean()).item()
    assert step == 6
    assert layers[0].weight.item() == pytest.approx(by_hand, rel=1e-5)
    assert layers[0].bias.item() == 0


def test_the_time_of_one_step_is_that_of_the_flow(rng):
    """One step of SGD is 2 rate / dimensions of the flow dW/dt = -(W - I)A (sheet, 2.2)."""
    task = Sim((1.0, 2.0), (0.3, 0.3), 4)
    points = task.points(4000, rng)[None].float()
    of = network.Perceptron(4, bias=False)
    layers = of.start(1, rng)
    start = layers[0].weight.double().clone()
    for _ in network.descend(of, layers, network.batches(points, 8000, rng), 0.02, 300):
        pass
    flowed = one_layer(task, start[0], torch.tensor([300 * 2 * 0.02 / 4]).double())
    torch.testing.assert_close(layers[0].weight.double(), flowed, atol=0.02, rtol=0)


def test_the_largest_learning_rate_is_where_one_layer_stops_settling(rng):
    points = torch.ones(1, 1, 1)
    of = network.Perceptron(1, bias=False)
    most = network.largest_rate(of, torch.ones(1, 1).double())
    for rate, settles in ((0.95 * most, True), (1.05 * most, False)):
        layers = of.start(1, rng)
        for _ in network.descend(of, layers, [points], rate, 200):
            pass
        assert (abs(layers[0].weight.item() - 1) < 1e-3) == settles


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_network_without_a_part_is_refused(sizes: tuple[int, int, int]):
    with pytest.raises(ValueError, match="a network has a layer, a hidden unit and a dimension"):
        network.Perceptron(*sizes)
