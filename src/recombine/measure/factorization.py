"""Does a score factorize into blocks, each depending on its own pixels and condition alone?

Local conditional scores (Bradley 2025, arXiv 2509.16447) are checked here as an equality: under a
condition on some blocks, the score of such a block is that of the block alone given its own
condition alone, and the score of all other pixels is their unconditional one. To "depend only on"
these is weaker: a block may then also depend on how many others are conditioned on. Any score can
be checked, exact or learned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from recombine.denoiser import check_answer, check_call, per_image

Score: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x, sigma, condition) -> gradient of the log density of noisy images."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Disjoint sets of pixels; entry j of a condition is that of block j, zeros for none.

    Pixels are counted as an image is flattened. Those of no block are always background; those
    of a block are while it has no condition.
    """

    pixels: Bool[Tensor, "block pixel"]

    def __post_init__(self) -> None:
        shared = (self.pixels.sum(dim=0) > 1).nonzero().flatten().tolist()
        if shared:
            raise ValueError(f"blocks share no pixel; these are in several: {shared[:8]}")
        empty = (~self.pixels.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"every block has a pixel; these have none: {empty[:8]}")

    def conditioned(
        self, condition: Shaped[Tensor, " batch block *value"]
    ) -> Bool[Tensor, "batch block"]:
        """Return which blocks have a condition."""
        return (condition != 0).flatten(2).any(dim=2) if condition.dim() > 2 else condition != 0

    def part(
        self, condition: Shaped[Tensor, " batch block *value"]
    ) -> Shaped[Tensor, "batch pixel"]:
        """Return the part of each pixel: 0 is the background, j + 1 is the conditioned block j."""
        number = torch.arange(1, len(self.pixels) + 1, device=condition.device)
        part = self.conditioned(condition) * number
        return (part[:, :, None] * self.pixels.to(condition.device)).sum(dim=1)

    def near(
        self, condition: Shaped[Tensor, " batch block *value"]
    ) -> Bool[Tensor, "batch pixel pixel"]:
        """Return which pixels each pixel may depend on: those of its part."""
        part = self.part(condition)
        return part[:, :, None] == part[:, None]


def composed(
    score: Score,
    blocks: Blocks,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch block *value"],
) -> Float[Tensor, " batch *image"]:
    """Return the score put together from the same model conditioned on each block alone, or none.

    Where local scores hold this is the model's own score; nothing but the model is needed.
    """
    part = blocks.part(condition)
    found = score(x, sigma, torch.zeros_like(condition)).flatten(1)
    for block in blocks.conditioned(condition).any(dim=0).nonzero().flatten().tolist():
        kept = torch.zeros_like(condition)
        kept[:, block] = condition[:, block]
        found = torch.where(part == block + 1, score(x, sigma, kept).flatten(1), found)
    return found.reshape(x.shape)


def score_of_features(
    score: Score,
    to_features: Float[Tensor, "feature pixel"],
    z: Float[Tensor, "batch feature"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch feature"]:
    """Return the score of z = A x, out of the score of x; the noise stays that of x.

    In features the noise has the covariance sigma^2 A A^T: isotropic for orthogonal A only.
    """
    back = torch.linalg.inv(to_features).to(z)
    return score(z @ back.mT, sigma, condition) @ back


@dataclass(frozen=True, eq=False)
class Factorization:
    """How far a score is from local, per image; all are 0 where it is.

    `gap`: the largest distance, over pixels, of the denoised image to the local one (in the units
    of pixels: unlike a score's, it need not shrink with noise). `coupling`: the share of the
    denoised image's Jacobian that joins different parts. `leak`: the largest change of a denoised
    pixel when the condition of a block other than its own is removed; `own`: the same for its own.
    """

    gap: Float[Tensor, " batch"]
    coupling: Float[Tensor, " batch"]
    leak: Float[Tensor, " batch"]
    own: Float[Tensor, " batch"]


def factorization(
    score: Score,
    blocks: Blocks,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch block *value"],
    local: Score | None = None,
) -> Factorization:
    """Measure all of them; `local` is the exact local score where it is known."""
    check_call(x, sigma, condition)
    gap = local_gap(score, local or partial(composed, score, blocks), x, sigma, condition)
    leak, own = condition_leak(score, blocks, x, sigma, condition)
    jacobian = denoised_jacobian(score, x, sigma, condition)
    joined = coupling(jacobian, blocks.near(condition))
    return Factorization(gap.amax(dim=1), joined, leak, own)


def local_gap(
    score: Score,
    local: Score,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch pixel"]:
    """Return the distance of two denoised images, sigma^2 |s - s_local|."""
    apart = score(x, sigma, condition) - local(x, sigma, condition)
    return (per_image(sigma, x) ** 2 * apart).abs().flatten(1)


def condition_leak(
    score: Score,
    blocks: Blocks,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch block *value"],
    changed: Shaped[Tensor, " batch block *value"] | None = None,
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """Return the largest change of a denoised pixel outside the changed block, and inside it.

    One conditioned block at a time has its condition from `changed`, or none any more.
    """
    before, known = score(x, sigma, condition), blocks.conditioned(condition)
    outside, inside = x.new_zeros(len(x)), x.new_zeros(len(x))
    for block in known.any(dim=0).nonzero().flatten().tolist():
        other = condition.clone()
        other[:, block] = 0 if changed is None else changed[:, block]
        change = (per_image(sigma, x) ** 2 * (score(x, sigma, other) - before)).abs().flatten(1)
        change, mine = change * known[:, block, None], blocks.pixels[block].to(x.device)
        outside = torch.maximum(outside, (change * ~mine).amax(dim=1))
        inside = torch.maximum(inside, (change * mine).amax(dim=1))
    return outside, inside


def score_jacobian(
    score: Score,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch pixel pixel"]:
    """Return d score / d x, one backward pass per pixel: for images of few pixels."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        answer = score(leaf, sigma, condition)
        check_answer(answer, x)
        if not answer.requires_grad:
            raise ValueError("the score has no gradient: torch finds no way from it back to x")
        # Images of a batch do not depend on each other, so their gradients can be added.
        outputs = answer.flatten(1).sum(dim=0)
        rows = [torch.autograd.grad(each, leaf, retain_graph=True)[0] for each in outputs]
    return torch.stack([row.flatten(1) for row in rows], dim=1)


def denoised_jacobian(
    score: Score,
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch pixel pixel"]:
    """Return d denoised / d x; of the score, the term -x / sigma^2 would fake locality."""
    inner = score_jacobian(score, x, sigma, condition)
    eye = torch.eye(inner.shape[1]).to(inner)
    return eye + per_image(sigma, inner) ** 2 * inner


def coupling(
    jacobian: Float[Tensor, "batch pixel pixel"],
    near: Bool[Tensor, "batch pixel pixel"] | Bool[Tensor, "pixel pixel"],
) -> Float[Tensor, " batch"]:
    """Return the share of a Jacobian (by its Frobenius norm) that joins pixels not near."""
    whole = torch.linalg.matrix_norm(jacobian)
    far = torch.linalg.matrix_norm(jacobian * ~near)
    return torch.where(whole > 0, far / whole, 0)


def cosines(
    conditional: Float[Tensor, "block feature"], unconditional: Float[Tensor, " feature"]
) -> Float[Tensor, "block block"]:
    """Return the cosines of what each condition alone adds to the mean.

    Lemma 2 of Bradley 2025: scores that are local in these features make them 0; they can be 0
    without it.
    """
    moved = torch.nn.functional.normalize(conditional - unconditional, dim=1)
    return moved @ moved.mT
