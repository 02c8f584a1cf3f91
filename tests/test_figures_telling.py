"""The figure of how models are told is drawn from records alone, each in its own row."""

import pytest

from recombine.experiments import declared
from recombine.figures import experiments_of
from recombine.figures.jepa import READERS
from recombine.figures.telling import PANELS, SEEN, WAYS, draw
from recombine.measurement import Measurement
from recombine.models.dit import DiT
from recombine.models.entry import Rows
from recombine.models.masked import Masked
from recombine.report.record import Record

PROBE = next(iter(READERS))


def record(name: str, seed: int, value: float) -> Record:
    found = {PROBE: Measurement(value, None, None, 10)}
    return Record("?", f"recombine run {name} --seed {seed}", "x", seed, "cpu", 1.0, found)


def test_a_run_is_in_the_row_of_its_model_and_the_panel_of_its_tokenizer():
    runs = [
        record("objective:maskgit_steered_small", 1, 0.7),
        record("objective:givt_small", 2, 0.2),
        record("tokenizer:vq_all_small", 1, 0.9),
        record("objective:maskgit", 0, 0.8),
    ]
    seen, every = draw(runs).axes
    rows = [label.get_text() for label in seen.get_yticklabels()]
    assert len(rows) == len(SEEN) * len(WAYS)

    def marks(axes) -> dict[str, float]:
        lines = [line for line in axes.lines if line.get_marker() == "o"]
        return {rows[round(line.get_ydata()[0])]: line.get_xdata()[0] for line in lines}

    assert marks(seen) == {"MaskGIT, by adaLN": 0.7, "GIVT, by tokens": 0.2}
    assert marks(every) == {"DiT on codes, by adaLN": 0.9}
    assert experiments_of("telling")[1:] == ("objective", "tokenizer")


@pytest.mark.parametrize("title", PANELS)
def test_variants_are_told_the_way_their_row_says(title: str):
    known = declared()["objective"] | declared()["tokenizer"]
    for pair in PANELS[title].values():
        for way, name in zip(WAYS, pair, strict=True):
            network = known[name].network
            assert isinstance(network, DiT | Masked)
            by_tokens = (
                isinstance(network.entry, Rows) if isinstance(network, DiT) else not network.steered
            )
            assert by_tokens == (way == "by tokens"), name
            assert known[name].view.name.endswith("_all") == ("every" in title), name
