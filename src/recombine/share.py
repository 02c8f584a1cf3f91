"""Random draws shared by processes: a run does not depend on how many there are."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

SHAPE_AT = {torch.rand: 0, torch.randn: 0, torch.randint: -1}
"""Which argument is the shape, of each draw that can be shared or stacked."""


class SharedDraws(TorchFunctionMode):
    """Inside it, a draw from a generator is this process's share of the draw for all processes.

    Process r of n keeps every n-th row, as it does of the scenes. All draw the same numbers, so a
    run does not depend on the number of processes, and no objective has to know of them.
    """

    def __init__(self, process: int, processes: int) -> None:
        super().__init__()
        self.process, self.processes = process, processes

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.processes == 1 or kwargs.get("generator") is None:
            return function(*args, **kwargs)
        if function not in SHAPE_AT:
            known = ", ".join(each.__name__ for each in SHAPE_AT)
            raise ValueError(f"processes can share {known}; got {function.__name__}")
        at = SHAPE_AT[function]
        rows, *others = args if isinstance(args[at], int) else args[at]
        whole = function(*args[:at], (rows * self.processes, *others), **kwargs)
        return whole[self.process :: self.processes]
