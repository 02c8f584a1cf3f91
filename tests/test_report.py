"""Records round trip, intervals have known values, tables hold what records say."""

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path, PurePath

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from recombine.report.record import Record
from scipy import stats

from recombine.__main__ import main
from recombine.commands.report import is_of
from recombine.measurement import Measurement, averaged, exact_binomial, student_t
from recombine.report import files, origin
from recombine.report.page import Picture, Section, Table, page
from recombine.report.picture import contact_sheet, data_uri, pictures, pixels, png
from recombine.report.table import (
    comparisons,
    duration,
    findings,
    measurements,
    number,
    over_seeds,
    papers,
    pasted,
)

HERE = PurePath(".")


def record(**changed) -> Record:
    values = {
        "question": "Does it compose?",
        "command": "recombine run length",
        "experiment": "Experiment(steps=3)",
        "seed": 0,
        "device": "NVIDIA H200",
        "seconds": 61.0,
        "measurements": {
            "k_max": Measurement(9, 8, 10, n=500),
            "accuracy": Measurement.rate(465, 500),
        },
        "headline": ("k_max",),
        "figure": "docs/figures/length.svg",
        "commit": "0" * 40,
        "source": "1" * 64,
        "versions": {"torch": "2.13.0"},
    }
    return Record(**{**values, **changed})


# Intervals


def test_the_exact_interval_has_its_closed_forms_at_the_ends():
    # With no success the upper end solves (1 - p)^n = 0.025.
    assert exact_binomial(0, 10) == pytest.approx((0, 1 - 0.025 ** (1 / 10)))
    assert exact_binomial(10, 10) == pytest.approx((0.025 ** (1 / 10), 1))


@pytest.mark.parametrize("n", [1, 2, 7, 64, 2_048])
def test_the_exact_interval_is_that_of_scipys_search(n: int):
    from scipy import stats

    for successes in {0, 1, n // 3, n - 1, n}:
        for confidence in (0.95, 0.975):
            searched = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
            assert exact_binomial(successes, n, confidence) == pytest.approx(searched, abs=1e-10)


def test_the_exact_interval_has_a_published_value():
    # 81 of 263 (Agresti and Coull 1998 and many after them): 0.2527 to 0.3676.
    low, high = exact_binomial(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2527, 0.3676)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_tails_beyond_the_exact_interval_hold_a_fortieth(counted: tuple[int, int]):
    successes, n = counted
    low, high = exact_binomial(successes, n)
    if successes > 0:
        assert stats.binom.sf(successes - 1, n, low) == pytest.approx(0.025)
    if successes < n:
        assert stats.binom.cdf(successes, n, high) == pytest.approx(0.025)


def test_students_interval_has_a_known_value():
    # Mean 2, standard deviation 1, n = 3; t(0.975, 2) = 4.30265.
    reach = 4.30265 / math.sqrt(3)
    assert student_t([1, 2, 3]) == pytest.approx((2 - reach, 2 + reach), rel=1e-5)


def test_students_interval_agrees_with_scipy():
    values = [0.2, 0.5, 0.9, 0.4]
    twin = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert student_t(values, 0.9) == pytest.approx((twin.low, twin.high))


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, 0)])
def test_an_impossible_rate_is_refused(successes: int, n: int):
    with pytest.raises(ValueError, match=f"got {successes} of {n}"):
        exact_binomial(successes, n)


def test_one_value_has_no_spread():
    with pytest.raises(ValueError, match="2 values or more; got 1"):
        student_t([1.0])


def test_a_rate_and_a_mean_carry_their_interval():
    assert Measurement.rate(3, 4) == Measurement(0.75, *exact_binomial(3, 4), n=4)
    assert Measurement.mean([1, 2, 6]) == Measurement(3, *student_t([1, 2, 6]), n=3)


# Records


def test_a_record_survives_the_disk(tmp_path: Path):
    kept = record(
        measurements={"a": Measurement(0.1 + 0.2, None, None, 1, 0.5, "figure", "agrees")},
        headline=("a",),
    )
    path = tmp_path / "runs" / "record.json"
    kept.save(path)
    assert Record.load(path) == kept
    assert [each.name for each in path.parent.iterdir()] == ["record.json"]


