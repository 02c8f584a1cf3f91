"""The figure of who composes where shapes stand still: each run in its row, rows as they say."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmarks import still_sheet
from PIL import Image

from recombine.experiments import declared
from recombine.experiments.objective import SHORT
from recombine.experiments.still import TRAINING
from recombine.figures import experiments_of, loss_or_masks, points, repaired
from recombine.figures.jepa import READERS
from recombine.figures.masking import PANELS, WHOLE, Panels, draw
from recombine.measurement import Measurement
from recombine.models.dit import DiT
from recombine.models.entry import Rows
from recombine.models.heads import Apart, Codes, DiffusionHead, Gaussian, Mixture, Near
from recombine.models.masked import Masked
from recombine.models.voter import Votes
from recombine.objectives.codes import CodeDiffusion
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import WithJepa
from recombine.objectives.masked import MaskedDiffusion, MaskedMean, MaskedPoint
from recombine.report.record import Record
from recombine.worlds.shapes2d import Shapes2D

PROBE = next(iter(READERS))


def record(name: str, value: float) -> Record:
    found = {PROBE: Measurement(value, None, None, 10)}
    return Record("?", f"recombine run {name} --seed 1", "x", 1, "cpu", 1.0, found)


def test_a_run_is_in_the_row_of_its_model_and_the_panel_of_its_size():
    runs = [record("still:givt_steered", 0.7), record("jitter:tokens_still_small", 0.2)]
    large, small = draw([*runs, record("jitter:maskgit_still", 0.5)]).axes

    def marks(axes) -> dict[str, float]:
        rows = [label.get_text() for label in axes.get_yticklabels()]
        lines = [line for line in axes.lines if line.get_marker() == "o"]
        return {rows[round(line.get_ydata()[0])]: line.get_xdata()[0] for line in lines}

    assert marks(large) == {"GIVT, by adaLN": 0.7}
    assert marks(small) == {"DiT on codes, by tokens": 0.2}
    assert experiments_of("masking")[1:] == ("still", "jitter")


def test_the_line_parts_what_sees_all_tokens_from_what_is_masked():
    figures = [
        (draw, PANELS),
        *((each.draw, each.PANELS) for each in (points, loss_or_masks, repaired)),
    ]
    drawn = [
        each
        for how, panels in figures
        for each in zip(how([record("still:vq", 1.0)]).axes, panels.values(), strict=True)
    ]
    for axes, rows in drawn:
        whole = [name.startswith(WHOLE) for name in rows]
        assert whole == sorted(whole, reverse=True)
        heights = [line.get_ydata()[0] for line in axes.lines if line.get_color() == "0.3"]
        assert heights == [sum(whole) - 0.5]


@pytest.mark.parametrize(
    ("panels", "seen", "title"),
    [
        (panels, seen, each)
        for panels, seen in ((PANELS, "_all"), (points.PANELS, ""))
        for each in panels
    ],
)
def test_variants_are_what_their_row_says(panels: Panels, seen: str, title: str):
    known = declared()
    for words, name in panels[title].items():
        family, variant = name.split(":")
        experiment = known[family][variant]
        network = experiment.network
        assert isinstance(network, DiT | Masked)
        assert isinstance(experiment.world, Shapes2D)
        still = experiment.world == experiment.world.still
        assert still == ("places vary" not in title)
        assert isinstance(network, DiT) == words.startswith(WHOLE)
        by_tokens = (
            isinstance(network.entry, Rows) if isinstance(network, DiT) else not network.steered
        )
        assert by_tokens == words.endswith("by tokens"), name
        assert ("JEPA" in words) == isinstance(experiment.objective, WithJepa)
        if isinstance(network, Masked):
            heads = {"MaskGIT": Codes, "GIVT": Mixture, "MAR": DiffusionHead}
            aimed = Apart if "squared error" in words else Near
            head = aimed if "of points" in words else heads[words.split(",")[0].split()[0]]
            assert isinstance(network.head, head)
            components = network.head.components if isinstance(network.head, Mixture) else 0
            assert (components == 1) == ("one Gaussian" in words)
        codes = "codes" in words or "MaskGIT" in words
        assert experiment.view.name == f"tokenizer_{'vq' if codes else 'kl'}{seen}"
        assert (network.layers == 8) == ("8" in title)


def test_a_run_of_another_length_is_in_no_row():
    (large, _) = draw([record("still:kl --steps 20", 0.5)]).axes
    assert not any(line.get_marker() == "o" for line in large.lines)


@pytest.mark.parametrize("name", ["still:steered", "points:steered"])
def test_a_run_of_one_experiment_is_not_taken_for_that_of_another(name: str):
    """Variants of two experiments may have one name."""
    figures = {"still:steered": draw, "points:steered": points.draw}
    for whose, drawn in figures.items():
        lines = [line for line in drawn([record(name, 0.5)]).axes[0].lines]
        assert any(line.get_marker() == "o" for line in lines) == (whose == name)
    assert experiments_of("points") == ("points", "still", "jitter", "objective", "jepa")


@pytest.mark.parametrize("figure", still_sheet.FIGURES)
def test_the_picture_of_samples_has_a_panel_per_model_and_seed(tmp_path: Path, figure: str):
    runs, out = tmp_path / "runs", tmp_path / "drawn.png"
    first = next(iter(still_sheet.FIGURES[figure].models.values()))
    with pytest.raises(SystemExit, match=f"expected the folder of recombine run {first}"):
        still_sheet.main(figure, runs, out)
    with pytest.raises(SystemExit, match="those of masking, points, losses, givt; got mask"):
        still_sheet.main("mask", runs, out)
    for name in still_sheet.FIGURES[figure].models.values():
        for seed in still_sheet.SEEDS:
            samples = runs.joinpath(*name.split(":"), f"seed{seed}", "samples")
            samples.mkdir(parents=True)
            colour = "blue" if seed == 1 else "red"
            Image.new("RGB", (240, 30), colour).save(samples / still_sheet.FIGURES[figure].asked)
    still_sheet.main(figure, runs, out)
    pixels = np.asarray(Image.open(out).convert("RGB"))
    shares = [(pixels == colour).all(axis=-1).mean() for colour in ([0, 0, 255], [255, 0, 0])]
    assert shares[0] > 0.1
    assert shares[1] == pytest.approx(2 * shares[0], rel=0.05)


@pytest.mark.parametrize(
    ("figure", "title"),
    [(figure, title) for figure in (loss_or_masks, repaired) for title in figure.PANELS],
)
def test_rows_of_losses_are_runs_that_learn_so(figure: ModuleType, title: str):
    """All are on codes or latents of what is seen, and told by adaLN if not said otherwise."""
    known = declared()
    for words, name in figure.PANELS[title].items():
        family, variant = name.split(":")
        experiment = known[family][variant]
        network, learned_by = experiment.network, experiment.objective
        assert isinstance(experiment.world, Shapes2D)
        assert (experiment.world == experiment.world.still) == ("vary" not in title)
        kind = "kl" if words.startswith(("GIVT", "MAR")) else "vq"
        assert experiment.view.name == f"tokenizer_{kind}"
        assert experiment.budget == (TRAINING if "8 layers" in title else SHORT)
        inside = network.of if isinstance(network, Votes) else network
        by_tokens = (
            isinstance(inside.entry, Rows) if isinstance(inside, DiT) else not inside.steered
        )
        assert by_tokens == words.endswith("by tokens")
        assert isinstance(inside, DiT) == words.startswith(WHOLE)
        assert (inside.layers == 8) == ("8 layers" in title)
        assert isinstance(network, Votes) == ("names codes" in words)
        head = network.head if isinstance(network, Masked) else None
        assert isinstance(head, Near | Apart) == ("points" in words)
        single = isinstance(head, Gaussian) or (isinstance(head, Mixture) and head.components == 1)
        assert single == ("one Gaussian" in words)
        assert isinstance(head, DiffusionHead) == words.startswith("MAR")
        assert isinstance(learned_by, WithJepa) == ("JEPA" in words)
        loss = learned_by.objective if isinstance(learned_by, WithJepa) else learned_by
        by_squares = isinstance(loss, Diffusion | MaskedPoint | MaskedMean | MaskedDiffusion) or (
            isinstance(loss, CodeDiffusion) and not loss.named
        )
        assert by_squares == ("squared error" in words), name
    axes = dict(zip(figure.PANELS, figure.draw([]).axes, strict=True))[title]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == list(figure.PANELS[title])
