"""A denoiser that says of each noisy vector which code it was: continuous noise, discrete answers.

After continuous diffusion for categorical data (Dieleman et al. 2022); here vectors are those of a
codebook and do not learn. The denoised vector is the mean over codes, so the sampler is that of any
denoiser, and the loss may be of the code or of the mean.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import check_call, per_image, quarter_log
from recombine.models.blocks import closeness, zeroed
from recombine.models.dit import DiT
from recombine.models.heads import Codebook


@dataclass(frozen=True)
class Votes:
    """A transformer that gives each code of a book a vote for every noisy vector.

    Votes are added to what the noisy vector itself says by Bayes' rule. So the network has only to
    tell how likely codes are given all else; with nothing to tell, the answer is exact for vectors
    that are drawn from the book evenly, each by itself.
    """

    of: DiT
    book: Codebook

    def __post_init__(self) -> None:
        if self.of.patch != 1:
            raise ValueError(f"codes are voted on one by one, a patch of 1; got {self.of.patch}")

    def build(self) -> "Voter":
        """Return the network with fresh weights."""
        return Voter(self)


class Voter(nn.Module):
    """The weights of a `Votes`: a denoiser as it is."""

    def __init__(self, of: Votes) -> None:
        super().__init__()
        vectors = of.book.vectors()
        if vectors.shape[1] != of.of.channels:
            raise ValueError(
                f"the codes have {vectors.shape[1]} numbers each; "
                f"the network reads vectors of {of.of.channels}"
            )
        self.of = of.of
        self.register_buffer("vectors", vectors, persistent=False)
        self.vectors: Tensor
        self.network = of.of.build()
        self.network.outlet = nn.Identity()
        self.outlet = zeroed(nn.Linear(of.of.width, len(vectors)))

    def forward(
        self,
        x: Float[Tensor, "batch latent row column"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
        clean: Float[Tensor, "batch latent row column"] | None = None,
    ) -> Float[Tensor, " batch *answer"]:
        """Return the guess; given the `clean` vectors, how many nats their codes come unexpected.

        Both in one call: wrapped networks (DDP, autocast) have no other way in.
        """
        check_call(x, sigma, condition)
        level = per_image(sigma, x)
        hidden = self.network(x / (level**2 + 1).sqrt(), quarter_log(sigma), condition)
        # At low noise the difference of two codes is many times what mixed precision tells apart.
        with torch.autocast(x.device.type, enabled=False):
            votes = self.outlet(hidden.movedim(1, -1).to(self.vectors.dtype))
            near = self._near(x)
            # What is nearest counts 0, so that the others keep their digits.
            near = near - near.amax(-1, keepdim=True)
            logits = votes + near / level**2
            if clean is not None:
                ids = self._near(clean).argmax(-1)
                return F.cross_entropy(logits.movedim(-1, 1), ids, reduction="none")
            denoised = (logits.softmax(-1) @ self.vectors).movedim(-1, 1)
        return denoised.to(x.dtype)

    def _near(self, x: Tensor) -> Float[Tensor, "batch row column code"]:
        return closeness(x.movedim(1, -1).to(self.vectors.dtype), self.vectors)
