"""Small, layered and free of machine paths: promises, so they are tested."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
BUDGET = 24_700
PAGES = [("README.md", 150), ("CONTRIBUTING.md", 60), ("src/recombine/__init__.py", 40)]
# Folders of one machine, written so that this file does not hold such a path itself.
MACHINE_PATH = re.compile(rb"(?<![\w./-])/(?:work|farm|tmp|root|home|Users)/")


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def tracked() -> list[Path]:
    """Files that are, or would be, in the repository."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in names.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("path", SOURCE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_outgrows_a_reading(path: Path):
    assert lines(path) <= 400


def test_the_source_stays_within_its_budget():
    assert sum(map(lines, SOURCE)) <= BUDGET


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
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git cannot say which files belong to it")
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
