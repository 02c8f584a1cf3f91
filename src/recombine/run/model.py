"""A trained model: weights, the training they come from, and how it is sampled and measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine import studies, zoo
from recombine.checkpoint import Checkpoint, unpack_average
from recombine.condition import EncodesPlaces
from recombine.denoiser import Denoiser
from recombine.draw import bits
from recombine.measure import MEASURES
from recombine.measure.fit import fit_of
from recombine.measure.subject import Findings, Measure, joined
from recombine.measurement import Measurement
from recombine.report.files import naming
from recombine.report.words import nearest
from recombine.run.devices import channels_last, machine
from recombine.run.kept import kept
from recombine.run.plan import Plan, planned
from recombine.run.state import checkpoints
from recombine.run.wanted import at_places, of_factors
from recombine.sample.heun import Progress, Sampler, unwatched
from recombine.study import Cell
from recombine.training import Training


@dataclass(frozen=True)
class Model:
    """A trained model, ready to be sampled and measured.

    On a GPU the denoiser works in bf16; `plain` is the same one in the precision of its weights.
    `record` holds what was measured after training, by name.
    """

    cell: Cell
    denoiser: Denoiser
    device: torch.device
    seed: int = 0
    watch: Progress = unwatched
    plain: Denoiser | None = None
    record: Mapping[str, Measurement] = field(default_factory=dict)

    @property
    def training(self) -> Training:
        """What the weights were learned from."""
        return self.cell.training

    @property
    def precise(self) -> Denoiser:
        """The denoiser in the precision of its weights, for gradients and small differences."""
        return self.denoiser if self.plain is None else self.plain

    def reader(self, name: str) -> Any:
        """Return a reader of images: the shipped detector or probe, or the fit of this world."""
        if name == "fit":
            return fit_of(self.training.world)
        return zoo.reader(name, self.device)

    def images(
        self, condition: Shaped[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Float[Tensor, " batch *image"]:
        """Draw one image per row of the condition."""
        return self.training.view.back(self.drawn(condition, generator))

    def drawn(
        self, condition: Shaped[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Shaped[Tensor, " batch *seen"]:
        """Draw what the model sees of one image per row of the condition."""
        # Readers and tokenizers say so themselves.
        if not getattr(self.training.objective, "generates", True):
            kind = type(self.training.objective).__name__
            raise ValueError(f"samples need a generative model; this one was trained by {kind}")
        # A small batch stays in the cache of a CPU and moves the bar; a GPU wants a large one.
        batch = 16 if self.device.type == "cpu" else 256
        shape = self.training.shape
        draw = self.cell.sampler.generator(self.denoiser, shape, batch, self.watch)
        return draw(condition.to(self.device), generator)

    def sample(
        self,
        at: Sequence[tuple[float, float]] | None = None,
        count: int = 1,
        seed: int = 0,
        **concepts: str,
    ) -> Float[Tensor, "count 3 height width"]:
        """Draw images with objects at these places, or of these concepts: shape="triangle".

        A place is x right and y down, from 0 to 1.
        """
        if at is not None and concepts:
            raise ValueError(f"sample takes places or concepts, not both; got {at} and {concepts}")
        by_places = at is not None or (
            not concepts and isinstance(self.training.conditioner.encode, EncodesPlaces)
        )
        wanted = (
            at_places(self.training, at or ()) if by_places else of_factors(self.training, concepts)
        )
        condition = wanted.expand(count, *wanted.shape[1:])
        return self.images(condition, torch.Generator().manual_seed(seed)).clamp(0, 1).cpu()

    def denoise(
        self,
        x: Float[Tensor, " batch *seen"],
        sigma: Float[Tensor, " batch"] | float,
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, " batch *seen"]:
        """Return the clean images behind x, as the model sees images (`training.view`)."""
        if not isinstance(self.cell.sampler, Sampler):
            kind = type(self.training.network).__name__
            raise ValueError(f"only a denoiser denoises; this model is a {kind}, of hidden tokens")
        levels = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).expand(len(x))
        return self.precise(x, levels, condition)

    def __repr__(self) -> str:
        training = self.training
        parts = (training.network, training.conditioner.encode, training.objective)
        network, encode, objective = (type(each).__name__ for each in parts)
        return (
            f"Model({network} of {training.world!r}, conditioned by {encode}, {objective}, "
            f"{training.budget.steps:,} steps, seed {self.seed}, {self.device})"
        )

    def measure(self, what: str, **settings: Any) -> Mapping[str, Measurement]:
        """Return every number of a measurement by name; settings are fields of it."""
        chosen = configured(self.cell, what, settings)
        return self.found((chosen,)).measurements

    def found(self, measures: Sequence[Measure]) -> Findings:
        """Return what all measurements find."""
        return joined(self.each(measures))

    def each(self, measures: Sequence[Measure]) -> list[Findings]:
        """Measure, with the same random numbers each time: only the weights make a difference."""
        with torch.no_grad():
            generator = stream(self.seed, MEASURING, self.device)
            return [measure(self, generator) for measure in measures]


TRAINING, CONDITIONING, MEASURING = range(3)


def stream(seed: int, purpose: int, device: torch.device) -> torch.Generator:
    """Return a generator of its own for each purpose."""
    key = bits(seed, torch.tensor([purpose]), torch.tensor(0))
    return torch.Generator(device).manual_seed(int(key) & (2**63 - 1))


def configured(cell: Cell, what: str, settings: Mapping[str, Any]) -> Measure:
    """Return the measurement of this name as the cell declares it, or as it is by default."""
    return chosen_measure(cell.measures, what, settings)


def chosen_measure(declared: Sequence[Measure], what: str, settings: Mapping[str, Any]) -> Measure:
    """Return the measurement of this name, with these settings."""
    own = {measure.name: measure for measure in declared}
    if what not in own and what not in MEASURES:
        known = ", ".join(dict.fromkeys([*own, *MEASURES]))
        raise ValueError(
            f"measurement {what!r} is not one of {known}{nearest(what, [*own, *MEASURES])}"
        )
    chosen: Any = own.get(what) or MEASURES[what]
    names = [each.name for each in fields(chosen)]
    for name, value in settings.items():
        if name not in names:
            raise ValueError(
                f"{what} has no {name} to set (it has {', '.join(names)}); got {value}"
            )
    return replace(chosen, **settings)


def loaded(plan: Plan, path: Path, accelerator: Accelerator, watch: Progress = unwatched) -> Model:
    """Return the model that the averaged weights of a checkpoint make."""
    checkpoint = Checkpoint.load(path)
    plan.check(checkpoint.facts, path)
    cell = plan.trained
    denoiser = cell.training.untrained(plan.seed, accelerator.device)
    with naming(path):
        unpack_average(checkpoint.tensors, denoiser)
    channels_last(denoiser)
    plain = denoiser.forward
    denoiser = accelerator.prepare_model(denoiser.eval(), evaluation_mode=True)
    record = recorded(plan, path, checkpoint.facts)
    return Model(cell, denoiser, accelerator.device, plan.seed, watch, plain, record)


def recorded(plan: Plan, path: Path, facts: Mapping[str, Any]) -> Mapping[str, Measurement]:
    """Return what was measured of the weights of a checkpoint, if that is known."""
    if "measured" in facts:
        return {name: Measurement(*each) for name, each in facts["measured"].items()}
    done = kept(plan, path.parent)
    return done.measurements if done and path in checkpoints(path.parent)[:1] else {}


def plan_of(path: Path) -> Plan:
    """Return the run that a checkpoint is from, as it is declared today."""
    facts = Checkpoint.load(path).facts
    try:
        ((study, key),) = studies.chosen(f"{facts['study']}:{facts['cell']}")
    except KeyError as error:
        raise ValueError(f"{path} does not say which cell of which study it is from") from error
    declared = studies.load(study)
    return planned(study, declared, key, facts["seed"], facts["tiny"], facts["overrides"])


def chosen_checkpoint(subject: str, seed: int = 0, out: Path = Path("runs")) -> Path:
    """Return the file that is meant by zoo:NAME, STUDY:CELL, the folder of a run, or a file."""
    if subject.startswith(zoo.PREFIX):
        return zoo.path(subject.removeprefix(zoo.PREFIX))
    place = Path(subject)
    if place.is_file():
        return place
    if not place.exists() and (len(place.parts) > 1 or place.suffix):
        raise ValueError(
            f"{place} is not there; expected zoo:NAME, STUDY:CELL, a run's folder or a file"
        )
    if not place.is_dir():
        study, key = studies.chosen(subject)[0]
        place = planned(study, studies.load(study), key, seed).folder(out)
    found = checkpoints(place) if place.is_dir() else []
    if not found:
        raise ValueError(f"{place} has no checkpoint; expected the folder of a run")
    return found[0]


def load(subject: str, device: torch.device | str = "cpu", seed: int = 0) -> Model:
    """Return a trained model: "zoo:grid_all", the folder of a run, or a checkpoint's file."""
    path = chosen_checkpoint(subject, seed)
    return loaded(plan_of(path), path, machine(torch.device(device)))
