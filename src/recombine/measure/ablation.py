"""Locality of a trained model: on which scenes, with which objects left out or moved.

Bradley 2025 (arXiv 2509.16447), Figure 2 and the scatter of K_max over conditional locality. What
the numbers mean is declared in measure/locality.py.
"""

from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from recombine.condition import EncodesPlaces, Grid
from recombine.denoiser import Denoiser, unit_noise
from recombine.measure.influence import distances, object_influence, pixel_influence, pixels_at
from recombine.measure.locality import (
    OWN,
    RADIUS,
    Ablations,
    Gauge,
    LevelInfluence,
    at_places,
    gathered,
    level_influence,
)
from recombine.measure.requests import CELLS, scenes_with_places
from recombine.measure.subject import Findings, Subject
from recombine.render.camera import places
from recombine.sample.heun import Made
from recombine.scene import Scenes, concatenate
from recombine.worlds.clevr import Clevr

SEED = 10_009
"""The seed of the scenes; neither training nor length has it."""
LEVELS = tuple(0.05 * 400 ** (step / 11) for step in range(12))
"""Twelve noise levels, evenly in their logarithm, from 0.05 to 20."""
MAP = 32
"""Side of the heat maps that are kept."""


@dataclass(frozen=True)
class Locality:
    """Measure locality in `samples` scenes of so many requested `places`, at each noise level.

    Besides the requested places, a `lattice` of pixels is used. Heat maps are means over so many
    noisy `views` of the first scene: by level and place, `locality_map@` is the influence of pixels
    (255: the largest) and `locality_objects@` the share of each object; `locality_places` are the
    places (x, y).
    """

    levels: tuple[float, ...] = LEVELS
    samples: int = 32
    places: int = 4
    lattice: int = 4
    views: int = 8

    name: ClassVar[str] = "locality"

    def __post_init__(self) -> None:
        if self.samples < 2 or self.places < 2 or not self.levels:
            raise ValueError(f"locality needs levels, 2 samples and 2 places or more; got {self}")

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Add noise to true renders, and measure what the denoised images depend on."""
        world, encode = scenes_with_places(self.name, subject.training)
        scenes = far_apart(world, self.places, self.samples, subject.device)
        condition, ablations = ablated(scenes, encode, generator)
        image = subject.training.view(world.image(scenes))
        gauge = Gauge(self.lattice, 512 if subject.device.type == "cuda" else 16)
        found: dict[float, LevelInfluence] = {}
        for level in self.levels:
            x, sigma = noisy(image, level, generator)
            call = (subject.precise, x, sigma, condition, ablations, gauge)
            of = (x, sigma, condition, ablations.without, torch.tensor(astuple(gauge)))
            made = subject.keep(of, partial(packed_influence, *call))
            found[level] = LevelInfluence.unpacked(made)
            subject.watch(float(len(found) * self.samples), len(self.levels) * self.samples)
        first = torch.zeros(self.views, dtype=torch.long, device=subject.device)
        arrays = {"locality_places": ablations.place[0].float().cpu()}
        for level in self._shown:
            view = noisy(image[first], level, generator)
            shown = (*view, condition[first], ablations[first])
            arrays |= maps(level, subject.precise, *shown)
        return replace(gathered(found), arrays=arrays)

    @property
    def _shown(self) -> list[float]:
        """A low, a middle and a high level."""
        last = len(self.levels) - 1
        return [self.levels[at] for at in sorted({last // 4, (last + 1) // 2, last - last // 8})]

    @property
    def size(self) -> int:
        """About how many times an image goes through the denoiser, or back through it."""
        of_each = 1 + 8 * self.places + 6 * self.lattice**2
        return len(self.levels) * self.samples * of_each + 3 * self.views * 7 * self.places

    def quick(self) -> "Locality":
        """Return the same measurement at every other level, on fewer scenes and pixels."""
        few = {"samples": 6, "lattice": 2, "views": 2}
        least = {name: min(value, getattr(self, name)) for name, value in few.items()}
        return replace(self, levels=self.levels[::-2][::-1], **least)

    def tiny(self) -> "Locality":
        """Return the same measurement at the highest level, of two places in two scenes."""
        return replace(self, levels=self.levels[-1:], samples=2, places=2, lattice=0, views=1)


def packed_influence(*call: Any) -> Made:
    """Return the influences at one noise level as tensors, to be kept."""
    return level_influence(*call).packed


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
        scenes = crowd.scenes(torch.arange(start, start + 4 * samples, device=device), SEED)
        place, present = Grid(CELLS).requested(places(scenes)[0], scenes.present)
        away = gaps(place, place) + 2 * torch.eye(objects, device=device)
        kept.append(scenes[present.all(dim=1) & (away > RADIUS).all(dim=2).all(dim=1)])
        if sum(map(len, kept)) >= samples:
            return concatenate(kept)[:samples]
    raise ValueError(f"too few scenes of {world} have {objects} objects that far apart")


def gaps(
    place: Float[Tensor, "batch object 2"], other: Float[Tensor, "batch thing 2"]
) -> Float[Tensor, "batch object thing"]:
    """Return how far places are apart, down or across, whichever is more."""
    return (place[:, :, None] - other[:, None]).abs().amax(dim=-1)


def ablated(
    scenes: Scenes, encode: EncodesPlaces, generator: torch.Generator
) -> tuple[Tensor, Ablations]:
    """Return the condition, and what it is without each object and with each moved."""
    place, present = places(scenes)[0], scenes.present
    written, _ = encode.requested(place, present)
    target = elsewhere(written, generator)
    without, moved = [], []
    for index in range(place.shape[1]):
        fewer, changed = present.clone(), place.clone()
        fewer[:, index], changed[:, index] = False, target
        without.append(encode.at(place, fewer))
        moved.append(encode.at(changed, present))
    ablations = Ablations(written, torch.stack(without), torch.stack(moved))
    return encode.at(place, present), ablations


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


def maps(
    level: float, denoiser: Denoiser, x: Tensor, sigma: Tensor, condition: Tensor, of: Ablations
) -> dict[str, Tensor]:
    """Return for each requested place the influence of pixels and of objects on it."""
    height, width = x.shape[2:]
    pixels = pixels_at(of.place, height, width)
    own = distances(pixels, height, width) <= round(OWN * min(height, width))
    call = (denoiser, x, sigma, condition)
    objects = at_places(object_influence(*call, of.without), own).mean(dim=0)
    share = objects / objects.sum(dim=1, keepdim=True).clamp(min=1e-30)
    influence = pixel_influence(*call, pixels).mean(dim=0)
    return {
        f"locality_map@{level:.3g}": heat_maps(influence),
        f"locality_objects@{level:.3g}": share.cpu().half(),
    }


def heat_maps(influence: Float[Tensor, "place height width"]) -> UInt8[Tensor, "place row column"]:
    """Return small heat maps of whole numbers; in each the largest is 255."""
    small = torch.nn.functional.adaptive_max_pool2d(influence, MAP)
    largest = small.amax(dim=(1, 2), keepdim=True).clamp(min=1e-30)
    return (255 * small / largest).round().byte().cpu()
