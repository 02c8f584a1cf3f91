import pytest
import torch
from hypothesis import settings

# The same examples on every run, and no time limit: a busy machine must not fail a test.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)
