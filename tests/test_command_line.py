"""The command line as a user meets it: commands, exit codes, one line on an error, completion."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import recombine
from recombine import __main__ as command_line
from recombine import commands
from recombine.commands import COMMANDS, completion, console, index

SOURCE = Path(recombine.__file__).parent


@dataclass(frozen=True)
class Nothing:
    """Options of a command without any."""


def started(*words: str) -> subprocess.Popen[str]:
    """Start Python with these words, on the source of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *words], env=environment, **pipes)  # type: ignore


# Finding the command


def test_no_command_shows_them_all(capsys: pytest.CaptureFixture[str]):
    assert command_line.main([]) == 2
    assert command_line.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        command_line.main([name, "--help"])
    assert stop.value.code == 0
    assert f"Example: recombine {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rendr"], f"'rendr' is not one of {', '.join(COMMANDS)}; did you mean render?"),
        (["xyz"], f"'xyz' is not one of {', '.join(COMMANDS)}"),
        (["--print-completion"], "--print-completion: expected one of bash, zsh, fish, got ''"),
        (["list", "--jsn"], "--jsn is not an option; did you mean --json? (see recombine list"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words, line, capsys):
    assert command_line.main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"recombine: {line}")
    assert output.err.count("\n") == 1


# Exit codes


def ends_with(error: BaseException) -> Callable[[Nothing], None]:
    def run(options: Nothing) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("a list of\nlength 2"), 2, "recombine: a list of length 2\n"),
        (PermissionError(13, "denied", "x"), 1, "recombine: [Errno 13] denied: 'x'\n"),
        (ImportError("needs h5py"), 1, "recombine: needs h5py\n"),
        (torch.OutOfMemoryError("no room"), 1, "recombine: no room\n"),
        (KeyboardInterrupt(), 130, "recombine: interrupted\n"),
    ],
)
def test_what_goes_wrong_has_its_exit_code_and_line(error, code, said, monkeypatch, capsys):
    monkeypatch.setattr(commands, "command", lambda name: ends_with(error))
    assert command_line.main(["list"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("error", [AssertionError("ours"), RuntimeError("ours")])
def test_our_own_mistakes_keep_their_traceback(error, monkeypatch):
    monkeypatch.setattr(commands, "command", lambda name: ends_with(error))
    with pytest.raises(type(error), match="ours"):
        command_line.main(["list"])


def test_a_reader_that_leaves_is_no_reason_to_complain():
    with started("-m", "recombine", "--help") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_command_may_take_words_that_are_not_its_options(monkeypatch):
    taken = []

    def run(options: Nothing, words: list[str]) -> None:
        taken.append((options, words))

    monkeypatch.setattr(commands, "command", lambda name: run)
    assert command_line.main(["run", "--steps", "5"]) == 0
    assert taken == [(Nothing(), ["--steps", "5"])]


# What is imported


@pytest.mark.parametrize(
    "words",
    [["-m", "recombine", "--help"], ["-m", "recombine", "--version"], ["-c", "import recombine"]],
)
def test_torch_is_imported_only_where_it_is_needed(words: list[str]):
    with started("-X", "importtime", *words) as process:
        imported = process.communicate()[1]
    assert process.returncode == 0
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in imported.splitlines()}
    assert "recombine" in names
    assert not names & {"torch", "numpy", "scipy", "matplotlib", "pandas"}


def test_public_names_are_what_the_type_checker_sees():
    tree = ast.parse((SOURCE / "__init__.pyi").read_text())
    seen = {
        alias.name: importlib.import_module(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recombine.")
        for alias in node.names
    }
    # Two names are chapters, too, and can be called.
    both = {"measure", "run"}
    assert set(seen) | both == set(recombine.__all__)
    assert all(callable(getattr(recombine, name)) for name in both)
    for name, module in seen.items():
        assert getattr(recombine, name) is getattr(module, name)
    with pytest.raises(AttributeError, match="no attribute 'Clever'"):
        recombine.Clever  # noqa: B018


# Completion


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return what bash offers after a line."""
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    known = {"studies": {"length": {}, "laws": {}, "toy": {}}, "zoo": {"one": "", "two": ""}}
    monkeypatch.setattr(index, "read", lambda: known)
    path = tmp_path / "completion"
    path.write_text(completion.script(["bash"]))

    def offered(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
        code = f'source {path}; {line}; _recombine; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return offered


def test_bash_completes_commands_options_choices_and_names(completed):
    assert completed("recombine", "re") == ["records", "render", "report"]
    assert completed("recombine", "render", "--co") == ["--count", "--composition"]
    assert completed("recombine", "run", "l") == ["laws", "length"]
    assert "--seeds" in completed("recombine", "run", "--se")
    assert "--seeds" in completed("recombine", "run", "toy", "--se")
    assert "zoo:two" in completed("recombine", "measure", "")
    assert completed("recombine", "detect", "READ") == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]):
    assert command_line.main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert "AUTOMATICALLY GENERATED by tyro" in script
    assert all(f"'{name}'" in script for name in COMMANDS)


# What is printed where


def test_progress_and_messages_stay_off_standard_output(capsys: pytest.CaptureFixture[str]):
    with console.image_progress("making") as watch:
        watch(3, 4)
        watch(4, 4)
    console.say("done")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "done\n"


def test_many_things_are_foretold_by_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    clock, done = iter([10.0, 16.0]), []
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(clock))
    console.tell_time_of(7, done.append, "reading")
    assert done == []
    console.tell_time_of(8, done.append, "reading")
    assert done == [2, 2]
    assert capsys.readouterr().err == "reading takes about 24 s here, by a short warm-up\n"
    console.tell_time(19.9)
    assert capsys.readouterr().err == ""


def test_json_holds_no_value_that_json_does_not_know(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.print_json("x", {}, value=float("nan"))
    assert capsys.readouterr().out == ""
