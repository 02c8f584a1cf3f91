"""Foreign networks as denoisers: against the arithmetic of their own schedulers."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import recombine
from recombine.models.gaussian import Constant, GaussianLaw
from recombine.pipelines import wrap
from recombine.sample.heun import Sampler

STEPS = 1000
BETA = torch.linspace(1e-4**0.5, 0.02**0.5, STEPS, dtype=torch.float64) ** 2
ALPHAS = (1 - BETA).cumprod(0)
KINDS = {"epsilon": "epsilon", "v": "v_prediction", "sample": "sample"}


class Scheduler:
    """The arithmetic of diffusers' DDPM and DDIM schedulers, from their papers."""

    def __init__(self, kind: str) -> None:
        self.alphas_cumprod = ALPHAS
        self.config = SimpleNamespace(prediction_type=kind, num_train_timesteps=STEPS)

    def clean(self, answer: Tensor, t: int, x: Tensor) -> Tensor:
        a = self.alphas_cumprod[t]
        if self.config.prediction_type == "epsilon":
            return (x - (1 - a) ** 0.5 * answer) / a**0.5
        if self.config.prediction_type == "v_prediction":
            return a**0.5 * x - (1 - a) ** 0.5 * answer
        return answer

    def step(self, answer: Tensor, t: int, x: Tensor, before: int) -> Tensor:
        """Song et al. 2021, equation 12, without noise."""
        a, b = self.alphas_cumprod[t], self.alphas_cumprod[before]
        clean = self.clean(answer, t, x)
        noise = (x - a**0.5 * clean) / (1 - a) ** 0.5
        return b**0.5 * clean + (1 - b) ** 0.5 * noise


class Network(nn.Module):
    """Some function of image, clock and condition, which remembers what it saw."""

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        self.saw = x, t, condition
        more = 0 if condition is None else condition.reshape(-1, 1, 1, 1)
        return torch.sin(3 * x) + t.reshape(-1, 1, 1, 1) / STEPS + more


def noisy(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 2, 4, 4, generator=generator, dtype=torch.float64)


def sigma_of(t: int) -> Tensor:
    return ((1 - ALPHAS[t]) / ALPHAS[t]).sqrt().expand(3)


@pytest.mark.parametrize("t", [0, 1, 250, 998, 999])
@pytest.mark.parametrize("kind", KINDS)
def test_the_denoised_image_and_the_next_step_are_those_of_the_scheduler(kind: str, t: int):
    scheduler, x, network = Scheduler(KINDS[kind]), noisy(), Network()
    denoiser = wrap(network, kind, ALPHAS)
    ours = denoiser(x / ALPHAS[t] ** 0.5, sigma_of(t), torch.zeros(3, 1))
    answer = network(x, torch.full((3,), float(t), dtype=torch.float64))
    torch.testing.assert_close(ours, scheduler.clean(answer, t, x))
    before = max(t - 40, 0)
    s, r = sigma_of(t)[0], sigma_of(before)[0]
    here = x / ALPHAS[t] ** 0.5
    stepped = (here + (r - s) * (here - ours) / s) * ALPHAS[before] ** 0.5
    torch.testing.assert_close(stepped, scheduler.step(answer, t, x, before))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scheduler_says_what_is_predicted(kind: str):
    by_object = wrap(Network(), schedule=Scheduler(KINDS[kind]))
    assert by_object.predicts == kind
    x, sigma, condition = noisy(), sigma_of(40), torch.zeros(3, 1)
    assert torch.equal(
        by_object(x, sigma, condition), wrap(Network(), kind, ALPHAS)(x, sigma, condition)
    )


@pytest.mark.parametrize("s", [0.02, 0.5, 0.97])
def test_flow_matching_steps_as_eulers_scheduler_does(s: float):
    network, x, less = Network(), noisy(), 0.6 * s
    denoiser = wrap(network, "flow")
    sigma = torch.full((3,), s / (1 - s), dtype=torch.float64)
    ours = denoiser(x / (1 - s), sigma, torch.zeros(3, 1))
    flow = network(x, torch.full((3,), 1000 * s, dtype=torch.float64))
    torch.testing.assert_close(network.saw[1], torch.full((3,), 1000 * s, dtype=torch.float64))
    torch.testing.assert_close(ours, x - s * flow)
    # x_r = (1 - r) image + r noise of the image and noise that lie behind x_s.
    noise = (x / (1 - s) - ours) / sigma.reshape(-1, 1, 1, 1)
    torch.testing.assert_close((1 - less) * ours + less * noise, x + (less - s) * flow)


