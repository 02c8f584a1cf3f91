"""Figure: where shapes stand still, who composes? Models that see all tokens, and masked ones.

Reads the records of experiments/still.py and jitter.py. A row is a model and how it is told, above
the line those that see all tokens at once; marks are as in jepa.svg.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures.jepa import legend, row
from recombine.figures.objective import experiment
from recombine.report.record import Record
from recombine.report.table import variant

BESIDES = ("still", "jitter")
WHOLE = "DiT"
"""What the names of models begin with that see all tokens at once."""
Panels: TypeAlias = Mapping[str, Mapping[str, str]]
"""The rows of each panel: what is said of a model, and the runs it is about."""
PANELS: Panels = {
    "8 layers": {
        "DiT on latents, by adaLN": "still:kl",
        "DiT on codes, by adaLN": "still:vq",
        "MAR, by tokens": "still:mar",
        "GIVT, by tokens": "still:givt",
        "GIVT, by adaLN": "still:givt_steered",
        "MaskGIT, by tokens": "still:maskgit",
        "MaskGIT, by adaLN": "still:steered",
        "MaskGIT + JEPA, by tokens": "still:with_jepa",
        "MaskGIT + JEPA, by adaLN": "still:jepa_steered",
    },
    "small networks": {
        "DiT on latents, by adaLN": "jitter:kl_still_small",
        "DiT on codes, by adaLN": "jitter:vq_still_small",
        "DiT on codes, by tokens": "jitter:tokens_still_small",
        "GIVT, by adaLN": "jitter:givt_steered_still_small",
        "MaskGIT, by tokens": "jitter:maskgit_still_small",
        "MaskGIT, by adaLN": "jitter:steered_still_small",
    },
}


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel for each size of network."""
    return drawn(records, PANELS)


def drawn(records: Sequence[Record], models: Panels) -> Figure:
    """Draw panels, a row for each model."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(f"{experiment(record)}:{variant(record)}", []).append(record)
    heights = [len(rows) for rows in models.values()]
    figure = Figure(figsize=(7.5, 0.38 * sum(heights) + 0.9), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[
        :, 0
    ]
    for axes, (title, rows) in zip(panels, models.items(), strict=True):
        _panel(axes, title, rows, runs)
    panels[-1].set_xlabel("drawn as asked, two factors away from what was seen: late mean")
    panels[-1].xaxis.label.set_size(8)
    figure.legend(handles=legend(), ncols=4, loc="outside lower center", frameon=False, fontsize=8)
    return figure


def _panel(
    axes: Axes, title: str, rows: Mapping[str, str], runs: Mapping[str, Sequence[Record]]
) -> None:
    for at, name in enumerate(rows.values()):
        row(axes, at, runs.get(name, ()))
    whole = sum(name.startswith(WHOLE) for name in rows)
    axes.axhline(whole - 0.5, color="0.3", linewidth=1)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.set_title(
        f"{title}: above the line all tokens are seen, below some", loc="left", fontsize=9
    )
    axes.tick_params(labelsize=8, length=2)
    axes.spines[["top", "right"]].set_visible(False)
