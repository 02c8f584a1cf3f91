"""What a measurement looks at, and what it finds.

A measurement is a frozen value that applies to any training. It may look at a `Subject` and at
nothing else. What depends on the kind of model is a method of its declared network or objective,
such as `object_reader` of a detector or `target_spreads` of JEPA.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from recombine.denoiser import Denoiser
from recombine.measurement import Measurement, Number
from recombine.sample.heun import Made

Curve: TypeAlias = Sequence[Sequence[Number]]
"""Rows (x, value) or (x, value, low, high)."""


@dataclass(frozen=True)
class Findings:
    """Numbers and curves for the results, images to look at, and arrays such as heat maps.

    `undefined` says of a measurement why it has no value, `alarms` what has gone wrong and what to
    do about it.
    """

    measurements: Mapping[str, Measurement]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    images: Mapping[str, Tensor] = field(default_factory=dict)
    arrays: Mapping[str, Tensor] = field(default_factory=dict)
    undefined: Mapping[str, str] = field(default_factory=dict)
    alarms: tuple[str, ...] = ()


def joined(findings: Sequence[Findings]) -> Findings:
    """Return all that was found; of the same name, the last."""
    names = [each.name for each in fields(Findings) if each.name != "alarms"]
    parts = {name: {k: v for f in findings for k, v in getattr(f, name).items()} for name in names}
    return Findings(**parts, alarms=tuple(alarm for f in findings for alarm in f.alarms))


@runtime_checkable
class Subject(Protocol):
    """A trained model, and what it was trained on."""

    @property
    def training(self) -> Any:
        """The `Training`: its world, conditioner, view, network and objective."""

    @property
    def denoiser(self) -> Denoiser:
        """The model in the fastest precision of its device."""

    @property
    def precise(self) -> Denoiser:
        """The model in the precision of its weights, for gradients and small differences."""

    @property
    def device(self) -> torch.device: ...

    def images(self, condition: Tensor, generator: torch.Generator, /) -> Tensor:
        """Sample one image per row of the condition; values may lie outside [0, 1]."""

    def drawn(self, condition: Tensor, generator: torch.Generator, /) -> Tensor:
        """Sample the same as the model sees it: before `training.view.back`."""

    def reader(self, name: str, /) -> Any:
        """Return a shipped reader, such as "detector" or "probe", on the device of the subject."""

    def watch(self, done: float, total: int, /) -> None:
        """Take note of how far a measurement is."""

    def keep(self, of: Sequence[Tensor], work: Callable[[], Made], /) -> Made:
        """Return the tensors that the work makes of others, or that it made before a stop."""


@runtime_checkable
class Measure(Protocol):
    """A declared measurement; its name is what `recombine measure --what` says."""

    name: ClassVar[str]

    def __call__(self, subject: Subject, generator: torch.Generator, /) -> Findings: ...

    def tiny(self) -> "Measure":
        """Return the same measurement, made in a second."""


@runtime_checkable
class HasQuick(Protocol):
    """A measurement that takes long on a CPU, and has a setting that does not."""

    @property
    def size(self) -> int:
        """How much work it is, as a multiple of the same unit for every setting."""

    def quick(self) -> "Measure":
        """Return the same measurement, made in about a minute on a CPU."""


@runtime_checkable
class SumsUp(Protocol):
    """A measurement that also sums up its values at all milestones, by curves (step, value)."""

    def over_training(self, curves: Mapping[str, Curve], /) -> dict[str, Measurement]: ...


def inapplicable(measure: str, needs: str, got: object) -> ValueError:
    """Return the error of a measurement that does not apply to what it is given."""
    return ValueError(f"{measure} is measured on {needs}; got {type(got).__name__}")
