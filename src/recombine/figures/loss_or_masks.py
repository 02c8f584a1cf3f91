"""Figure: on tokenizers of what is seen, all told by adaLN, who composes, by which loss?

Reads the records of experiments/loss_or_masks.py and points.py, and beside them jitter.py, still.py
and objective.py; rows and marks are as in masking.svg. MAR and GIVT are on latents.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.masking import Panels, drawn
from recombine.report.record import Record

BESIDES = ("points", "jitter", "still", "objective")
PANELS: Panels = {
    "shapes stand still": {
        "DiT, by squared error": "jitter:vq_still_seen_small",
        "DiT that names codes, by squared error": "loss_or_masks:squared",
        "DiT that names codes, by squared error, levels alike": "loss_or_masks:squared_even",
        "DiT that names codes, by cross-entropy": "loss_or_masks:named",
        "MaskGIT, by cross-entropy": "jitter:steered_still_seen_small",
        "MaskGIT of points, by cross-entropy": "points:steered_small",
        "MaskGIT of points, by squared error": "points:squared_small",
        "MaskGIT of points + JEPA, by cross-entropy": "points:jepa_steered_small",
        "MaskGIT of points + JEPA, by squared error": "points:squared_jepa_small",
        "GIVT, by likelihood": "jitter:givt_steered_still_seen_small",
        "GIVT with one Gaussian, by likelihood": "points:one_gaussian_steered_small",
        "GIVT with one Gaussian, by squared error": "points:givt_squared_small",
        "MAR, by squared error": "jitter:mar_steered_still_seen_small",
    },
    "shapes stand still, 8 layers": {
        "DiT, by squared error": "still:vq_seen",
        "MaskGIT, by cross-entropy": "still:steered_seen",
        "MaskGIT of points, by cross-entropy": "points:steered",
        "MaskGIT of points + JEPA, by cross-entropy": "points:jepa_steered",
        "MaskGIT of points, by squared error": "points:squared",
        "MaskGIT of points + JEPA, by squared error": "points:squared_jepa",
        "GIVT, by likelihood": "still:givt_steered_seen",
        "GIVT with one Gaussian, by squared error": "points:givt_squared",
        "MAR, by squared error": "still:mar_steered_seen",
        "MAR, by squared error, most tokens hidden": "still:mar_most_seen",
    },
    "places vary": {
        "DiT, by squared error": "objective:dit_vq_small",
        "DiT that names codes, by squared error": "loss_or_masks:squared_moving",
        "DiT that names codes, by cross-entropy": "loss_or_masks:named_moving",
        "MaskGIT, by cross-entropy": "objective:maskgit_steered_small",
        "MaskGIT of points, by squared error": "points:squared_moving_small",
    },
}


def draw(records: Sequence[Record]) -> Figure:
    """Draw panels for shapes that stand still, small networks and 8 layers, and where they vary."""
    return drawn(records, PANELS)
