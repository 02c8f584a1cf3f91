"""A step replayed as a graph is the step, whatever is trained, and a stopped run goes on."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from recombine import run, studies
from recombine.checkpoint import Checkpoint
from recombine.denoiser import Preconditioned
from recombine.graph import GraphedStep
from recombine.models.code_denoiser import CodeDenoiser
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import DiffusionHead, DistanceHead, Head, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.models.tokenizer import Autoencoder
from recombine.models.unet import UNet
from recombine.objectives.autoencoding import Autoencoding
from recombine.objectives.codes import CodeDiffusion
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import Jepa, JepaObjective
from recombine.objectives.masked import (
    MaskedCrossEntropy,
    MaskedDiffusion,
    MaskedMixture,
    MaskedSquaredError,
)
from recombine.run import Plan
from recombine.run.state import checkpoints, packed, unpack
from recombine.studies.tokenizers import KL, VQ
from recombine.train import Step, Weights, train
from recombine.views import Codes, Latents, View

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

DIT = DiT(3, 28, patch=4, entry=Vector(4), width=96, layers=3, heads=3)
JEPA = Jepa(layers=(0, 2))(MaskedCrossEntropy())
BOOK = Codes("tokenizer_vq", VQ)
CODES = CodeDenoiser(
    DiT(8, 7, entry=Vector(9), width=64, layers=3, heads=4), Latents("tokenizer_vq", VQ)
)


@dataclass(frozen=True)
class Kind:
    """Something to be trained: its module, its objective, and the shape of what it sees."""

    build: Callable[[], nn.Module]
    objective: Callable[..., Tensor]
    shape: tuple[int, ...]
    condition: tuple[int, ...] = (3, 3)


def masked(head: Head) -> Masked:
    return Masked(features=2, head=head, width=64, layers=3)


KINDS = {
    "dit": Kind(lambda: Preconditioned(DIT.build()), Diffusion(), (3, 28, 28), (4,)),
    "vq": Kind(Autoencoder(width=16, codes=64).build, Autoencoding(), (3, 28, 28)),
    "kl": Kind(Autoencoder(width=16, codes=None).build, Autoencoding(), (3, 28, 28)),
    "maskgit": Kind(masked(LogitHead(64)).build, MaskedCrossEntropy(), (7, 7)),
    "distance": Kind(lambda: masked(DistanceHead(BOOK)).build(), MaskedCrossEntropy(), (7, 7)),
    "squared_error": Kind(
        lambda: masked(DistanceHead(BOOK, separate=True)).build(),
        MaskedSquaredError(book=BOOK),
        (7, 7),
    ),
    "givt": Kind(masked(MixtureHead()).build, MaskedMixture(), (8, 7, 7)),
    "mar": Kind(masked(DiffusionHead()).build, MaskedDiffusion(), (8, 7, 7)),
    "code_denoiser": Kind(lambda: CODES.build(), CodeDiffusion(), (8, 7, 7), (9,)),
    "jepa": Kind(lambda: JEPA.wrap(masked(LogitHead(64)).build()), JEPA, (7, 7)),
}


def batches(kind: Kind) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator("cuda").manual_seed(1)
    draw = {"generator": generator, "device": "cuda"}
    while True:
        codes = len(kind.shape) == 2
        seen = torch.randint(64, (32, *kind.shape), **draw) if codes else None
        image = torch.randn(32, *kind.shape, **draw) / 2
        condition = torch.rand(32, *kind.condition, **draw)
        yield image if seen is None else seen, condition


def losses(
    kind: Kind, graphed: bool, steps: int = 30, view: View | None = None
) -> tuple[list[float], Tensor]:
    torch.manual_seed(0)
    weights = Weights.of(kind.build().cuda(), ema=0.9)
    noise = torch.Generator("cuda").manual_seed(2)
    learns = isinstance(kind.objective, JepaObjective)
    average = weights.average.module if learns else None
    step = Step(weights, kind.objective, 1.0, noise, average=average, view=view)
    taken = train(
        GraphedStep(step) if graphed else step,
        batches(kind),
        lambda at: 1e-3 / at,
        range(1, steps + 1),
    )
    found = [each.loss.item() for each in taken]
    last = torch.cat([p.flatten() for p in weights.average.parameters()])
    return found, last


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_replays_the_very_step(kind: str):
    """Same noise, same rates, same losses, same averaged weights."""
    plain, graphed = (losses(KINDS[kind], graphed=each) for each in (False, True))
    assert graphed[0] == pytest.approx(plain[0], rel=1e-4)
    torch.testing.assert_close(graphed[1], plain[1], atol=1e-4, rtol=1e-3)
    assert len(set(graphed[0])) == len(graphed[0])


def test_a_graph_holds_the_tokenizer():
    """What a graph makes of new pictures is what the tokenizer makes of them, step for step."""
    seen = {"givt": Latents("tokenizer_kl", KL), "maskgit": Codes("tokenizer_vq", VQ)}
    for name, view in seen.items():
        head = LogitHead(VQ.codes or 0) if name == "maskgit" else MixtureHead()
        kind = replace(KINDS[name], build=masked(head).build, shape=(3, 28, 28))
        plain, graphed = (losses(kind, graphed=each, view=view) for each in (False, True))
        assert graphed[0] == pytest.approx(plain[0], rel=1e-4)
        torch.testing.assert_close(graphed[1], plain[1], atol=1e-4, rtol=1e-3)


def test_a_stopped_run_goes_on():
    """Convolutions keep their channels last; so must what the optimizer has kept of them."""
    network = UNet(channels=3, size=16, entry=Vector(4), width=32, multipliers=(1,), attention=())

    def started() -> tuple[Weights, GraphedStep, torch.Generator]:
        torch.manual_seed(0)
        denoiser = Preconditioned(network.build()).cuda()
        weights = Weights.of(denoiser.to(memory_format=torch.channels_last), ema=0.9)
        noise = torch.Generator("cuda").manual_seed(2)
        return weights, GraphedStep(Step(weights, Diffusion(), 1.0, noise)), noise

    kind = Kind(network.build, Diffusion(), (3, 16, 16), (4,))
    images = [next(batches(kind)) for _ in range(8)]
    weights, step, noise = started()
    losses = [each.loss.item() for each in train(step, images, lambda at: 1e-3, range(1, 9))]
    weights, step, noise = started()
    for _ in train(step, images[:4], lambda at: 1e-3, range(1, 5)):
        pass
    tensors = {name: value.cpu() for name, value in packed(weights, {"noise": noise}).items()}
    weights, step, noise = started()
    unpack(tensors, weights, {"noise": noise})
    rest = [each.loss.item() for each in train(step, images[4:], lambda at: 1e-3, range(5, 9))]
    assert rest == pytest.approx(losses[4:], rel=1e-3)


def test_jepa_learns_the_same_from_a_compiled_average(tmp_path: Path):
    found = []
    for compiled in (False, True):
        plan = planned("maskgit-jepa", 20)
        out = tmp_path / str(compiled)
        ran([plan], out, compiled)
        lines = (plan.folder(out) / "metrics.jsonl").read_text().splitlines()
        found.append([each["loss"] for each in map(json.loads, lines) if "loss" in each])
    assert len(found[0]) == 20
    assert found[1] == pytest.approx(found[0], rel=0.02)


def planned(key: str, steps: int) -> Plan:
    """Return the plan of a model of the study of coverage, of which nothing is measured."""
    plan = run.planned("coverage", studies.load("coverage"), key, overrides={"steps": steps})
    return replace(plan, declared=replace(plan.trained, measures=(), milestones=()))


def ran(plans: list[Plan], out: Path, compiled: bool = True) -> None:
    settings = [run.Settings(out, compiled=compiled)] * len(plans)
    run.together(plans, run.machine(torch.device("cuda")), settings)


def averages(out: Path, plan: Plan) -> dict[str, Tensor]:
    (newest, *_) = checkpoints(plan.folder(out))
    tensors = Checkpoint.load(newest).tensors
    return {name: value for name, value in tensors.items() if name.startswith("average")}


def test_runs_at_once_are_the_runs_alone(tmp_path: Path):
    """Each on a stream of its own, its step a graph of its own; the first is done before others.

    At the size of the study: there matrix products use scratch memory, which none may share.
    """
    plans = [planned(*each) for each in (("dit", 60), ("maskgit", 200), ("mar", 200))]
    for plan in plans:
        ran([plan], tmp_path / "alone")
    ran(plans, tmp_path / "together")
    for plan in plans:
        alone, beside = (averages(tmp_path / name, plan) for name in ("alone", "together"))
        assert len(alone) > 20
        for name, value in alone.items():
            torch.testing.assert_close(beside[name], value, atol=2e-3, rtol=2e-2)