def test_a_curve_is_written_on_one_line_and_words_stay_as_they_are(tmp_path: Path):
    """Pairs become short, and nothing that only looks like them."""
    words = "[\n  1,\n  2\n]"
    curves = {"loss": [[1, 0.5], [2, -1e-07], [3, 2.0]], "one": [[1, 2]], "none": []}
    kept = record(question=words, curves=curves, headline=())
    kept.save(tmp_path / "record.json")
    text = (tmp_path / "record.json").read_text()
    assert '\n    "loss": [[1, 0.5], [2, -1e-07], [3, 2.0]],\n    "one": [[1, 2]],\n' in text
    assert json.dumps(words) in text
    assert json.loads(text)["curves"] == curves
    assert Record.load(tmp_path / "record.json") == kept


def test_a_record_finds_out_where_it_was_made():
    made = Record("?", "recombine x", "x", 0, "cpu", 1.0, {})
    assert made.source == origin.source_digest()
    assert made.versions["torch"] == origin.versions()["torch"]
    assert made.commit == "unknown" or len(made.commit.removesuffix("+changes")) == 40


def spoiled(**changed) -> dict:
    content = json.loads(json.dumps({**vars(record()), "measurements": {"k": {"value": 1}}}))
    content["headline"] = []
    content["measurements"]["k"].update(low=0, high=2, n=3)
    return {**content, **changed}


WRONG = [
    ([], "expected a JSON object, got list"),
    (spoiled(seed="zero"), "seed is 'zero'; expected <class 'int'>"),
    (spoiled(seed=True), "seed is True"),
    (spoiled(seconds=-1.0), "seconds is a finite number of 0 or more; got -1.0"),
    (spoiled(wall=3), "wall is unknown"),
    (spoiled(headline=["b"]), "headline 'b' is not measured; measurements: k"),
    (spoiled(headline=[3]), r"headline is \[3\]"),
    (spoiled(versions={"torch": 2}), "versions is"),
    (spoiled(measurements={"k": 3}), "measurements is"),
    (spoiled(measurements={"k": {"value": 1}}), "measurement k: high is missing"),
    (spoiled(measurements={"k": {"value": 1, "low": 2, "high": 0, "n": 3}}), "low <= high"),
    (spoiled(measurements={"k": {"value": 1, "low": 0, "high": None, "n": 3}}), "two finite ends"),
    (spoiled(measurements={"k": {"value": 1, "low": 0, "high": 2, "n": 0}}), "n >= 1"),
]


@pytest.mark.parametrize(("content", "complaint"), WRONG, ids=[each[1] for each in WRONG])
def test_a_wrong_record_is_refused_by_name(content: object, complaint: str, tmp_path: Path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=complaint) as caught:
        Record.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_commit_of_today_does_not_stand_in_for_a_missing_one(tmp_path: Path):
    content = spoiled()
    del content["commit"]
    (tmp_path / "record.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="commit is missing"):
        Record.load(tmp_path / "record.json")


@pytest.mark.parametrize("text", ["", '{"seed": 0', "[" * 100_000, "\udcff"])
def test_half_a_record_is_refused(text: str, tmp_path: Path):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match="is not whole JSON"):
        Record.load(path)


def test_a_missing_record_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="none.json cannot be read: No such file"):
        Record.load(tmp_path / "none.json")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_measurement_is_finite(value: float):
    with pytest.raises(ValueError, match="finite number"):
        Measurement(value, None, None, n=1)


def test_a_papers_value_needs_its_grade():
    with pytest.raises(ValueError, match="with a grade"):
        Measurement(1, 0, 2, n=3, paper=1)


# Files


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "page.md"
    files.write_text(path, "old")

    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path: Path):
    folder = tmp_path / "deep" / "out"
    with files.new_folder(folder) as partial:
        (partial / "a").write_text("a")
        assert not folder.exists()
    assert [each.name for each in folder.iterdir()] == ["a"]
    assert [each.name for each in folder.parent.iterdir()] == ["out"]


