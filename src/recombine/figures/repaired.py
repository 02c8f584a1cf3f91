"""Figure: what repairs MaskGIT, and does it repair GIVT and MAR? On tokenizers of what is seen.

Reads the records of experiments/points.py, still.py and jitter.py, and where places vary those of
objective.py and jepa.py; rows and marks are as in masking.svg. All but those told by tokens are
told by adaLN. MAR and GIVT are on latents.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.masking import Panels, drawn
from recombine.report.record import Record

BESIDES = ("points", "still", "jitter", "objective", "jepa")
PANELS: Panels = {
    "8 layers": {
        "DiT, by squared error": "still:vq_seen",
        "MaskGIT, by cross-entropy, by tokens": "still:maskgit_seen",
        "MaskGIT + JEPA, by cross-entropy, by tokens": "still:with_jepa_seen",
        "MaskGIT, by cross-entropy": "still:steered_seen",
        "MaskGIT of points, by cross-entropy": "points:steered",
        "MaskGIT of points + JEPA, by cross-entropy": "points:jepa_steered",
        "MaskGIT of points, by squared error": "points:squared",
        "MaskGIT of points + JEPA, by squared error": "points:squared_jepa",
        "GIVT, by likelihood, by tokens": "still:givt_seen",
        "GIVT, by likelihood": "still:givt_steered_seen",
        "GIVT with one Gaussian, by squared error": "points:givt_squared",
        "MAR, by squared error, by tokens": "still:mar_seen",
        "MAR, by squared error": "still:mar_steered_seen",
        "MAR, by squared error, most tokens hidden": "still:mar_most_seen",
    },
    "small networks": {
        "DiT, by squared error": "jitter:vq_still_seen_small",
        "MaskGIT, by cross-entropy, by tokens": "jitter:maskgit_still_seen_small",
        "MaskGIT, by cross-entropy": "jitter:steered_still_seen_small",
        "MaskGIT of points, by cross-entropy": "points:steered_small",
        "MaskGIT of points + JEPA, by cross-entropy": "points:jepa_steered_small",
        "MaskGIT of points, by squared error": "points:squared_small",
        "MaskGIT of points + JEPA, by squared error": "points:squared_jepa_small",
        "GIVT, by likelihood, by tokens": "jitter:givt_still_seen_small",
        "GIVT, by likelihood": "jitter:givt_steered_still_seen_small",
        "GIVT with one Gaussian, by likelihood": "points:one_gaussian_steered_small",
        "GIVT with one Gaussian, by squared error": "points:givt_squared_small",
        "GIVT with one Gaussian + JEPA, by squared error": "points:givt_squared_jepa_small",
        "MAR, by squared error, by tokens": "jitter:mar_still_seen_small",
        "MAR + JEPA, by squared error": "jitter:mar_jepa_still_seen_small",
    },
    "small, places vary": {
        "DiT, by squared error": "objective:dit_vq_small",
        "MaskGIT, by cross-entropy, by tokens": "objective:maskgit_small",
        "MaskGIT, by cross-entropy": "objective:maskgit_steered_small",
        "MaskGIT + JEPA, by cross-entropy": "jepa:steered_small",
        "MaskGIT of points + JEPA, by squared error": "points:squared_jepa_moving_small",
    },
}


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel for each size of network, and one where places vary."""
    return drawn(records, PANELS)
