"""Figures are drawn from records alone, and the same records give the same file."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from recombine.figures.length_generalization import draw
from recombine.report.record import Record

from recombine.__main__ import main
from recombine.commands import report
from recombine.commands.report import found_records, illustrated, redraw
from recombine.figures import figures
from recombine.measurement import Measurement


def record(experiment: str = "denoise_toy") -> Record:
    arrows = [[0.0, 1.0], [1.0, 0.0]]
    return Record(
        question="Does it?",
        command=f"recombine run {experiment}:base --seed 0",
        experiment="Experiment()",
        seed=0,
        device="cpu",
        seconds=1.0,
        measurements={"relative_error": Measurement(0.01, 0.005, 0.02, n=9)},
        headline=("relative_error",),
        curves={"place": arrows, "exact_score": arrows, "learned_score": arrows},
    )


def told(
    variant: str, seed: int, success: list[float], k_max: int | None = None, trained_on: int = 3
) -> Record:
    """A record of length: success at 1, 2, ... places, and a count that stays at 2."""
    measured = {"k_max": Measurement(k_max, k_max, k_max, n=256)} if k_max is not None else {}
    for k, rate in enumerate(success, start=1):
        measured[f"success@{k}"] = Measurement.rate(round(256 * rate), 256)
        measured[f"success_ceiling@{k}"] = Measurement.rate(256, 256)
        measured[f"success_chance@{k}"] = Measurement.rate(0, 256)
    for k in range(len(success) + 1):
        measured[f"count@{k}"] = Measurement(2, 1.5, 2.5, n=256)
    measured["success@0"] = Measurement.rate(3, 256)
    curves = {"length_objects": list(range(len(success) + 1)), "length_trained_on": [trained_on, 1]}
    command = f"recombine run length_generalization:{variant} --seed {seed}"
    return Record("?", command, "x", seed, "cpu", 1.0, measured, curves=curves)


def shown(axes) -> list[tuple[list, list]]:
    """The lines of a panel, as lists of numbers."""
    return [tuple(map(list, line.get_data())) for line in axes.lines]


def test_length_is_drawn_as_the_mean_over_seeds_with_the_interval_of_each():
    runs = [told("grid_all", 0, [1, 0.75, 0.5], 2), told("grid_all", 1, [1, 0.25, 0.5], 1)]
    left, right = draw(runs).axes
    success = shown(left)
    assert ([1, 2, 3], [1, 0.5, 0.5]) in success
    for run in runs:
        for k in (1, 2, 3):
            rate = run.measurements[f"success@{k}"]
            assert ([k, k], [rate.low, rate.high]) in success
    # The K_max of each seed, at its own success there.
    assert ([2], [0.75]) in success
    assert ([1], [1.0]) in success
    assert ([1, 2, 3], [1, 1, 1]) in success
    assert ([1, 2, 3], [0, 0, 0]) in success
    assert ([0, 1, 2, 3], [2, 2, 2, 2]) in shown(right)
    assert ([0, 3], [0, 3]) in shown(right)
    assert {text.get_text() for text in left.texts} == {"grid, all told", "ceiling", "chance"}


def test_a_training_set_has_a_row_of_its_own_and_is_shaded():
    runs = [
        told("grid_one_local_5", 0, [1, 1], trained_on=5),
        told("grid_one", 0, [1, 0], 0),
        told("grid_one --steps 9", 0, [1, 0]),
    ]
    three, _, five, _ = draw(runs).axes
    assert "1-3 objects" in three.get_xlabel()
    assert "1-5 objects" in five.get_xlabel()
    assert [patch.get_extents().width for patch in five.patches]
    words = {text.get_text() for text in three.texts}
    assert words == {"grid, one told", "grid, one told, --steps 9", "ceiling", "chance"}
    assert "grid, one told, local" in {text.get_text() for text in five.texts}


@pytest.mark.parametrize("end", [0.0, 0.5, 1.0])
def test_words_beside_lines_do_not_meet_and_stay_beside_the_panel(end: float):
    variants = ["grid_all", "grid_one", "list_all", "grid_one_local", "list_all_local"]
    left, right = draw([told(variant, 0, [1, end]) for variant in variants]).axes
    for axes, top in ((left, 1.0), (right, 2.0)):
        heights = sorted(text.xy[1] for text in axes.texts)
        assert len(heights) >= 5
        assert min(b - a for a, b in zip(heights, heights[1:], strict=False)) > 0.06 * top
        assert -0.01 * top < heights[0]
        assert heights[-1] < 1.01 * top


def test_every_figure_needs_nothing_but_records():
    assert figures()
    for name, drawn in figures().items():
        assert drawn([record(name)]).axes


def test_the_same_records_give_the_same_file(tmp_path: Path):
    redraw(tmp_path / "a", [record()])
    redraw(tmp_path / "b", [record(), record("another_question")])
    first, second = ((tmp_path / folder / "denoise_toy.svg") for folder in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_a_record_is_shown_with_the_figure_of_its_experiment():
    assert illustrated(record()).figure == "docs/figures/denoise_toy.svg"
    assert illustrated(record("denoise_to")).figure is None


def test_report_pastes_tables_and_draws_figures(tmp_path: Path):
    record().save(tmp_path / "results/toy.json")
    (tmp_path / "README.md").write_text("<!-- table:findings -->\n<!-- /table -->\n")
    assert main(["report", "--root", str(tmp_path), "--check"]) == 1
    assert not (tmp_path / "docs").exists()
    assert main(["report", "--root", str(tmp_path)]) == 0
    assert "[figure](docs/figures/denoise_toy.svg)" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "docs/figures/denoise_toy.svg").exists()
    assert main(["report", "--root", str(tmp_path), "--check"]) == 0


def test_records_of_runs_are_told_apart_by_their_folders(tmp_path: Path):
    for seed in (0, 1):
        folder = tmp_path / f"runs/denoise_toy/base/seed{seed}"
        record().save(folder / "record.json")
        (folder / "experiment.json").write_text("{}")
    found = found_records((tmp_path / "runs",))
    assert list(found) == ["denoise_toy-base-seed0", "denoise_toy-base-seed1"]


def test_records_in_a_folder_are_named_after_it_and_are_no_findings(tmp_path: Path):
    record().save(tmp_path / "results/toy.json")
    replace(record(), question="A detail?").save(tmp_path / "results/details/toy.json")
    assert list(found_records((tmp_path / "results",))) == ["details/toy", "toy"]
    table = "<!-- table:findings -->\n<!-- /table -->\n<!-- table:measurements:details/toy -->\n"
    (tmp_path / "README.md").write_text(f"{table}<!-- /table -->\n")
    assert main(["report", "--root", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert "A detail?" not in text
    assert text.count("| relative_error |") == 1


def test_only_a_checkout_gets_figures(tmp_path: Path):
    record().save(tmp_path / "results/toy.json")
    assert main(["report", "--root", str(tmp_path), "--page", str(tmp_path / "p.html")]) == 0
    assert (tmp_path / "p.html").exists()
    assert not (tmp_path / "docs").exists()


def test_a_figure_reads_the_records_of_every_experiment_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn: dict[str, list[str]] = {}

    def draw(name: str):
        def drawing(records: list[Record]) -> Figure:
            drawn[name] = [each.command for each in records]
            return Figure()

        return drawing

    names = ("length_generalization", "locality")
    monkeypatch.setattr(report, "figures", lambda: {name: draw(name) for name in names})
    redraw(tmp_path, [record(name) for name in names])
    length, locality = (f"recombine run {name}:base --seed 0" for name in names)
    assert drawn == {"length_generalization": [length, locality], "locality": [locality]}