def test_a_link_to_an_empty_folder_is_followed(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with files.new_folder(tmp_path / "link") as partial:
        (partial / "a").touch()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").exists()


def test_an_interrupted_folder_vanishes(tmp_path: Path):
    def interrupted() -> None:
        with files.new_folder(tmp_path / "out") as partial:
            (partial / "a").write_text("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled_but_nothing_is_touched(tmp_path: Path, monkeypatch):
    with files.new_folder(tmp_path / "empty") as partial:
        (partial / "a").touch()
    (tmp_path / "file").touch()
    for taken, reason in [("empty", "is not empty"), ("file", "is a file")]:
        with pytest.raises(ValueError, match=reason), files.new_folder(tmp_path / taken):
            pass
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="the folder you are in"), files.new_folder(Path(".")):
        pass
    monkeypatch.chdir(tmp_path)
    with files.new_folder(Path("here")) as partial:
        (partial / "a").touch()
    assert (tmp_path / "here" / "a").exists()


# Pictures


def test_pixels_are_rounded_not_cut_and_stay_in_range():
    values = torch.tensor([0, 0.5, 1, 1.7, -0.3, 127.6 / 255])
    levels = pixels(values.reshape(1, 1, 1, 6).expand(1, 3, 1, 6))
    assert levels[0, 0, :, 0].tolist() == [0, 128, 255, 255, 0, 128]


def test_an_image_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        pixels(torch.full((1, 3, 2, 2), math.nan))


def test_a_picture_has_rows_columns_and_colours_in_their_places(rng: torch.Generator):
    images = torch.randint(256, (2, 3, 4, 5), generator=rng) / 255
    for image, picture in zip(images, pictures(images), strict=True):
        assert picture.size == (5, 4)
        for row, column in [(0, 0), (3, 4), (1, 2)]:
            expected = tuple(round(255 * value) for value in image[:, row, column].tolist())
            assert picture.getpixel((column, row)) == expected


def test_a_png_survives_its_bytes(tmp_path: Path):
    picture = Image.new("RGB", (3, 2), (10, 20, 30))
    (tmp_path / "a.png").write_bytes(png(picture))
    with Image.open(tmp_path / "a.png") as back:
        assert back.tobytes() == picture.tobytes()
    assert data_uri(picture).startswith("data:image/png;base64,iVBOR")


def test_a_contact_sheet_goes_row_by_row_with_white_between():
    images = torch.stack([torch.full((3, 2, 2), value / 255) for value in (10, 20, 30, 40)])
    sheet = contact_sheet(images, columns=3, gap=1)
    assert sheet.size == (8, 5)
    at = {(0, 0): 10, (3, 0): 20, (6, 0): 30, (0, 3): 40, (2, 0): 255, (3, 3): 255}
    assert {place: sheet.getpixel(place)[0] for place in at} == at
    assert contact_sheet(images, columns=9, gap=0).size == (8, 2)


@pytest.mark.parametrize(("images", "columns"), [(0, 3), (3, 0)])
def test_an_empty_contact_sheet_is_refused(images: int, columns: int):
    with pytest.raises(ValueError, match=f"got {images} images, {columns} columns"):
        contact_sheet(torch.zeros(images, 3, 2, 2), columns)


# Pages


def test_a_page_escapes_its_text_and_needs_no_other_file():
    picture = Picture.of(Image.new("RGB", (1, 1)), 'a "cube" <red>')
    table = Table(("head",), (("<b>",),))
    text = page("<T>", "& lead", [Section("S", "caption", "run --x", (picture,), table=table)])
    assert "&lt;T&gt;" in text
    assert "&amp; lead" in text
    assert "&lt;b&gt;" in text
    assert "<red>" not in text
    assert 'src="data:image/png;base64,' in text
    assert "http" not in text


# Tables


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.01234, "0.0123"), (4.567, "4.57"), (99.97, "100"), (12345.6, "12,346"), (-0.5, "-0.5")],
)
def test_a_number_keeps_three_digits_that_count(value: float, written: str):
    assert number(value) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.44, "0.4 s"), (45.2, "45 s"), (99.6, "2 min"), (720, "12 min"), (12600, "3.5 h")],
)
def test_a_time_is_written_as_it_is_said(seconds: float, written: str):
    assert duration(seconds) == written


def test_the_findings_hold_question_command_time_number_and_figure():
    _, _, row = findings([record()], HERE).splitlines()
    assert row == (
        "| Does it compose? | `recombine run length` | 61 s "
        "| k_max 9 [8, 10], n = 500 (NVIDIA H200) | [figure](docs/figures/length.svg) |"
    )