def test_the_clock_is_the_step_and_moves_evenly_in_log_sigma_between_steps():
    network = Network()
    denoiser = wrap(network, "epsilon", ALPHAS)
    between = (sigma_of(7).log() + 0.25 * (sigma_of(8).log() - sigma_of(7).log())).exp()
    for sigma, t in ((sigma_of(0), 0), (sigma_of(501), 501), (between, 7.25), (sigma_of(999), 999)):
        denoiser(noisy(), sigma, torch.zeros(3, 1))
        torch.testing.assert_close(network.saw[1], torch.full((3,), float(t)).double())
    for factor, t in ((1e-3, 0.0), (1e3, 999.0)):
        denoiser(noisy(), sigma_of(0 if t == 0 else 999) * factor, torch.zeros(3, 1))
        assert network.saw[1].tolist() == pytest.approx([t] * 3)
    rounded = wrap(network, "epsilon", ALPHAS, whole_steps=True)
    rounded(noisy(), between, torch.zeros(3, 1))
    assert network.saw[1].dtype == torch.long
    assert network.saw[1].tolist() == [7, 7, 7]


def test_a_network_of_pure_noise_at_its_last_step_is_used_up_to_the_step_before():
    alphas = torch.cat([ALPHAS[:500], torch.zeros(1).double()])
    assert wrap(Network(), "v", alphas).ends[1] == pytest.approx(sigma_of(499)[0].item())


def test_the_condition_is_left_out_or_given_third_or_by_name():
    x, sigma, condition = noisy(), sigma_of(3), torch.tensor([1.0, 2.0, 3.0]).double()
    for how, expected in ((False, None), (True, condition), ("condition", condition)):
        network = Network()
        wrap(network, "epsilon", ALPHAS, condition=how)(x, sigma, condition)
        assert network.saw[2] is expected


def test_answers_of_pipelines_are_unpacked():
    x, sigma, condition = noisy(), sigma_of(3), torch.zeros(3, 1)
    plain = wrap(lambda x, t: 2 * x, "epsilon", ALPHAS)(x, sigma, condition)
    for pack in (lambda each: (each,), lambda each: SimpleNamespace(sample=each)):
        packed = wrap(lambda x, t, pack=pack: pack(2 * x), "epsilon", ALPHAS)
        assert torch.equal(packed(x, sigma, condition), plain)
    with pytest.raises(ValueError, match=r"has it as .sample; got dict"):
        wrap(lambda x, t: {}, "epsilon", ALPHAS)(x, sigma, condition)


def predicted(kind: str, law: GaussianLaw) -> Any:
    """Return the best network of a kind for a normal law."""

    def network(x: Tensor, t: Tensor) -> Tensor:
        if kind == "flow":
            s = t[0] / 1000
            clean = law(x / (1 - s), (s / (1 - s)).expand(len(x)), x)
            return (x / (1 - s) - clean) / (s / (1 - s)) - clean
        a = ALPHAS[t.long()][0]
        sigma = ((1 - a) / a).sqrt()
        clean = law(x / a.sqrt(), sigma.expand(len(x)), x)
        noise = (x / a.sqrt() - clean) / sigma
        v = a.sqrt() * noise - (1 - a).sqrt() * clean
        return {"epsilon": noise, "sample": clean, "v": v}[kind]

    return network


