"""What measurements call on networks and objectives: what depends on the kind of model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from recombine.reader import FactorReader, Reader


@runtime_checkable
class ReadsObjects(Protocol):
    """A declared network that finds objects, such as a `Detector`."""

    def object_reader(self, network: Any, threshold: float | None = None, /) -> Reader:
        """Return the reader of a trained network; without a threshold, with its usual one."""


@runtime_checkable
class ReadsFactors(Protocol):
    """A declared network that reads the concepts of single objects, such as a `Probe`."""

    def factor_reader(self, network: Any, /) -> FactorReader: ...


@runtime_checkable
class Autoencodes(Protocol):
    """A declared tokenizer, with so many codes, or with continuous latents (None)."""

    @property
    def codes(self) -> int | None: ...

    @property
    def latent(self) -> int: ...

    def build(self) -> nn.Module: ...


@runtime_checkable
class Reconstruction(Protocol):
    """What a tokenizer returns; the parts of the other kind of tokenizer are None."""

    @property
    def image(self) -> Tensor: ...

    @property
    def latent(self) -> Tensor: ...

    @property
    def logvar(self) -> Tensor | None: ...

    @property
    def ids(self) -> Tensor | None: ...

    @property
    def vectors(self) -> Tensor | None: ...


@runtime_checkable
class PredictsHidden(Protocol):
    """An objective of masked models: how well is each image's hidden part predicted?"""

    def noisy_tokens(self, seen: Tensor, generator: torch.Generator, /) -> tuple[Tensor, ...]:
        """Draw what the model is given besides tokens and mask, such as noisy tokens."""

    def prediction_quality(
        self, predicted: Any, seen: Tensor, hidden: Bool[Tensor, "batch side side"], *noisy: Tensor
    ) -> Float[Tensor, " batch"]:
        """Return minus the loss of every image, a mean over its hidden tokens."""


@runtime_checkable
class LooksInside(Protocol):
    """A built network whose neurons and attention heads are known."""

    def inside(self, layers: Sequence[int] = (), /) -> Mapping[int, tuple[nn.Module, nn.Module]]:
        """Return by layer the modules whose inputs are its neurons, and its heads side by side.

        Without layers, return all.
        """


@runtime_checkable
class TargetSpread(Protocol):
    """How much the targets of a self-supervised objective differ between images."""

    @property
    def variance(self) -> float: ...

    @property
    def rank(self) -> float: ...

    @property
    def alarm(self) -> str | None: ...


@runtime_checkable
class SpreadsTargets(Protocol):
    """An objective with targets that may collapse, such as JEPA."""

    def target_spreads(
        self, average: Callable[..., Any], seen: Tensor, condition: Tensor, /
    ) -> Mapping[int, TargetSpread]:
        """Return the spread of the targets of each layer."""