def test_seeds_of_one_question_share_a_row_with_both_intervals():
    low, high = (number(end) for end in student_t([0.9, 0.8, 0.85]))
    runs = [
        record(seed=seed, seconds=60.0 + seed, measurements={"k_max": Measurement(value, 0, 1, 9)})
        for seed, value in enumerate((0.9, 0.8, 0.85))
    ]
    table = findings([*reversed(runs), record(question="Other?", figure=None)], HERE)
    assert len(table.splitlines()) == 4
    assert f"k_max 0.85 [{low}, {high}] over 3 seeds (first seed: 0.9 [0, 1], n = 9)" in table
    assert "| 61 s |" in table
    # Of two seeds Student's interval would reach from below 0 to above 1.
    assert "k_max 0.9 [0, 1], 0.8 [0, 1], n = 9 " in findings(runs[:2], HERE)


def test_some_findings_are_chosen_with_all_their_seeds_in_the_order_named():
    # Two seeds of one question are still two.
    page = "<!-- table:findings:c,a,d -->\n<!-- /table -->\n"
    records = {
        "a": record(question="First?", seed=1),
        "b": record(question="Second?"),
        "c": record(question="Third?"),
        "d": record(question="First?", seed=0),
    }
    table = pasted(page, records, HERE)
    assert "Second?" not in table
    assert table.index("Third?") < table.index("First?")
    assert "k_max 9 [8, 10], 9 [8, 10], n = 500" in table
    with pytest.raises(ValueError, match="record 'e' is not known; expected one of a, b, c, d"):
        pasted("<!-- table:findings:e -->\n<!-- /table -->\n", records, HERE)


def test_seeds_of_two_variants_are_paired():
    def run(variant: str, seed: int, value: float) -> Record:
        command = f"recombine run jepa:{variant} --seed {seed}"
        measured = {"accuracy": Measurement(value, None, None, 10)}
        return record(command=command, seed=seed, measurements=measured, headline=())

    values = {("without", 1): 0.1, ("without", 2): 0.3, ("with", 2): 0.8, ("with", 1): 0.7}
    records = {f"{name}_{seed}": run(name, seed, value) for (name, seed), value in values.items()}

    def table(*names: str) -> str:
        page = f"<!-- table:paired:{','.join(names)}:accuracy -->\n<!-- /table -->\n"
        return pasted(page, records, HERE)

    two = table("without_1", "without_2", "with_2", "with_1")
    assert "| seeds 1, 2 | without | with | difference | mean difference |" in two
    assert "| accuracy | 0.1, 0.3 | 0.7, 0.8 | 0.6, 0.5 |  |" in two
    records |= {"without_3": run("without", 3, 0.2), "with_3": run("with", 3, 0.6)}
    low, high = (number(end) for end in student_t([0.6, 0.5, 0.4]))
    assert f"| 0.6, 0.5, 0.4 | 0.5 [{low}, {high}] |" in table(*records)
    assert "| 0.1, 0.3, 0.2 (mean 0.2) | 0.7, 0.8, 0.6 (mean 0.7) |" in table(*records)
    with pytest.raises(ValueError, match="same seeds; got without seed 1, with seed 2"):
        table("without_1", "with_2")
    with pytest.raises(ValueError, match="of two variants with the same seeds; got with seed 1"):
        table("with_1")
    records["with_1"] = replace(records["with_1"], measurements={})
    with pytest.raises(ValueError, match="'accuracy' is not measured in every run"):
        table("without_1", "with_1")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("recombine run circuits:maskgit --seed 0", True),
        ("python benchmarks/asked.py results/x.json zoo.safetensors circuits:maskgit_still", True),
        ("recombine run locality:circuits --seed 0", False),
        ("python benchmarks/readers.py results/x.json circuits:maskgit", False),
    ],
)
def test_a_figure_has_what_was_run_and_what_was_asked_of_kept_weights(command: str, told: bool):
    assert is_of(record(command=command), ("jepa", "circuits")) is told


