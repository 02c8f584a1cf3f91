"""Do samples vary inside a composition as true renders do, or has a model collapsed?"""

from jaxtyping import Bool, Float
from torch import Tensor

from recombine.measure.fit import Fitted
from recombine.measurement import Measurement

COLLAPSED = 0.5
"""Samples that spread less than this share of the truth's spread have collapsed."""
LEAST = 1e-3
"""In a world without variation there is no spread to compare with."""


def spreads(samples: Fitted, true: Fitted, of_each: int) -> dict[str, Measurement]:
    """Return the standard deviation of place, size and colour as a share of the truth's.

    Images come in groups of `of_each`, one composition after another; what is not valid is left
    out. Deviations are from the mean of a composition, so differences between compositions do not
    count. The interval is that of Fisher's F; what has no variation to compare with is left out.
    """
    from scipy import stats  # it takes a second to import

    found = {}
    for name in ("place", "size", "colour"):
        (mine, n), (theirs, m) = (_variance(each, name, of_each) for each in (samples, true))
        if not n or not m or theirs < LEAST**2:
            continue
        ratio = (mine / theirs) ** 0.5
        low, high = (float(stats.f.ppf(share, n, m)) ** 0.5 for share in (0.025, 0.975))
        found[f"{name}_spread"] = Measurement(ratio, ratio / high, ratio / low, n)
    return found


def _variance(fitted: Fitted, name: str, of_each: int) -> tuple[float, int]:
    """Return the variance of valid images inside compositions, and its degrees of freedom."""
    value = getattr(fitted, name).log() if name == "size" else getattr(fitted, name)
    groups: Float[Tensor, "composition sample value"]
    groups = value.reshape(-1, of_each, value[0].numel())
    kept: Bool[Tensor, "composition sample 1"] = fitted.valid.reshape(-1, of_each, 1)
    count = kept.sum(dim=1, keepdim=True)
    mean = (groups * kept).sum(dim=1, keepdim=True) / count.clamp(min=1)
    square = float(((groups - mean).square() * kept).sum())
    freedom = int((count - 1).clamp(min=0).sum()) * groups.shape[-1]
    return square / max(freedom, 1), freedom
