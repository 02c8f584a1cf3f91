"""Small, layered and free of machine paths: promises, so they are tested."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
LINES = {"src": 29_900, "tests": 26_000}
"""docs/decisions/004 says why, and what later studies may add."""
FILES, TREE, RESULTS, ZOO = 520, 55_000_000, 6_000_000, 48_000_000
"""Tracked files, and bytes of all of them, of results and of shipped weights (decision 030)."""
PAGES = [("README.md", 150), ("CONTRIBUTING.md", 60), ("src/recombine/__init__.py", 40)]
NAME = re.compile(r"^(?:class (\w+)|(\w+): TypeAlias =)", re.MULTILINE)
# Folders of one machine, written so that this file does not hold such a path itself.
MACHINE_PATH = re.compile(rb"(?<![\w./-])/(?:work|farm|tmp|root|home|Users)/")


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def needs_git() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git cannot say which files belong to it")


def tracked() -> list[Path]:
    """Files that are, or would be, in the repository."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in names.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("path", SOURCE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_outgrows_a_reading(path: Path):
    assert lines(path) <= 400


@pytest.mark.parametrize("folder", LINES)
def test_code_stays_within_its_budget(folder: str):
    assert sum(map(lines, (ROOT / folder).rglob("*.py"))) <= LINES[folder]


def test_the_repository_is_light_to_clone():
    needs_git()
    sizes = {path: path.stat().st_size for path in tracked()}
    assert len(sizes) <= FILES
    assert sum(sizes.values()) <= TREE
    for folder, most in (("results", RESULTS), ("src/recombine/zoo", ZOO)):
        mine = [size for path, size in sizes.items() if path.is_relative_to(ROOT / folder)]
        assert 0 < sum(mine) <= most, folder


def test_no_name_of_a_type_is_given_twice():
    """One meaning a name: whoever reads `Cells` must not ask which."""
    found: dict[str, list[str]] = {}
    for path in SOURCE:
        for match in NAME.finditer(path.read_text()):
            found.setdefault(match[1] or match[2], []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_types_are_proved_and_not_asserted():
    text = "".join(path.read_text() for path in SOURCE)
    assert text.count("assert isinstance") < 10
    assert text.count("# type: ignore") < 5


@pytest.mark.parametrize(("name", "most"), PAGES)
def test_what_newcomers_read_stays_short(name: str, most: int):
    assert lines(ROOT / name) <= most


def test_chapters_import_only_earlier_chapters():
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    arguments = [sys.executable, "-c", command, "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": "src"}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_names_a_folder_of_one_machine():
    needs_git()
    found = [
        f"{path.relative_to(ROOT)}: {line.decode(errors='replace').strip()[:80]}"
        for path in tracked()
        if b"\0" not in (content := path.read_bytes())[:8192]
        for line in content.splitlines()
        if MACHINE_PATH.search(line)
    ]
    assert not found


@pytest.mark.parametrize("text", [b" /work" + b"/main", b"'/tmp" + b"/x'", b"=/home" + b"/me"])
def test_a_machine_path_is_recognized(text: bytes):
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", [b"docs/work/x", b"./tmp/x", b"a/root/b", b"/workshop/"])
def test_other_paths_are_left_alone(text: bytes):
    assert not MACHINE_PATH.search(text)
