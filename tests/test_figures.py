"""Figures are drawn from records alone, and the same records give the same file."""

from pathlib import Path

from recombine.__main__ import main
from recombine.commands.report import found_records, illustrated, redraw
from recombine.figures import figures
from recombine.measurement import Measurement
from recombine.report.record import Record


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


def test_every_figure_needs_nothing_but_records():
    assert figures()
    for name, draw in figures().items():
        assert draw([record(name)]).axes


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


def test_only_a_checkout_gets_figures(tmp_path: Path):
    record().save(tmp_path / "results/toy.json")
    assert main(["report", "--root", str(tmp_path), "--page", str(tmp_path / "p.html")]) == 0
    assert (tmp_path / "p.html").exists()
    assert not (tmp_path / "docs").exists()
