"""The quick sampler is for models whose answers it does not change."""

import pytest

from recombine import load
from recombine.sample.heun import heun


@pytest.mark.parametrize(
    ("name", "quick"), [("grid_all", True), ("grid_one_local", False), ("dit", False)]
)
def test_only_models_of_clevr_without_guidance_are_sampled_in_fewer_steps(name: str, quick: bool):
    model = load(f"zoo:{name}")
    fewer = model.quick.cell.sampler
    if not quick:
        assert model.quick is model
        return
    assert (fewer.steps, fewer.solver) == (7, heun)
    assert fewer.evaluations < model.cell.sampler.evaluations / 2.5
