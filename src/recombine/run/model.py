"""A trained model: weights, the training they come from, and how it is sampled and measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from huggingface_hub import ModelHubMixin, snapshot_download
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine import own, studies, zoo
from recombine.checkpoint import Checkpoint, unpack_average
from recombine.condition import EncodesPlaces
from recombine.denoiser import Denoiser
from recombine.draw import bits
from recombine.measure import MEASURES
from recombine.measure.subject import Findings, Measure, joined
from recombine.measurement import Measurement
from recombine.report.files import naming, new_folder
from recombine.report.words import nearest
from recombine.run import pretrained
from recombine.run.devices import channels_last, machine, shortened, warm
from recombine.run.plan import Plan, planned
from recombine.run.record import Record, recorded
from recombine.run.state import checkpoints
from recombine.run.wanted import at_places, of_factors
from recombine.sample.heun import Keep, Progress, Sampler, anew, quick, unwatched
from recombine.study import Cell, Study
from recombine.training import Training
from recombine.worlds.clevr import Clevr


@dataclass(frozen=True)
class Model(ModelHubMixin, library_name="recombine", license="apache-2.0"):
    """A trained model, ready to be sampled and measured, and to be kept as a folder.

    On a GPU the denoiser works in bf16; `plain` is the same one in the precision of its weights.
    """

    cell: Cell
    denoiser: Denoiser
    device: torch.device
    seed: int = 0
    watch: Progress = unwatched
    plain: Denoiser | None = None
    record: Record = Record()
    keep: Keep = anew

    @property
    def training(self) -> Training:
        """What the weights were learned from."""
        return self.cell.training

    @property
    def precise(self) -> Denoiser:
        """The denoiser in the precision of its weights, for gradients and small differences."""
        return self.denoiser if self.plain is None else self.plain

    @property
    def quick(self) -> "Model":
        """The same model with the sampler for a CPU: few steps, in bf16 where that is faster.

        Its answers are the declared sampler's for models of Clevr without guidance. With guidance
        they are not (docs/speed.md), and elsewhere they were not compared: these stay as they are.
        """
        sampler = self.cell.sampler
        if self.device.type != "cpu" or not isinstance(self.training.world, Clevr):
            return self
        if not isinstance(sampler, Sampler) or sampler.guidance is not None:
            return self
        cell = replace(self.cell, sampler=quick(sampler))
        return replace(self, cell=cell, denoiser=shortened(self.denoiser), plain=self.precise)

    def of_steps(self, steps: int) -> "Model":
        """Return the model sampled in so many steps."""
        return replace(
            self, cell=replace(self.cell, sampler=replace(self.cell.sampler, steps=steps))
        )

    def seconds(self, condition: Shaped[Tensor, " batch *condition"]) -> float:
        """Estimate how long one image per row takes to draw: one evaluation of a few is timed."""
        few, unwatching = condition[:4], replace(self.of_steps(1), watch=unwatched)
        generator = torch.Generator(self.device).manual_seed(0)
        once = warm(lambda: unwatching.drawn(few, generator).sum().item())
        return once / max(len(few), 1) * self.cell.sampler.evaluations * len(condition)

    def reader(self, name: str) -> Any:
        """Return a reader of images: the shipped detector or probe, or a fit of this world."""
        return zoo.reader(name, self.device, self.training.world)

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
        return replace(draw, keep=self.keep)(condition.to(self.device), generator)

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
        condition = self.at(at or (), count) if by_places else self.of(concepts, count)
        return self.images(condition, torch.Generator().manual_seed(seed)).clamp(0, 1).cpu()

    def at(self, at: Sequence[tuple[float, float]], count: int = 1) -> Tensor:
        """Return the condition of so many images with an object at each of these places."""
        wanted = at_places(self.training, at)
        return wanted.expand(count, *wanted.shape[1:])

    def of(self, concepts: Mapping[str, str], count: int = 1) -> Tensor:
        """Return the condition of so many images of an object with these concepts."""
        wanted = of_factors(self.training, concepts)
        return wanted.expand(count, *wanted.shape[1:])

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

    def save_pretrained(self, save_directory: str | Path, *words: Any, **named: Any) -> str | None:
        """Write config.json, model.safetensors and a card into a new folder, all or nothing.

        Further arguments are those of huggingface_hub, such as `push_to_hub` with `repo_id`.
        """
        # The mixin alone would remove a config.json that is there before it looks at anything.
        with new_folder(Path(save_directory)) as folder:
            named = {"repo_id": Path(save_directory).name, **named}
            return super().save_pretrained(folder, *words, **named)

    def _save_pretrained(self, save_directory: Path) -> None:
        if not isinstance(self.denoiser, nn.Module):
            kind = type(self.denoiser).__name__
            raise ValueError(f"a folder holds the weights of a network; this model is a {kind}")
        pretrained.write(save_directory, self.cell, self.record, self.denoiser)

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, device: torch.device | str = "cpu", **hub: Any
    ) -> "Model":
        """Load a folder, or what a hub keeps under a name; `hub` says which version of it."""
        if not Path(model_id).is_dir():
            model_id = snapshot_download(model_id, **hub)
        return load(model_id, device)


# The mixin would set it on each object, and these are frozen; our own config is written.
Model._hub_mixin_config = {"library_name": "recombine"}

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
    # Fewer samples can keep no more.
    samples, kept = settings.get("samples"), getattr(chosen, "kept", 0)
    fewer = {} if samples is None or "kept" in settings or kept <= samples else {"kept": samples}
    return replace(chosen, **settings, **fewer)


def loaded(
    plan: Plan,
    path: Path,
    accelerator: Accelerator,
    watch: Progress = unwatched,
    of: Study | None = None,
) -> Model:
    """Return the model that the averaged weights of a checkpoint make."""
    checkpoint = Checkpoint.load(path)
    plan.check(checkpoint.facts, path)
    cell, record = plan.trained, record_of(plan, checkpoint.facts, path, of)
    denoiser = cell.training.untrained(plan.seed, accelerator.device)
    with naming(path):
        unpack_average(checkpoint.tensors, denoiser)
    channels_last(denoiser)
    plain = denoiser.forward
    denoiser = accelerator.prepare_model(denoiser.eval(), evaluation_mode=True)
    return Model(cell, denoiser, accelerator.device, plan.seed, watch, plain, record)


def record_of(plan: Plan, facts: Mapping[str, Any], path: Path, of: Study | None = None) -> Record:
    """Return what is known of the model of a checkpoint beside its weights."""
    if pretrained.is_pretrained(path):
        return pretrained.described(path.parent)[1]
    return recorded(plan, facts, path, of)


def plan_of(path: Path) -> Plan:
    """Return the run that a checkpoint is from, as it is declared today, or in its folder."""
    if pretrained.is_pretrained(path):
        return pretrained.described(path.parent)[0]
    facts = Checkpoint.load(path).facts
    try:
        file = facts.get("file")
        name = own.found(file["path"], path) if file else facts["study"]
        ((study, key),) = studies.chosen(f"{name}:{facts['cell']}")
    except KeyError as error:
        raise ValueError(f"{path} does not say which cell of which study it is from") from error
    declared = studies.load(study)
    plan = planned(study, declared, key, facts["seed"], facts["tiny"], facts["overrides"])
    return plan.remarked(facts)


def chosen_checkpoint(subject: str, seed: int = 0, out: Path = Path("runs")) -> Path:
    """Return the file that is meant by zoo:NAME, STUDY:CELL, a run's folder, or a checkpoint."""
    if subject.startswith(zoo.PREFIX):
        return zoo.path(subject.removeprefix(zoo.PREFIX))
    place, declared = Path(subject), own.is_own(own.parted(subject)[0])
    if place.is_file() and not declared:
        return place
    if not place.exists() and not declared and (len(place.parts) > 1 or place.suffix):
        raise ValueError(
            f"{place} is not there; expected zoo:NAME, STUDY:CELL, a run's folder or a file"
        )
    if not place.is_dir() and subject in zoo.names() and subject not in studies.names():
        raise ValueError(f"{subject!r} is no study and no folder; did you mean zoo:{subject}?")
    if not place.is_dir():
        study, key = studies.chosen(subject)[0]
        place = planned(study, studies.load(study), key, seed).folder(out)
    if pretrained.is_pretrained(place / pretrained.WEIGHTS):
        return place / pretrained.WEIGHTS
    found = checkpoints(place) if place.is_dir() else []
    if not found:
        raise ValueError(f"{place} has no checkpoint; expected the folder of a run")
    return found[0]


def load(subject: str | Path, device: torch.device | str = "cpu", seed: int = 0) -> Model:
    """Return a trained model: "zoo:grid_all", the folder of a run or model, or a checkpoint."""
    path = chosen_checkpoint(str(subject), seed)
    return loaded(plan_of(path), path, machine(torch.device(device)))
