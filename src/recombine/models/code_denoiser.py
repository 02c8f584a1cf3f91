"""A denoiser with a logit for every code: continuous noise, discrete outputs.

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
class CodeDenoiser:
    """A transformer with a logit for each code of a book at every noisy vector.

    Its logits are added to the likelihood of the noisy vector under each code (Bayes' rule). So the
    network has only to predict how likely codes are given all else; with nothing to predict from,
    the result is exact for vectors that are drawn from the book evenly and independently.
    """

    of: DiT
    book: Codebook

    def __post_init__(self) -> None:
        if self.of.patch != 1:
            raise ValueError(f"codes are predicted one by one, a patch of 1; got {self.of.patch}")

    def build(self) -> "CodeDenoiserModule":
        """Return the network with fresh weights."""
        return CodeDenoiserModule(self)


class CodeDenoiserModule(nn.Module):
    """The weights of a `CodeDenoiser`."""

    denoises = True
    """It takes x and sigma as they are, and is not to be preconditioned."""

    def __init__(self, of: CodeDenoiser) -> None:
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
        condition: Shaped[Tensor, " batch *condition"],
        clean: Float[Tensor, "batch latent row column"] | None = None,
    ) -> Float[Tensor, " batch *output"]:
        """Return the denoised vectors; given the `clean` ones, the cross-entropy of their codes.

        Both in one call: wrapped networks (DDP, autocast) have no other way in.
        """
        check_call(x, sigma, condition)
        level = per_image(sigma, x)
        hidden = self.network(x / (level**2 + 1).sqrt(), quarter_log(sigma), condition)
        # At low noise two codes differ by many times the resolution of mixed precision.
        with torch.autocast(x.device.type, enabled=False):
            prior = self.outlet(hidden.movedim(1, -1).to(self.vectors.dtype))
            close = self._closeness(x)
            # The nearest code gets 0, so that the others keep their digits.
            close = close - close.amax(-1, keepdim=True)
            logits = prior + close / level**2
            if clean is not None:
                ids = self._closeness(clean).argmax(-1)
                return F.cross_entropy(logits.movedim(-1, 1), ids, reduction="none")
            denoised = (logits.softmax(-1) @ self.vectors).movedim(-1, 1)
        return denoised.to(x.dtype)

    def _closeness(self, x: Tensor) -> Float[Tensor, "batch row column code"]:
        return closeness(x.movedim(1, -1).to(self.vectors.dtype), self.vectors)
