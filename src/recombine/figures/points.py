"""Figure: on tokenizers of what is seen, who composes, and what do points change?

Reads the records of experiments/points.py, still.py and jitter.py, and where places vary those of
objective.py and jepa.py; rows and marks are as in masking.svg.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.masking import Panels, drawn
from recombine.report.record import Record

BESIDES = ("still", "jitter", "objective", "jepa")
PANELS: Panels = {
    "8 layers": {
        "DiT on latents, by adaLN": "still:kl_seen",
        "DiT on codes, by adaLN": "still:vq_seen",
        "MAR, by tokens": "still:mar_seen",
        "GIVT, by tokens": "still:givt_seen",
        "GIVT with one Gaussian, by tokens": "points:one_gaussian",
        "MaskGIT, by tokens": "still:maskgit_seen",
        "MaskGIT + JEPA, by tokens": "still:with_jepa_seen",
        "MaskGIT, by adaLN": "still:steered_seen",
        "MaskGIT of points, by tokens": "points:base",
        "MaskGIT of points + JEPA, by tokens": "points:with_jepa",
        "MaskGIT of points, by adaLN": "points:steered",
        "MaskGIT of points + JEPA, by adaLN": "points:jepa_steered",
    },
    "small networks": {
        "DiT on latents, by adaLN": "jitter:kl_still_seen_small",
        "DiT on codes, by adaLN": "jitter:vq_still_seen_small",
        "MAR, by tokens": "jitter:mar_still_seen_small",
        "GIVT, by tokens": "jitter:givt_still_seen_small",
        "GIVT with one Gaussian, by tokens": "points:one_gaussian_small",
        "MaskGIT, by tokens": "jitter:maskgit_still_seen_small",
        "MaskGIT + JEPA, by tokens": "jitter:jepa_still_seen_small",
        "MaskGIT, by adaLN": "jitter:steered_still_seen_small",
        "MaskGIT of points, by tokens": "points:near_small",
        "MaskGIT of points, by adaLN": "points:steered_small",
        "MaskGIT of points, squared error, by adaLN": "points:squared_small",
    },
    "small, places vary": {
        "DiT on codes, by adaLN": "objective:dit_vq_small",
        "MaskGIT, by tokens": "objective:maskgit_small",
        "MaskGIT + JEPA, by tokens": "jepa:small",
        "MaskGIT, by adaLN": "objective:maskgit_steered_small",
        "MaskGIT of points, by tokens": "points:near_moving_small",
        "MaskGIT of points + JEPA, by tokens": "points:jepa_moving_small",
    },
}


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel for each size of network, and one where places vary."""
    return drawn(records, PANELS)