def test_a_variant_has_one_row_with_all_its_seeds():
    def run(variant: str, seed: int, **values: float) -> Record:
        measured = {name: Measurement(value, None, None, 10) for name, value in values.items()}
        command = f"recombine run jepa:{variant} --seed {seed}"
        return record(command=command, seed=seed, measurements=measured, headline=())

    records = {
        "b_3": run("b", 3, seen=0.6, new=0.3),
        "b_1": run("b", 1, seen=0.2, new=0.1),
        "b_2": run("b", 2, seen=0.1),
        "a/one": run("a", 7, seen=0.5, new=0.25),
    }

    def rows(subject: str) -> list[str]:
        page = pasted(f"<!-- table:seeds:{subject} -->\n<!-- /table -->\n", records, HERE)
        return [line for line in page.splitlines() if line.startswith("| ")]

    head, _, *both = rows("b_*,a/*:seen,new")
    assert head == "| variant | seeds | seen | new |"
    assert both == [
        "| b | 1, 2, 3 | 0.2, 0.1, 0.6 (mean 0.3) | 0.1, -, 0.3 |",
        "| a | 7 | 0.5 | 0.25 |",
    ]
    assert rows("b_3,b_1:new")[2:] == ["| b | 1, 3 | 0.1, 0.3 |"]
    assert rows("a/*,b_2:new")[2:] == ["| a | 7 | 0.25 |", "| b | 2 |  |"]
    # A record that is named twice is there once; two runs of one seed are not one row.
    assert rows("b_*,b_3:seen") == rows("b_*:seen")
    records["again"] = run("b", 3, seen=0.6)
    with pytest.raises(ValueError, match="one run of a seed; got `recombine run jepa:b --seed 3`"):
        rows("b_*,again:seen")
    # A star stands for a part of a name, not for a folder, and other signs for themselves.
    for unknown in ("c_*", "*_7", "*one", "b_?", "b_[123]"):
        with pytest.raises(ValueError, match="is not known; expected one of b_3, b_1"):
            rows(f"{unknown}:seen")


def test_a_row_per_variant_says_what_n_is():
    measured = {"late": Measurement(0.5, None, None, 10), "rate": Measurement(0.5, 0, 1, 64)}
    records = {"a": record(measurements=measured, headline=())}
    page = "<!-- table:seeds:a:late,rate -->\n<!-- /table -->\n"
    assert "\nn = 10 (`late`), 64 (`rate`).\n" in pasted(page, records, HERE)


