"""Intervals have known values; files appear whole; pages hold what they are given."""

import math
import os
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import stats

from recombine.measurement import Measurement, exact_binomial, student_t
from recombine.report import files, origin
from recombine.report.page import Group, Picture, Section, page
from recombine.report.picture import data_uri, pictures, pixels, png, tiled
from recombine.report.table import duration, number

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


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_measurement_is_finite(value: float):
    with pytest.raises(ValueError, match="finite number"):
        Measurement(value, None, None, n=1)


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
    sheet = tiled(pictures(images), columns=3, gap=1)
    assert sheet.size == (8, 5)
    at = {(0, 0): 10, (3, 0): 20, (6, 0): 30, (0, 3): 40, (2, 0): 255, (3, 3): 255}
    assert {place: sheet.getpixel(place)[0] for place in at} == at
    assert tiled(pictures(images), columns=9, gap=0).size == (8, 2)


# Pages


def test_a_page_escapes_its_text_and_needs_no_other_file():
    picture = Picture.of(Image.new("RGB", (1, 1)), 'a "cube" <red>')
    groups, rows = (Group("", "", (picture,)),), (("<b>",),)
    section = Section("S", "caption", "run --x", groups, ("head",), rows)
    text = page("<T>", "& lead", [section])
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
