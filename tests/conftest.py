from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import config

# The same examples on every run, and no time limit: a busy machine must not fail a test.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _same_weights_on_every_run() -> None:
    """Networks draw their weights from torch's global state: start it anew for each test."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def unhooked() -> Iterator[None]:
    """Switch the shape checks of the tests off: a user meets our own messages."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the toy study that nothing stopped."""
    from toy_runs import ran

    out = tmp_path_factory.mktemp("whole")
    ran(out)
    return out
