"""Do models that listen locally draw more objects than they have seen?

Bradley 2025 (arXiv 2509.16447), Figure 2 and the scatter of K_max over conditional locality. The
models are those of length_generalization, retrained with the same seeds to the same weights; at
10, 40 and 100 % of training both K_max and locality are measured (half of the runs on record were
measured at the end alone). What is declared of locality is
in measure/locality.py.

    recombine run locality:all     # 3 seeds of each, 2 to 3 minutes a run on one H200
    recombine measure zoo:grid_all --what locality --json
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.condition import EncodesPlaces, Grid
from recombine.denoiser import unit_noise
from recombine.experiment import Experiment, Findings, Trained
from recombine.experiments import length_generalization as length
from recombine.measure.influence import distances, object_influence, pixel_influence, pixels_at
from recombine.measure.locality import OWN, RADIUS, Gauge, Level, Told, gathered, heard, listened
from recombine.render.camera import places
from recombine.scene import Scenes, concatenate
from recombine.worlds.clevr import Clevr

ASKED = 10_009
"""The seed of the scenes; neither training nor length has it."""
LEVELS = tuple(0.05 * 400 ** (step / 11) for step in range(12))
"""Twelve noise levels, evenly in their logarithm, from 0.05 to 20."""
MAP = 32
"""Side of the heat maps that a record keeps."""


@dataclass(frozen=True)
class Locality:
    """Ask what pixels listen to in `samples` scenes of so many told `places`, at each noise level.

    At high noise, conditional locality is asked to be at least `least`. Besides the told places, a
    `lattice` of pixels is looked at. Heat maps are means over so many noisy `views` of a scene.
    """

    least: float | None = None
    levels: tuple[float, ...] = LEVELS
    samples: int = 32
    places: int = 4
    lattice: int = 4
    views: int = 8

    what: ClassVar[str] = "locality"

    def __post_init__(self) -> None:
        if self.samples < 2 or self.places < 2 or not self.levels:
            raise ValueError(
                f"locality is asked for levels, 2 samples and 2 places or more; got {self}"
            )

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Add noise to true scenes, and look at what the denoiser listens to."""
        world, conditioner = trained.experiment.world, trained.experiment.conditioner
        assert isinstance(world, Clevr)
        encode = conditioner.encode
        assert isinstance(encode, EncodesPlaces)
        scenes = far_apart(world, self.places, self.samples, trained.device)
        place, condition, told = asked(scenes, encode, generator)
        image = trained.experiment.view(world.image(scenes))
        gauge = Gauge(self.lattice, 512 if trained.device.type == "cuda" else 16)
        looked: dict[float, Level] = {}
        for level in self.levels:
            x, sigma = noisy(image, level, generator)
            looked[level] = listened(trained.precise, x, sigma, condition, told, gauge)
            trained.watch(float(len(looked) * self.samples), len(self.levels) * self.samples)
        found = gathered(looked)
        measured = dict(found.measurements)
        if self.least is not None and (high := measured.get("conditional_locality")):
            good = "as asked" if high.value >= self.least else "missed: asked"
            measured["conditional_locality"] = replace(high, verdict=f"{good} (>= {self.least:g})")
        first = torch.zeros(self.views, dtype=torch.long, device=trained.device)
        view = View(trained, image[first], condition[first], told[first], generator)
        curves: dict[str, list[Any]] = {
            "locality_levels": [f"{level:.3g}" for level in self.levels],
            "locality_places": [[round(x, 4), round(y, 4)] for x, y in place[0].tolist()],
            "locality_maps": [each for level in self._shown for each in view.maps(level)],
            "undefined": [[name, why] for name, why in found.undefined.items()],
        }
        return Findings(measured, curves)

    @property
    def _shown(self) -> list[float]:
        """A low, a middle and a high level."""
        last = len(self.levels) - 1
        return [self.levels[at] for at in sorted({last // 4, (last + 1) // 2, last - last // 8})]

    def tiny(self) -> "Locality":
        """Return the same question at the highest level, of two places in two scenes."""
        return replace(self, levels=self.levels[-1:], samples=2, places=2, lattice=0, views=1)


def noisy(
    image: Float[Tensor, "batch 3 height width"], level: float, generator: torch.Generator
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, " batch"]]:
    """Return images with noise of one level, and the level of each."""
    return image + level * unit_noise(image, generator), image.new_full((len(image),), level)


def far_apart(world: Clevr, objects: int, samples: int, device: torch.device) -> Scenes:
    """Return the first scenes whose objects are all farther apart than what counts as near.

    Closer ones would show on each other's own pixels, however local a model is.
    """
    crowd, kept = replace(world, objects=(objects, objects)), []
    for start in range(0, 64 * samples, 4 * samples):
        scenes = crowd.scenes(torch.arange(start, start + 4 * samples, device=device), ASKED)
        place, told = Grid(length.CELLS).requested(places(scenes)[0], scenes.present)
        away = gaps(place, place) + 2 * torch.eye(objects, device=device)
        kept.append(scenes[told.all(dim=1) & (away > RADIUS).all(dim=2).all(dim=1)])
        if sum(map(len, kept)) >= samples:
            return concatenate(kept)[:samples]
    raise ValueError(f"too few scenes of {world} have {objects} objects that far apart")


def gaps(
    place: Float[Tensor, "batch object 2"], other: Float[Tensor, "batch thing 2"]
) -> Float[Tensor, "batch object thing"]:
    """Return how far places are apart, down or across, whichever is more."""
    return (place[:, :, None] - other[:, None]).abs().amax(dim=-1)


def asked(
    scenes: Scenes, encode: EncodesPlaces, generator: torch.Generator
) -> tuple[Tensor, Tensor, Told]:
    """Return the places as told, the condition, and what it is without each and with each moved."""
    place, present = places(scenes)[0], scenes.present
    told, _ = encode.requested(place, present)
    objects = place.shape[1]
    target = elsewhere(told, generator)
    without, moved = [], []
    for index in range(objects):
        fewer, changed = present.clone(), place.clone()
        fewer[:, index], changed[:, index] = False, target
        without.append(encode.at(place, fewer))
        moved.append(encode.at(changed, present))
    condition = encode.at(place, present)
    return told, condition, Told(told, torch.stack(without), torch.stack(moved))


def elsewhere(
    place: Float[Tensor, "batch object 2"], generator: torch.Generator
) -> Float[Tensor, "batch 2"]:
    """Return a place in each scene that is near none of its own: one that another scene has."""
    other = place.flatten(0, 1)
    order = torch.randperm(len(other), generator=generator, device=generator.device)
    other = other[order.to(other.device)].expand(len(place), -1, 2)
    free = gaps(place, other).amin(dim=1)
    # The first that is far enough; should none be, the farthest.
    chosen = torch.where(free > RADIUS, 2.0, free).argmax(dim=1)
    return other[torch.arange(len(place), device=place.device), chosen]


@dataclass(frozen=True)
class View:
    """Noisy views of one scene, from which heat maps are drawn."""

    trained: Trained
    image: Float[Tensor, "batch 3 height width"]
    condition: Float[Tensor, " batch *condition"]
    told: Told
    generator: torch.Generator

    def maps(self, level: float) -> Iterator[dict[str, Any]]:
        """Yield for each told place: which pixels it listens to, and to which told objects."""
        x, sigma = noisy(self.image, level, self.generator)
        height, width = x.shape[2:]
        pixels = pixels_at(self.told.place, height, width)
        own = distances(pixels, height, width) <= round(OWN * min(height, width))
        asked = (self.trained.precise, x, sigma, self.condition)
        objects = heard(object_influence(*asked, self.told.without), own).mean(dim=0)
        influence = pixel_influence(*asked, pixels).mean(dim=0)
        for pixel, mine, map_ in zip(pixels[0].tolist(), objects, influence, strict=True):
            yield {
                "sigma": f"{level:.3g}",
                "pixel": [(pixel[1] + 0.5) / width, (pixel[0] + 0.5) / height],
                "heard": [round(each, 3) for each in (mine / mine.sum().clamp(min=1e-30)).tolist()],
                "map": packed(map_),
            }


def packed(influence: Float[Tensor, "height width"]) -> list[str]:
    """Return a heat map as rows of whole numbers, 999 the largest: a record is read by people."""
    small = torch.nn.functional.adaptive_max_pool2d(influence[None], MAP)[0]
    numbers = (999 * small / small.max().clamp(min=1e-30)).round().long()
    return [" ".join(map(str, row)) for row in numbers.tolist()]


def with_locality(experiment: Experiment, least: float | None = None) -> Experiment:
    """Return the experiment with locality asked beside length, and nothing else changed."""
    return replace(
        experiment,
        question=f"{experiment.question} And how locally does it listen?",
        asks=(*experiment.asks, Locality(least)),
        headline=("conditional_locality", *experiment.headline),
    )


grid_all = with_locality(length.grid_all, least=0.9)
grid_one = with_locality(length.grid_one)
list_all = with_locality(length.list_all)
list_all_anywhere = with_locality(length.list_all_anywhere)
grid_one_local = with_locality(length.grid_one_local, least=0.9)
list_all_local = with_locality(length.list_all_local, least=0.9)
grid_one_local_unguided = with_locality(length.grid_one_local_unguided)
list_all_local_guided = with_locality(length.list_all_local_guided)
grid_one_global_window = with_locality(length.grid_one_global_window)
grid_one_channels = with_locality(length.grid_one_channels)
grid_all_channels = with_locality(length.grid_all_channels)
grid_all_1 = with_locality(length.grid_all_1)
grid_one_1 = with_locality(length.grid_one_1)
grid_one_local_1 = with_locality(length.grid_one_local_1)
grid_all_5 = with_locality(length.grid_all_5)
grid_one_5 = with_locality(length.grid_one_5)
grid_one_local_5 = with_locality(length.grid_one_local_5)
