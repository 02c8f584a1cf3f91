import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import settings
from jaxtyping import config

from json_schema import checked
from recombine import __main__ as command_line
from recombine.commands import console

# The same examples on every run, and no time limit: a busy machine must not fail a test.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _same_weights_on_every_run() -> None:
    """Networks draw their weights from torch's global state: start it anew for each test."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _json_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command prints as JSON in any test is what docs/json.md says."""
    monkeypatch.setattr(console, "json", SimpleNamespace(dumps=checked))


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


def here() -> list[str]:
    """Return the files below the current folder, without those that tools make meanwhile."""
    found = []
    for folder, inside, files in os.walk("."):
        inside[:] = [each for each in inside if each != "__pycache__" and each[0] != "."]
        found += [os.path.join(folder, each) for each in files]
    return sorted(found)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused: exit code 2, one line on standard error, no files."""

    def run(*words: str) -> str:
        before = here()
        assert command_line.main(words) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("recombine: ")
        assert output.err.count("\n") == 1
        assert here() == before
        return output.err.removeprefix("recombine: ").strip()

    return run
