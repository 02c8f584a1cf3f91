"""The public names: one page shows each of them, and bad use is one line."""

from pathlib import Path

import pytest
import torch

import recombine
from recombine.api import is_denoiser
from recombine.condition import Conditioner, FactorDropout, Grid, Labels, all_objects
from recombine.data import Stream
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.run.wanted import of_factors
from recombine.spelling import whole
from recombine.training import Budget, Training
from recombine.worlds.shapes2d import PAPER

PAGE = Path(__file__).parents[1] / "docs/api.md"
NETWORK = UNet(3, 28, Vector(9), width=8, multipliers=(1,), blocks=1, attention=(), patch=4)
LABELS = Training(PAPER, NETWORK, Budget(2, 2), Conditioner(all_objects, Labels((2, 2, 2))))
OPEN = Training(PAPER, NETWORK, Budget(2, 2), FactorDropout(all_objects, Labels((2, 2, 2))))


@pytest.mark.parametrize("name", recombine.__all__)
def test_every_public_name_is_there_and_shown_on_its_page(name: str):
    assert callable(getattr(recombine, name)) or name in ("WORLDS", "Concepts")
    text = PAGE.read_text()
    assert f"recombine.{name}" in text


def test_concepts_become_the_row_that_training_writes():
    scenes = PAPER.scenes(torch.arange(16), 0)
    written = LABELS.conditioner.encode(scenes)
    for number in range(16):
        words = [
            f.concepts[i]
            for f, i in zip(PAPER.factors, scenes.concepts[number, 0].tolist(), strict=True)
        ]
        wanted = dict(zip(("shape", "size", "colour"), words, strict=True))
        assert torch.equal(of_factors(LABELS, wanted)[0], written[number])


def test_factors_that_are_not_named_stay_null_or_are_needed():
    condition = of_factors(OPEN, {"size": "small"})[0]
    assert condition[0].tolist() == condition[2].tolist() == [0, 0, 0]
    assert condition[1].tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="to leave factors open; missing: shape, colour"):
        of_factors(LABELS, {"size": "small"})
    with pytest.raises(
        ValueError, match="'sise' is not one of shape, size, colour; did you mean size"
    ):
        of_factors(OPEN, {"sise": "small"})
    with pytest.raises(ValueError, match="size is one of large, small; got 'tiny'"):
        of_factors(OPEN, {"size": "tiny"})


def test_an_own_training_is_run_and_goes_on(tmp_path: Path):
    model = recombine.run(OPEN, name="mine", out=tmp_path)
    again = recombine.run(OPEN, name="mine", out=tmp_path)
    images = model.sample(shape="triangle", count=2, seed=3)
    assert images.shape == (2, 3, 28, 28)
    assert torch.equal(images, again.sample(shape="triangle", count=2, seed=3))
    assert not torch.equal(images, model.sample(shape="circle", count=2, seed=3))
    x, condition = torch.randn(2, 3, 28, 28), torch.zeros(2, 3, 3)
    levels = torch.full((2,), 0.5)
    assert torch.equal(model.denoise(x, 0.5, condition), model.precise(x, levels, condition))
    with pytest.raises(ValueError, match="a new name; got None"):
        recombine.run(OPEN, out=tmp_path)


def test_generators_and_denoisers_differ_in_how_they_are_called():
    assert not is_denoiser(lambda condition, generator: condition)
    assert is_denoiser(lambda x, sigma, condition: x)
    assert is_denoiser(recombine.wrap(lambda x, t: x, "flow"))
    with pytest.raises(ValueError, match=r"got \(x\)"):
        is_denoiser(lambda x: x)


def test_a_measurement_of_a_foreign_model_needs_its_world():
    with pytest.raises(ValueError, match="measured with its world and conditioner"):
        recombine.measure(lambda condition, generator: condition, "length")
    with pytest.raises(ValueError, match="got a generator"):
        recombine.measure(
            lambda condition, generator: condition, "locality", recombine.Clevr(64, (1, 3)),
            Conditioner(all_objects, Grid()), samples=2, places=2, levels=(1.0,),
        )  # fmt: skip


def test_a_stream_is_resumed_by_every_field_of_its_world():
    long = "Clevr(size=128, objects=(3, 10), jitter=False, margin=True, among=())"
    assert whole(recombine.Clevr()) == long
    assert Stream(recombine.Clevr(), 1, 0).state()["source"] == long
