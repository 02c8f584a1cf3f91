"""Figure: the learned score points where the exact one does, wherever the law has mass.

Arrows are scores at one noise level, a panel a cell of the study toy.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from recombine.figures import plain
from recombine.report.queries import finals
from recombine.report.seeds import summarised
from recombine.report.table import interval

WORDS = {"denoising": "predicts the image", "noise_prediction": "predicts the noise"}


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw one panel per run that kept its scores, the learned arrows over the exact ones."""
    runs = [name.removesuffix("/place") for name in arrays if name.endswith("/place")]
    shown = min(len(runs), 12)
    figure = Figure(figsize=(4.2 * max(shown, 1), 4.6), layout="constrained")
    panels = figure.subplots(1, max(shown, 1), squeeze=False)[0]
    for axes, run in zip(panels, runs, strict=False):
        across, up = arrays[f"{run}/place"].T
        for name, colour, width in (("exact", "0.7", 0.012), ("learned", "#0072B2", 0.004)):
            right, above = arrays[f"{run}/{name}_score"].T
            axes.quiver(across, up, right, above, color=colour, width=width, scale=250, label=name)
        cell, _, seed = run.partition("/seed")
        rows = finals(table)
        mine = rows[(rows["cell"] == cell) & (rows["seed"] == int(seed))]
        error = summarised(mine[mine["measurement"] == "relative_error"])
        words = interval(error.value, error.low, error.high)
        axes.set_title(f"network {WORDS.get(cell, cell)}\nrelative error {words}", fontsize=9)
        axes.set_aspect("equal")
        plain(axes)
    if runs:
        handles, labels = panels[0].get_legend_handles_labels()
        scores = [f"{label} score" for label in labels]
        figure.legend(handles, scores, loc="outside lower center", ncols=2, frameon=False)
    return figure
