"""Could a model that puts no code where it never saw one draw a new composition at all?

    recombine run code_places:all      # ten minutes on one core

A code that a new composition needs was seen, but perhaps not at that place: MaskGIT learns a law of
codes for each place. Counted over true renders; and each such token is replaced by the nearest code
that was seen there, which is read (`within`) beside the renders as the tokenizer has them (`view`):
about the best that a model can do which keeps to what was seen (docs/decisions/019).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from recombine.experiment import Findings, Watched
from recombine.experiments.autoencoder import VQ
from recombine.experiments.objective import Composition
from recombine.experiments.probe import fresh
from recombine.measure.tokenizing import nearest_seen, seen_at, unseen_share
from recombine.measurement import averaged
from recombine.split import BINARY, Split
from recombine.views import Codes, tokenizer
from recombine.worlds.shapes2d import Shapes2D


@dataclass(frozen=True)
class CodePlaces:
    """Compare the codes of `samples` true renders, place by place, with those of many seen ones.

    Renders have numbers, not chances: every seed gives the same answer.
    """

    question: str
    world: Shapes2D = Shapes2D()
    view: Codes = Codes("tokenizer_vq_all", VQ)
    split: Split = BINARY
    renders: int = 16_384
    """Of each seen composition; what is in none of them counts as never seen."""
    samples: int = 256

    headline: ClassVar[tuple[str, ...]] = (
        "unseen_place@level2",
        "accuracy_within@level2",
        "accuracy_view@level2",
    )

    def __post_init__(self) -> None:
        if self.samples < 2 or self.renders % self.samples:
            raise ValueError(
                f"renders are in batches of 2 or more samples; got {self.renders} of {self.samples}"
            )

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Count, replace and read."""
        device, codes = generator.device, self.view.of.codes or 0
        seen = self.seen(device, watch)
        asked = {which: self.ids(which, self.samples, device) for which in self.split.asked}
        anywhere = seen.any(dim=(0, 1)).expand_as(seen)
        found = {}
        for level in self.split.levels:
            here = [asked[which] for which in self.split.at(level)]
            for name, known in (("unseen_place", seen), ("unseen_code", anywhere)):
                found[f"{name}@level{level}"] = averaged([unseen_share(ids, known) for ids in here])
        vectors = tokenizer(self.view.name, self.view.of, device).vectors
        table = vectors(torch.arange(codes, device=device)[None, None])[0, :, 0].T
        within = [nearest_seen(ids, seen, table) for ids in asked.values()]
        images = self.view.back(torch.cat(within)).clamp(0, 1)
        ask = Composition(self.split, samples=self.samples)
        through = self.view.back(torch.cat([*asked.values()])).clamp(0, 1)
        found |= ask.read(images, self.world, "_within") | ask.read(through, self.world, "_view")
        watch(len(self.split.seen) + 1, len(self.split.seen) + 1)
        sheet = {"-".join(which): images[at * self.samples :][:8] for at, which in enumerate(asked)}
        return Findings(found, images=sheet)

    def seen(self, device: torch.device, watch: Watched) -> Tensor:
        """Tell which codes are at which places of many renders of what is seen."""
        side, codes = self.view.of.side, self.view.of.codes or 0
        seen = torch.zeros(side, side, codes, dtype=torch.bool, device=device)
        for done, which in enumerate(self.split.seen, start=1):
            # The first renders are those that are read; what is seen begins after them.
            seen |= seen_at(self.ids(which, self.renders, device, self.samples), codes)
            watch(done, len(self.split.seen) + 1)
        return seen

    def ids(
        self, which: tuple[str, ...], count: int, device: torch.device, first: int = 0
    ) -> Tensor:
        """Return the codes of true renders of a composition."""
        numbers = range(first, first + count, self.samples)
        drawn = (fresh(self.world, which, self.samples, device, first=each) for each in numbers)
        return torch.cat([self.view(images) for images in drawn])

    def tiny(self) -> "CodePlaces":
        """Return the same question with few renders."""
        return replace(self, renders=16, samples=8)


SEEN = Codes("tokenizer_vq", VQ)

moving = CodePlaces("Do seen codes at seen places suffice for new compositions?")
still = CodePlaces("Do they where shapes stand still?", world=Shapes2D().still)
moving_seen = CodePlaces("Do they, with a tokenizer that knows what is seen?", view=SEEN)
still_seen = CodePlaces("And with it, where shapes stand still?", world=Shapes2D().still, view=SEEN)