@pytest.mark.parametrize("kind", [*KINDS, "flow"])
def test_the_best_network_of_every_kind_is_the_exact_denoiser_and_samples_the_law(kind: str):
    covariance = torch.tensor([[1.0, 0.6], [0.6, 1.0]], dtype=torch.float64)
    law = GaussianLaw(Constant(torch.zeros(2).double()), covariance)
    denoiser = wrap(
        predicted(kind, law), kind, None if kind == "flow" else ALPHAS, whole_steps=kind != "flow"
    )
    x = noisy().reshape(-1, 2)[:3]
    torch.testing.assert_close(denoiser(x, sigma_of(77), x), law(x, sigma_of(77), x))
    low, high = (0.02, 50.0) if kind == "flow" else denoiser.ends
    sampler = Sampler(steps=24, lowest=low, highest=high)
    samples = sampler.generator(denoiser, (2,), batch=4000)(
        torch.zeros(4000, 1, dtype=torch.float64), torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(torch.cov(samples.T), covariance, rtol=0, atol=0.08)


def test_a_wrapped_network_keeps_precision_and_gradients_and_has_a_locality():
    network = nn.Conv2d(2, 2, 3, padding=1)
    denoiser = recombine.wrap(lambda x, t: network(x.float()), "epsilon", ALPHAS)
    x = noisy().half()
    assert denoiser(x, sigma_of(5).half(), x).dtype == torch.float16
    sigma = torch.full((3,), 6.0)
    found = recombine.locality(denoiser, noisy().float(), sigma, torch.zeros(3, 1))
    assert found.measurements["pixel_radius_95@6"].value <= 1
    owner = wrap(network, "epsilon", ALPHAS)
    assert [*owner.state_dict()] == ["network.weight", "network.bias"]


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("noise", ALPHAS), "one of epsilon, v, sample, flow; got 'noise'"),
        ((None, ALPHAS), "say what the network predicts, one of epsilon"),
        (("v", None), "a network of v needs a schedule: its alphas_cumprod"),
        (("v", ALPHAS.flip(0)), "fall from below 1 to above 0; got 1000 numbers, 0.00"),
        (("v", 1 - BETA[:0]), "above 0; got none"),
        (("v", torch.ones(2, 2)), r"got the shape \(2, 2\)"),
        (("v", Scheduler("epsilon")), "Scheduler is for a network of epsilon; got 'v'"),
        ((None, Scheduler("other")), "one of epsilon, v_prediction, sample; got 'other'"),
        ((None, SimpleNamespace(config=1)), "flow matching; SimpleNamespace has neither"),
        (("flow", ALPHAS), "the number that its clock runs to .* got Tensor"),
        (("flow", 0), "runs to a number above 0; got 0"),
    ],
)
def test_a_schedule_that_cannot_be_is_one_line(words: tuple[Any, Any], message: str):
    with pytest.raises(ValueError, match=message):
        wrap(Network(), *words)
    with pytest.raises(ValueError, match=r"called as network\(x, t\); got int"):
        wrap(3, "epsilon", ALPHAS)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_diffusers_own_schedulers_agree(kind: str):
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    own = {"prediction_type": KINDS[kind], "clip_sample": False, "beta_schedule": "scaled_linear"}
    x = noisy()
    for name in ("DDPMScheduler", "DDIMScheduler"):
        scheduler = getattr(diffusers, name)(**own)
        scheduler.set_timesteps(25)
        for t in scheduler.timesteps.tolist()[::6]:
            network = Network()
            a = scheduler.alphas_cumprod[t].double()
            sigma = ((1 - a) / a).sqrt().expand(3)
            ours = wrap(network, schedule=scheduler)(x / a.sqrt(), sigma, torch.zeros(3, 1))
            answer = network(x, torch.full((3,), float(t)).double())
            theirs = scheduler.step(answer, t, x)
            torch.testing.assert_close(ours, theirs.pred_original_sample, rtol=1e-5, atol=1e-5)
            before = t - 40
            if name == "DDIMScheduler" and before >= 0:
                b = scheduler.alphas_cumprod[before].double()
                r, here = ((1 - b) / b).sqrt(), x / a.sqrt()
                stepped = (here + (r - sigma[0]) * (here - ours) / sigma[0]) * b.sqrt()
                torch.testing.assert_close(stepped, theirs.prev_sample, rtol=1e-5, atol=1e-5)


def test_diffusers_own_flow_and_network_agree():
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(8)
    network = diffusers.UNet2DModel(
        8, 2, 2, block_out_channels=(8, 8), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    x = torch.randn(3, 2, 8, 8)
    for at, t in enumerate(scheduler.timesteps[1:], start=1):
        s, r = scheduler.sigmas[at], scheduler.sigmas[at + 1]
        flow = network(x, t).sample
        scheduler._step_index = at
        theirs = scheduler.step(flow, t, x).prev_sample
        ours = wrap(network, schedule=scheduler)(
            x / (1 - s), (s / (1 - s)).expand(3), torch.zeros(3, 1)
        )
        noise = (x / (1 - s) - ours) / (s / (1 - s))
        torch.testing.assert_close((1 - r) * ours + r * noise, theirs, rtol=1e-4, atol=1e-4)
        assert math.isfinite(float(theirs.sum()))
