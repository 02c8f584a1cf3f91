"""The reader of single objects: what it answers, how it learns, what it gets wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from recombine.measure.reader_error import ReaderError
from recombine.measure.renders import fresh, means
from recombine.measurement import Measurement
from recombine.models.probe import Probe, ProbeReader, ProbeReading
from recombine.objectives.classification import Classification, concepts, some_debris
from recombine.reader import FactorReader, Reading
from recombine.scene import Factor
from recombine.train import Step, Weights
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import BINARY, COLOURS, PAPER, Shapes2D
from recombine.worlds.shapes3d import Shapes3D
from subjects import Model, training

CPU = torch.device("cpu")


def test_the_likeliest_concept_of_each_factor_is_named():
    logits = torch.tensor([[0.1, 0.9, 3.0, 1.0, 2.0], [1.0, 0.9, 0.0, 1.0, 2.0]])
    factors = (Factor("size", ("small", "large")), Factor("shape", ("a", "b", "c")))
    read = ProbeReader(lambda images: logits, Probe(factors=factors))(torch.zeros(2, 3, 28, 28))
    assert read.rows.equal(read.concepts)
    assert read.concepts.tolist() == [[1, 0], [0, 2]]
    assert read.within(0.1).all()


def test_the_last_logit_is_the_log_odds_that_nothing_is_valid():
    """Odds of .4, .8, 1.5 and 3: at half the limit the first is valid, at double all but one."""
    doubt = torch.tensor([0.4, 0.8, 1.5, 3.0]).log()[:, None]
    logits = torch.cat([torch.tensor([[0.0, 1.0, 2.0, 0.0]]).expand(4, -1), doubt], dim=1)
    factors = (Factor("size", ("small", "large")), Factor("shape", ("a", "b")))
    reader = ProbeReader(lambda images: logits, Probe(factors=factors, rejects=True))
    read = reader(torch.zeros(4, 3, 28, 28))
    assert isinstance(read, Reading)
    assert read.concepts.tolist() == [[1, 0]] * 4
    assert read.rows.tolist() == [[1, 0], [1, 0], [-1, -1], [-1, -1]]
    assert read.within(0.5).tolist() == [True, False, False, False]
    assert read.within(2.0).tolist() == [True, True, True, False]


@pytest.mark.parametrize("size", [28, 30, 64])
@pytest.mark.parametrize("linear", [False, True])
def test_a_probe_answers_for_every_concept(size: int, linear: bool):
    of = Probe(size, Shapes3D.factors, width=4, linear=linear)
    reader = ProbeReader(of.build(), of)
    assert isinstance(reader, FactorReader)
    assert of.counts == [len(factor.concepts) for factor in Shapes3D.factors]
    assert reader(torch.rand(2, 3, size, size)).rows.shape == (2, len(of.counts))


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
    Classification((2, 2, 2), noise=0.2)(
        look, image, true, generator=torch.Generator().manual_seed(0)
    )
    strength = (seen[0] - image).std(dim=(1, 2, 3))
    assert 0.05 < strength.mean() < 0.15
    assert strength.std() > 0.03
    assert seen[0].min() >= 0
    assert seen[0].max() <= 1


def test_it_learns_to_read_in_a_few_steps():
    world, of = PAPER, Probe(width=8, factors=PAPER.factors)
    torch.manual_seed(0)
    weights = Weights.of(of.build(), ema=0.9)
    step = Step(weights, Classification((2, 2, 2)), 1.0, torch.Generator().manual_seed(0))
    step.set_rate(3e-3)
    for number in range(120):
        scenes = world.scenes(torch.arange(64) + 64 * number, seed=0)
        step(world.image(scenes), concepts(scenes))
    fresh = world.scenes(torch.arange(256), seed=1)
    read = ProbeReader(weights.denoiser, of)(world.image(fresh))
    assert (read.rows == concepts(fresh)).all(dim=1).float().mean() > 0.9


def test_it_learns_that_debris_is_nothing_valid():
    """A share of each batch is debris; only the last logit learns from it."""
    seen: list[torch.Tensor] = []
    logits = torch.zeros(20, 17, requires_grad=True)

    def look(image: torch.Tensor) -> torch.Tensor:
        seen.append(image)
        return logits

    image, true = Shapes2D().scenes(torch.arange(20), 0), torch.zeros(20, 3).long()
    image = Shapes2D().image(image)
    of = Classification((4, 4, 6), noise=0.0, world=Shapes2D(), debris_share=0.25)
    logits = torch.zeros(20, 15, requires_grad=True)
    of(look, image, true, generator=torch.Generator().manual_seed(0)).backward()
    assert logits.grad is not None
    assert seen[0][:15].equal(image[:15])
    assert (seen[0][15:] - image[15:]).abs().amax(dim=(1, 2, 3)).min() > 0.04
    assert (logits.grad[15:, :14] == 0).all()
    assert (logits.grad[:15, :14] != 0).all()
    assert (logits.grad[:15, 14] > 0).all()
    assert (logits.grad[15:, 14] < 0).all()
    # A mean over three factors and validity, each at its chance level.
    chance = torch.tensor([4.0, 4.0, 6.0, 2.0]).log().mean()
    loss = of(look, image, true, generator=torch.Generator().manual_seed(0))
    assert loss.item() == pytest.approx(chance.item(), rel=1e-5)


def test_debris_to_learn_from_is_of_every_kind_and_always_new():
    chance, like = torch.Generator().manual_seed(0), torch.zeros(28, 3, 28, 28)
    first, second = some_debris(Shapes2D(), like, chance), some_debris(Shapes2D(), like, chance)
    assert first.shape == like.shape
    assert (first - second).abs().amax(dim=(1, 2, 3)).min() > 0


def test_each_batch_has_a_blur_of_its_own():
    seen: list[torch.Tensor] = []

    def look(image: torch.Tensor) -> torch.Tensor:
        seen.append(image)
        return torch.zeros(len(image), 14)

    image, true = torch.ones(2, 3, 28, 28), torch.zeros(2, 3).long()
    image[:, :, 10:18, 10:18] = 0
    chance = torch.Generator().manual_seed(0)
    for _ in range(2):
        Classification(noise=0.0, blur=1.5)(look, image, true, generator=chance)
    assert (seen[0] - seen[1]).abs().max() > 0.01
    assert (seen[0] - image).abs().max() > 0.01
    assert seen[0].sum() == pytest.approx(image.sum().item(), rel=1e-4)


class ReadsColour(Probe):
    """A reader that knows the colour of PAPER alone, and refuses paper with nothing on it."""

    def factor_reader(self, network: object) -> Callable[[torch.Tensor], ProbeReading]:
        def read(images: torch.Tensor) -> ProbeReading:
            found = torch.zeros(len(images), 3).long()
            red, blue = images[:, 0].mean(dim=(1, 2)), images[:, 2].mean(dim=(1, 2))
            found[:, 2] = (blue > red).long()
            empty = images.amin(dim=(1, 2, 3)) > 0.9
            return ProbeReading(found, torch.where(empty, 1.0, -1.0))

        return read


def test_its_error_is_measured_on_every_composition_and_on_debris():
    """Reading the colour alone, two of eight compositions are right: large circles."""
    subject = Model(training(world=PAPER, network=ReadsColour(factors=PAPER.factors)))
    found = ReaderError(samples=2, of_debris=2)(subject, torch.Generator().manual_seed(0))
    found = found.measurements
    assert found["accuracy"] == Measurement.rate(4, 16)
    assert found["accuracy_noisy"] == found["accuracy_blurred"] == Measurement.rate(4, 16)
    assert found["colour_right"].value == found["valid"].value == 1
    assert found["shape_right"] == Measurement.rate(8, 16)
    assert found["accuracy@circle-large-blue"] == Measurement.rate(2, 2)
    assert found["accuracy@triangle-large-blue"] == Measurement.rate(0, 2)
    assert found["rejected@empty"] == Measurement.rate(2, 2)
    assert found["rejected@ring"] == Measurement.rate(0, 2)
    for name in ("accuracy_fit", "valid_fit_blurred", "accuracy_fit_noisy", "rejected_fit@ring"):
        assert found[name].value == 1, name
    assert found["kappa"].value < 0.5


def test_fresh_renders_are_of_the_composition_and_go_on_from_a_number():
    images = fresh(Shapes2D(), ("triangle", "small", "blue"), 4, CPU)
    # Blue on white: red and green are dark where the shape is.
    assert images[:, 0].amin(dim=(1, 2)).max() < 0.2
    assert images[:, 2].amin(dim=(1, 2)).min() > 0.7
    again = fresh(Shapes2D(), ("triangle", "small", "blue"), 2, CPU, first=2)
    assert torch.equal(again, images[2:])
    few = Shapes2D(images=3)
    assert len(fresh(few, ("circle", "large", "red"), 20, CPU).flatten(1).unique(dim=0)) == 20
    assert set(BINARY.compositions) == {*BINARY.seen, *BINARY.held_out}


def test_the_means_of_a_composition_have_no_jitter():
    scenes = means(Shapes2D(), ("triangle", "small", "blue"), 3, CPU)
    assert torch.equal(scenes.size, Shapes2D().radii[1, 1].expand(3, 1))
    assert torch.equal(scenes.colour[:, 0], torch.tensor([COLOURS["blue"]] * 3))
    assert scenes.concepts[:, 0].tolist() == [[1, 1, 2]] * 3


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"network": None}, "on readers of single objects; got NoneType"),
        ({"world": Circles()}, "on worlds of one object; got Circles"),
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
    with pytest.raises(ValueError, match="a share of debris is between 0 and 1; got 1"):
        Classification(world=Shapes2D(), debris_share=1.0)
    with pytest.raises(ValueError, match="reads images of the shape"):
        Probe().build()(torch.rand(1, 3, 27, 28))
    assert replace(Probe(), width=9).width == 9