def test_measurements_may_be_some_of_a_record_in_the_order_asked():
    found = {
        name: Measurement(value, None, None, 9)
        for name, value in zip("abc", (1, 2, 3), strict=True)
    }
    records = {"run": record(measurements=found, headline=())}

    def rows(subject: str) -> list[str]:
        page = pasted(f"<!-- table:measurements:{subject} -->\n<!-- /table -->\n", records, HERE)
        return [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")][2:]

    assert rows("run") == ["| a", "| b", "| c"]
    assert rows("run:c,a") == ["| c", "| a"]
    with pytest.raises(ValueError, match="'d' is measured in none of run; measured there: a, b, c"):
        rows("run:d")
    with pytest.raises(ValueError, match="table 'measurements:run,run:a' is not known"):
        rows("run,run:a")


def test_times_on_two_devices_are_told_apart():
    seconds = {"a": (10.0, "H200"), "b": (30.0, "H200"), "c": (1200.0, "CPU")}
    records = {
        name: record(seed=at, seconds=took, device=device)
        for at, (name, (took, device)) in enumerate(seconds.items())
    }
    page = pasted("<!-- table:findings -->\n<!-- /table -->\n", records, HERE)
    assert "| 20 s, 20 min |" in page
    assert "(H200, CPU)" in page


def test_papers_may_be_asked_of_some_records_only():
    records = {"a": compared(0, 7, "yes"), "b": compared(0, 3, "no", question="And this?")}
    page = "<!-- table:papers{} -->\n<!-- /table -->\n"
    assert "And this?" in pasted(page.format(""), records, HERE)
    assert "And this?" not in pasted(page.format(":a"), records, HERE)
    with pytest.raises(ValueError, match="record 'c' is not known; expected one of a, b"):
        pasted(page.format(":c"), records, HERE)


def test_seeds_are_listed_where_their_interval_cannot_be_right():
    def shares(*values: float) -> str:
        return over_seeds([Measurement(value, 0, 1, 9) for value in values])

    # Beyond 1, below 0, and without width.
    assert shares(0.9, 0.7, 0.99) == "0.9 [0, 1], 0.7 [0, 1], 0.99 [0, 1], n = 9"
    assert shares(0.1, 0.3, 0.01) == "0.1 [0, 1], 0.3 [0, 1], 0.01 [0, 1], n = 9"
    assert shares(1.0, 1.0, 1.0) == "1 [0, 1], 1 [0, 1], 1 [0, 1], n = 9"
    # What is no share may leave the range of one: by itself, or by its interval.
    assert "over 3 seeds" in over_seeds(
        [Measurement(each, None, None, 9) for each in (0.1, 1.2, 2)]
    )
    assert "over 3 seeds" in over_seeds([Measurement(each, -1, 2, 9) for each in (0.9, 0.7, 0.99)])


def test_one_seed_needs_no_mean():
    assert over_seeds([Measurement(2, None, None, n=1)]) == "2, n = 1"


def test_a_measurement_stands_beside_the_papers():
    measured = Measurement(0.5, 0.25, 0.75, 1200, 0.6, "figure", "agrees")
    *_, row = measurements(record(measurements={"a|b": measured}, headline=())).splitlines()
    assert row == r"| a\|b | 0.5 | [0.25, 0.75] | 1,200 | 0.6 | figure | agrees |"


def compared(seed: int, value: float, verdict: str | None, **changed) -> Record:
    ours = Measurement(value, value, value + 1, 256, 7, "paper", verdict)
    unpublished = Measurement(0.5, 0.4, 0.6, n=256, verdict="as asked")
    return record(seed=seed, measurements={"k_max": ours, "rate": unpublished}, **changed)


def test_the_papers_number_stands_beside_ours_of_every_seed():
    # As whole numbers they are listed: no model reaches 7.5 objects.
    runs = [compared(1, 8, "as asked (>= 7)"), compared(0, 7, "as asked (>= 7)")]
    _, _, row = papers(runs).splitlines()
    ours = "7 [7, 8], 8 [8, 9], n = 256"
    assert row == f"| Does it compose? | k_max | 7 | paper | {ours} | as asked (>= 7) |"
    _, _, row = papers(runs[:1]).splitlines()
    assert "| 8 [8, 9], n = 256 |" in row


def test_a_paper_table_holds_nothing_that_no_paper_reports():
    assert len(papers([record()]).splitlines()) == 2
    assert [each.measurement for each in comparisons([compared(0, 7, None)])] == ["k_max"]
    # A seed that was not compared, as with too few samples, is left out.
    half = comparisons([record(seed=1), compared(0, 7, None)])
    assert [each.seeds for each in half] == [(0,)]


def test_questions_have_rows_of_their_own():
    table = papers([compared(0, 7, "a"), compared(0, 3, "b", question="And this?")])
    _, _, first, second = table.splitlines()
    assert first.startswith("| Does it compose? | k_max | 7 |")
    assert second.startswith("| And this? | k_max | 7 | paper | 3 [3, 4]")


def test_seeds_that_disagree_are_named():
    verdicts = {0: "as asked", 1: "missed", 2: "as asked", 3: None}
    runs = [compared(seed, 7, verdict) for seed, verdict in verdicts.items()]
    row = papers(runs).splitlines()[-1]
    assert row.endswith("| as asked (seed 0, 2); missed (seed 1); no verdict (seed 3) |")


def test_rates_of_several_seeds_have_their_mean_beside_the_papers():
    low, high = (number(end) for end in student_t([0.5, 0.7, 0.6]))
    row = papers([compared(seed, value, None) for seed, value in enumerate((0.5, 0.7, 0.6))])
    assert f"| 0.6 [{low}, {high}] over 3 seeds (first seed: 0.5 [0.5, 1.5], n = 256) |" in row


def test_different_numbers_of_samples_are_all_said():
    fewer = record(measurements={"k_max": Measurement(6, 5, 7, 1300, 7, "paper")}, seed=1)
    assert "7 [7, 8], 6 [5, 7], n = 256 and 1,300 |" in papers([compared(0, 7, None), fewer])


def test_the_papers_are_pasted_into_pages():
    text = "<!-- table:papers -->\n<!-- /table -->\n"
    page = pasted(text, {"a": compared(0, 7, "as asked")}, HERE)
    assert page.startswith("<!-- table:papers -->\n\n| question | measurement | paper | grade |")
    assert "| k_max | 7 | paper | 7 [7, 8], n = 256 | as asked |" in page


def test_report_prints_the_papers_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for seed, value in enumerate((7, 6)):
        compared(seed, value, f"verdict {value}").save(tmp_path / f"results/{seed}.json")
    assert main(["report", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "k_max" in shown.out
    assert "k_max" not in shown.err
    for word in ("Does it compose?", "grade", "[7,", "verdict"):
        assert word in shown.out
    assert main(["report", "--root", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["papers"]
    assert told == [
        {
            "question": "Does it compose?",
            "measurement": "k_max",
            "paper": 7,
            "grade": "paper",
            "ours": [
                {"seed": 0, "value": 7, "low": 7, "high": 8, "n": 256, "verdict": "verdict 7"},
                {"seed": 1, "value": 6, "low": 6, "high": 7, "n": 256, "verdict": "verdict 6"},
            ],
        }
    ]


def test_a_terminal_shows_the_columns_in_order_and_takes_no_word_for_a_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    compared(0, 7, "fine", question="[red]?").save(tmp_path / "a.json")
    compared(0, 7, "good", question="Again?").save(tmp_path / "b.json")
    assert main(["report", str(tmp_path), "--root", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # A question stands alone, above its numbers.
    assert lines.count(["[red]?"]) == lines.count(["Again?"]) == 1
    row = lines[lines.index(["[red]?"]) + 1]
    assert row[:3] == ["k_max", "7", "paper"]
    assert row[-1] == "fine"
    assert lines[lines.index(["Again?"]) + 1][-1] == "good"


def test_report_prints_no_empty_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    record().save(tmp_path / "results/a.json")
    assert main(["report", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_pasting_replaces_what_stands_between_the_markers_and_nothing_else():
    text = "# Title\n<!-- table:findings -->\nold\n<!-- /table -->\nend\n"
    once = pasted(text, {"length": record()}, HERE)
    assert once.startswith("# Title\n<!-- table:findings -->\n\n| question |")
    assert once.endswith("|\n\n<!-- /table -->\nend\n")
    assert "old" not in once
    assert pasted(once, {"length": record()}, HERE) == once


def test_a_page_without_markers_stays_as_it_is():
    for text in ("", "no end of line", "two\n\nlines\n"):
        assert pasted(text, {}, HERE) == text


def test_a_figure_is_linked_from_where_the_page_lies():
    text = "<!-- table:findings -->\n<!-- /table -->\n"
    assert "(../figures/length.svg)" in pasted(text, {"x": record()}, PurePath("docs/experiments"))


def test_a_record_can_be_shown_whole():
    text = "<!-- table:measurements:length -->\n<!-- /table -->\n"
    assert "| accuracy | 0.93 | [0.904, 0.951] | 500 |" in pasted(text, {"length": record()}, HERE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<!-- table:findings -->\n", "table findings does not end"),
        ("<!-- /table -->\n", "a table ends outside a table"),
        ("<!-- table:findings -->\n<!-- table:findings -->\n", "begins inside table findings"),
        ("<!-- table:nothing -->\n<!-- /table -->\n", "'nothing' is not known; expected one of"),
        ("<!-- table:measurements:y -->\n<!-- /table -->\n", "findings, papers, measurements:x"),
    ],
)
def test_markers_that_do_not_fit_are_named(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        pasted(text, {"x": record()}, HERE)


# Origin


def test_the_digest_changes_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(origin, "PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text("1")
    first = origin.source_digest()
    (tmp_path / "notes.txt").write_text("not source")
    assert origin.source_digest() == first
    (tmp_path / "a.py").write_text("2")
    assert origin.source_digest() != first
    assert origin.commit() == "unknown"


def test_the_commit_is_ours_and_tells_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    ours, other = tmp_path / "src" / "recombine", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir(parents=True)
        (folder / "a.py").touch()
    git("init", "--quiet")
    monkeypatch.setattr(origin, "PACKAGE", ours)
    assert origin.commit() == "unknown"
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    assert origin.commit() == git("rev-parse", "HEAD")
    (ours / "a.py").write_text("1")
    assert origin.commit() == git("rev-parse", "HEAD") + "+changes"
    monkeypatch.setattr(origin, "PACKAGE", other)
    assert origin.commit() == "unknown"


def test_a_device_has_a_name():
    assert origin.device_name("cpu").endswith("cores")
    assert origin.device_name(torch.device("meta")) == "meta"


def test_a_changed_record_is_another_record():
    assert replace(record(), seed=1) != record()


def test_the_mean_of_measurements_has_the_mean_of_their_ends():
    each = [Measurement(1.0, 0.0, 4.0, n=10), Measurement(2.0, 1.0, 5.0, n=20)]
    assert averaged(each) == Measurement(1.5, 0.5, 4.5, n=30)
    assert averaged([*each, Measurement(6.0, None, None, n=1)]) == Measurement(3.0, None, None, 31)
    with pytest.raises(ValueError, match="1 measurement or more"):
        averaged([])
