"""Figure: what decides whether small models compose, how they are told or what they learn by?

Reads the records of experiments/objective.py and tokenizer.py. A row is a model that is told by
tokens or by adaLN; a panel is what its tokenizer has learned from. Marks are as in jepa.svg.
"""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures.jepa import legend, row
from recombine.report.record import Record
from recombine.report.table import variant

BESIDES = ("objective", "tokenizer")
WAYS = ("by tokens", "by adaLN")
SEEN = {
    "MaskGIT": ("maskgit_small", "maskgit_steered_small"),
    "DiT on codes": ("dit_vq_tokens_small", "dit_vq_small"),
    "DiT on latents": ("dit_kl_tokens_small", "dit_kl_small"),
    "MAR": ("mar_small", "mar_steered_small"),
    "GIVT": ("givt_small", "givt_steered_small"),
}
EVERY = {
    "MaskGIT": ("maskgit_all_small", "maskgit_steered_all_small"),
    "DiT on codes": ("vq_tokens_all_small", "vq_all_small"),
    "DiT on latents": ("kl_tokens_all_small", "kl_all_small"),
    "MAR": ("mar_all_small", "mar_steered_all_small"),
    "GIVT": ("givt_all_small", "givt_steered_all_small"),
}
PANELS = {"tokenizer of what is seen": SEEN, "tokenizer of every composition": EVERY}
"""The variants of each model, in the order of WAYS."""


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel for each kind of tokenizer, with the same rows."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(variant(record), []).append(record)
    figure = Figure(figsize=(9.5, 6.2), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (title, models) in zip(panels, PANELS.items(), strict=True):
        _panel(axes, title, models, runs)
    names = [f"{model}, {way}" for model in SEEN for way in WAYS]
    panels[0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(handles=legend(), ncols=4, loc="outside lower center", frameon=False, fontsize=8)
    return figure


def _panel(
    axes: Axes,
    title: str,
    models: Mapping[str, Sequence[str]],
    runs: Mapping[str, Sequence[Record]],
) -> None:
    for at, name in enumerate(each for pair in models.values() for each in pair):
        row(axes, at, runs.get(name, ()))
        if at % len(WAYS) == 0 and at:
            axes.axhline(at - 0.5, color="0.5", linewidth=0.8)
    axes.set_xlim(-0.03, 1.03)
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlabel("drawn as asked, two factors away: late mean", fontsize=8)
    axes.tick_params(labelsize=8, length=2)
    axes.spines[["top", "right"]].set_visible(False)
