"""The reader of single objects: what it answers, how it learns, what it gets wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from recombine.measure.reader_error import ReaderError, overall
from recombine.measure.renders import fresh, means
from recombine.measurement import Measurement
from recombine.models.probe import Probe, ProbeReader
from recombine.objectives.classification import Classification, concepts
from recombine.reader import FactorReader
from recombine.scene import Factor
from recombine.train import Step, Weights
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import BINARY, COLOURS, SIZES, FewShapes2D, Shapes2D
from recombine.worlds.shapes3d import Shapes3D
from subjects import Model, training

CPU = torch.device("cpu")


def test_the_likeliest_concept_of_each_factor_is_named():
    logits = torch.tensor([[0.1, 0.9, 3.0, 1.0, 2.0], [1.0, 0.9, 0.0, 1.0, 2.0]])
    factors = (Factor("size", ("small", "large")), Factor("shape", ("a", "b", "c")))
    reader = ProbeReader(lambda images: logits, Probe(factors=factors))
    assert reader(torch.zeros(2, 3, 28, 28)).tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("size", [28, 30, 64])
@pytest.mark.parametrize("linear", [False, True])
def test_a_probe_answers_for_every_concept(size: int, linear: bool):
    of = Probe(size, Shapes3D.factors, width=4, linear=linear)
    reader = ProbeReader(of.build(), of)
    assert isinstance(reader, FactorReader)
    assert of.counts == [len(factor.concepts) for factor in Shapes3D.factors]
    assert reader(torch.rand(2, 3, size, size)).shape == (2, len(of.counts))


def test_a_linear_probe_is_linear():
    network = Probe(linear=True).build()
    images = torch.rand(3, 3, 28, 28)
    middle = network((images[:1] + images[1:2]) / 2)
    assert torch.allclose(middle, (network(images[:1]) + network(images[1:2])) / 2, atol=1e-5)


def test_the_loss_is_the_mean_cross_entropy_of_the_factors():
    logits = torch.randn(6, 7)
    true = torch.stack([torch.randint(2, (6,)), torch.randint(5, (6,))], dim=1)
    loss = Classification((2, 5))(
        lambda seen: logits, torch.rand(6, 3, 8, 8), true, generator=torch.Generator()
    )
    rows = [
        -(logits[:, :2].log_softmax(1)[row, true[row, 0]])
        - logits[:, 2:].log_softmax(1)[row, true[row, 1]]
        for row in range(6)
    ]
    assert loss.item() == pytest.approx(sum(rows).item() / 12, rel=1e-5)


def test_every_image_is_marred_by_itself_and_stays_an_image():
    seen: list[torch.Tensor] = []

    def look(image: torch.Tensor) -> torch.Tensor:
        seen.append(image)
        return torch.zeros(len(image), 6)

    image, true = torch.full((64, 3, 28, 28), 0.5), torch.zeros(64, 3).long()
    Classification(noise=0.2)(look, image, true, generator=torch.Generator().manual_seed(0))
    strength = (seen[0] - image).std(dim=(1, 2, 3))
    assert 0.05 < strength.mean() < 0.15
    assert strength.std() > 0.03
    assert seen[0].min() >= 0
    assert seen[0].max() <= 1


def test_it_learns_to_read_in_a_few_steps():
    world, of = Shapes2D(), Probe(width=8)
    torch.manual_seed(0)
    weights = Weights.of(of.build(), ema=0.9)
    step = Step(weights, Classification(), 1.0, torch.Generator().manual_seed(0))
    step.set_rate(3e-3)
    for number in range(60):
        scenes = world.scenes(torch.arange(64) + 64 * number, seed=0)
        step(world.image(scenes), concepts(scenes))
    fresh = world.scenes(torch.arange(256), seed=1)
    read = ProbeReader(weights.denoiser, of)(world.image(fresh))
    assert (read == concepts(fresh)).all(dim=1).float().mean() > 0.9


class Truthful(Probe):
    """A reader that is right until there is noise, and then reads the first concepts."""

    def factor_reader(self, network: object) -> Callable[[torch.Tensor], torch.Tensor]:
        def read(images: torch.Tensor) -> torch.Tensor:
            where = (images[:, :1] == 1).float().mean(dim=(1, 2, 3))
            found = torch.zeros(len(images), 3).long()
            found[:, 2] = ((images[:, 0] < 0.4).float().mean(dim=(1, 2)) > 0).long()
            return torch.where(where[:, None] > 0.1, found, 0)

        return read


def test_its_error_is_measured_on_every_composition():
    """Reading the colour alone, two of eight compositions are right; with noise, one."""
    found = ReaderError(samples=10)(
        Model(training(world=Shapes2D(), network=Truthful())), torch.Generator().manual_seed(0)
    ).measurements
    assert found["accuracy"] == Measurement.rate(20, 80)
    assert found["colour_right@level2"].value == 1
    assert found["accuracy@level0"].value == 0.5
    assert found["accuracy_noisy"] == Measurement.rate(10, 80)
    levels = {
        f"accuracy@level{level}": Measurement.rate(right, 10)
        for level, right in enumerate((10, 5, 0))
    }
    assert overall(levels, "") == {"accuracy": Measurement.rate(15, 30)}


def test_fresh_renders_are_of_the_composition_and_go_on_from_a_number():
    images = fresh(Shapes2D(), ("triangle", "small", "blue"), 4, CPU)
    # Blue on white: red and green are dark where the shape is.
    assert images[:, 0].amin(dim=(1, 2)).max() < 0.2
    assert images[:, 2].amin(dim=(1, 2)).min() > 0.7
    again = fresh(Shapes2D(), ("triangle", "small", "blue"), 2, CPU, first=2)
    assert torch.equal(again, images[2:])
    few = FewShapes2D(images=3)
    assert len(fresh(few, ("circle", "large", "red"), 20, CPU).flatten(1).unique(dim=0)) == 20
    assert set(BINARY.compositions) == {*BINARY.seen, *BINARY.held_out}


def test_the_means_of_a_composition_have_no_jitter():
    scenes = means(Shapes2D(), ("triangle", "small", "blue"), 3, CPU)
    assert torch.equal(scenes.size, torch.full((3, 1), SIZES["small"]))
    assert torch.equal(scenes.colour[:, 0], torch.tensor([COLOURS["blue"]] * 3))
    assert scenes.concepts[:, 0].tolist() == [[1, 1, 1]] * 3


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"network": None}, "on readers of single objects; got NoneType"),
        ({"world": Circles()}, "on worlds of one object; got Circles"),
        (
            {"world": Shapes3D()},
            "on .* the world's own factors, hue, .*; got binary of shape, size",
        ),
    ],
)
def test_other_trainings_are_refused_with_what_is_needed(parts: dict, words: str):
    whole = {"world": Shapes2D(), "network": Probe(), **parts}
    with pytest.raises(ValueError, match=f"reader_error is measured {words}"):
        ReaderError()(Model(training(**whole)), torch.Generator())


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least one factor"):
        Probe(factors=())
    with pytest.raises(ValueError, match="noise is finite and not negative; got -1"):
        Classification(noise=-1.0)
    with pytest.raises(ValueError, match="reads images of the shape"):
        Probe().build()(torch.rand(1, 3, 27, 28))
    assert replace(Probe(), width=9).width == 9
