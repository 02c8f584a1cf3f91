"""How far two sets of images are apart, by their features: two distances between laws.

The features are given, one row per image, for example `ProbeModule.features`. Numbers compare only
under the same features: the FID and KID of papers look through Inception.
"""

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.measurement import Interval, Measurement

BLOCK = 1024
"""Rows compared at a time: a table of all pairs of large sets would not fit into memory."""
ROUNDING = 1e-12
"""Squared distances below this share of the squared lengths are rounding."""


def distances(
    drawn: Float[Tensor, "drawn _feature"], true: Float[Tensor, "true _other"]
) -> dict[str, Measurement]:
    """Return both distances of drawn images from true ones; n counts the images of both sets."""
    far = frechet(drawn, true)
    return {
        "kernel_distance": kernel_distance(drawn, true),
        "frechet_distance": Measurement(far, None, None, n=len(drawn) + len(true)),
    }


def frechet(a: Float[Tensor, "first _feature"], b: Float[Tensor, "second _other"]) -> float:
    """Return the squared Frechet distance of the normal laws fitted to two sets of features.

    |m - n|^2 + tr(A + B - 2 sqrt(sqrt(A) B sqrt(A))) for means m, n and covariances A, B: FID's
    formula (Heusel et al. 2017). Few images make it too large, even for equal laws: errors of the
    means add tr(A) and tr(B) over the numbers of images, and the root is concave in A and in B, so
    that errors of the covariances can only lower its mean (Jensen). The excess falls as one over
    the number of images, which should be many times the number of features; with fewer than
    features the covariances lack whole directions. Compare only sets of the same size.
    """
    a, b = _checked(a, b)
    one, other = _covariance_root(a), _covariance_root(b)
    # Roots of the eigenvalues of sqrt(A) B sqrt(A), without the digits that a matrix root loses.
    shared = torch.linalg.svdvals(one @ other.mT).sum()
    spread = one.square().sum() + other.square().sum() - 2 * shared
    return max(float((a.mean(dim=0) - b.mean(dim=0)).square().sum() + spread), 0.0)


def _covariance_root(rows: Float[Tensor, "row feature"]) -> Float[Tensor, "_rank feature"]:
    """Return R with R^T R the unbiased covariance."""
    return torch.linalg.qr(rows - rows.mean(dim=0), mode="r").R / sqrt(len(rows) - 1)


def kernel_distance(
    a: Float[Tensor, "first _feature"], b: Float[Tensor, "second _other"]
) -> Measurement:
    """Return the unbiased squared maximum mean discrepancy with the kernel of KID.

    The kernel is (x.y / width + 1)^3 (Binkowski et al. 2018), over all pairs of images. For equal
    laws the mean is 0, so that the value may be negative. n counts the images of both sets.
    """
    a, b = _checked(a, b)
    (pull, noise, size), (other_pull, other_noise, other_size) = _side(a, b), _side(b, a)
    squared = max(float(pull.mean() + other_pull.mean()), 0.0)
    noise = max(noise + other_noise, 0.0)
    # Where the means coincide there is no direction; none is noisier than all of them together.
    variance = noise
    if squared > ROUNDING * (size + other_size):
        variance = float(pull.var() / len(a) + other_pull.var() / len(b)) / squared
    low, high = _interval(squared, noise, variance, freedom=min(len(a), len(b)) - 1)
    return Measurement(squared - noise, low, high, n=len(a) + len(b))


def _side(
    mine: Float[Tensor, "mine feature"], theirs: Float[Tensor, "theirs feature"]
) -> tuple[Float[Tensor, " mine"], float, float]:
    """Return what one set adds: pull of each image, noise of the mean, squared length of the mean.

    The kernel is an inner product of lifted images. The pull is that with the difference of the two
    sets' means, whose squared length is the sum of both mean pulls: too large by the noise.
    """
    own = _kernel_mean(mine, mine)
    alone = _kernel(mine.square().sum(dim=1), mine.shape[1])
    noise = (alone.mean() - own.mean()) / (len(mine) - 1)
    return own - _kernel_mean(mine, theirs), float(noise), float(own.mean())


def _kernel_mean(
    mine: Float[Tensor, "mine feature"], theirs: Float[Tensor, "theirs feature"]
) -> Float[Tensor, " mine"]:
    """Return the mean of the kernel of each image of mine with all of theirs."""
    width = mine.shape[1]
    means = [_kernel(rows @ theirs.mT, width).mean(dim=1) for rows in mine.split(BLOCK)]
    return torch.cat(means)


def _kernel(product: Float[Tensor, "*any"], width: int) -> Float[Tensor, "*any"]:
    return (product / width + 1) ** 3


def _interval(squared: float, noise: float, variance: float, freedom: int) -> Interval:
    """Return the 95 % interval: Student's for the length, then squared, less the noise.

    The error of a squared length grows with the length, and vanishes with it: an interval around
    the square itself (the plain jackknife) misses small distances too often.
    """
    from scipy import stats  # here, as it takes a second to import

    length, reach = sqrt(squared), float(stats.t.ppf(0.975, freedom)) * sqrt(variance)
    return max(length - reach, 0.0) ** 2 - noise, (length + reach) ** 2 - noise


def _checked(
    a: Tensor, b: Tensor
) -> tuple[Float[Tensor, "first feature"], Float[Tensor, "second feature"]]:
    """Return both sets in float64, or say why they cannot be compared."""
    for rows in (a, b):
        if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 1:
            shape = tuple(rows.shape)
            raise ValueError(f"features are 2 rows or more of 1 number or more; got {shape}")
        if not rows.isfinite().all():
            value = rows[~rows.isfinite()][0].item()
            raise ValueError(f"features are finite numbers; got {value}")
    if a.shape[1] != b.shape[1]:
        widths = f"{a.shape[1]} and {b.shape[1]}"
        raise ValueError(f"both sets have the same features; got {widths} per image")
    return a.detach().double(), b.detach().double()
