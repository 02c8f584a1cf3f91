"""What is counted over batches: a Metric of torchmetrics, or the little of one that we need."""

from typing import TYPE_CHECKING, Any


class Plain:
    """Named lists that begin empty, and are so again after `reset`."""

    def __init__(self) -> None:
        self._defaults: dict[str, list[Any]] = {}

    def add_state(self, name: str, default: list[Any], dist_reduce_fx: str) -> None:
        """Begin a list; between processes it would be joined."""
        del dist_reduce_fx
        self._defaults[name] = default
        setattr(self, name, list(default))

    def reset(self) -> None:
        """Forget all batches."""
        for name, default in self._defaults.items():
            setattr(self, name, list(default))


if TYPE_CHECKING:
    Counts = Plain
else:
    try:
        from torchmetrics import Metric as Counts
    except ImportError:
        Counts = Plain


class Accumulated(Counts):
    """What has states of these names; each is a list of tensors, one for each batch."""

    requests: list[Any]
    right: list[Any]
    fulfilled: list[Any]
    counted: list[Any]
    valid: list[Any]

    @property
    def named(self) -> list[str]:
        """The names of the states."""
        return [*self._defaults]
