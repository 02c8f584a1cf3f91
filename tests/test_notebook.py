"""The tour as a notebook: up to date with its page, and every cell runs and prints what it says."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from recombine import __main__ as command_line
from recombine.commands.report import TOUR
from recombine.report.notebook import notebook
from recombine.results import keep
from stub_results import a_run

ROOT = Path(__file__).parents[1]
PAGE = """\
# Title

```python
>>> x = 6
>>> x * 7
42
>>> for each in range(2):
...     print(each)
0
1
>>> int("no")
Traceback (most recent call last):
...
ValueError: invalid literal for int() with base 10: 'no'
>>> y = x

```
The end.
"""


def result_of(source: str, namespace: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a cell as a notebook does; return what it prints, and its last value."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    shown = None
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    return capsys.readouterr().out + ("" if shown is None else f"{shown!r}\n")


def played(content: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Run every code cell in order, in one namespace; return how many there are."""
    namespace: dict[str, Any] = {}
    cells = [each for each in json.loads(content)["cells"] if each["cell_type"] == "code"]
    for cell in cells:
        source, outputs = "".join(cell["source"]), cell["outputs"]
        if "raises-exception" in cell["metadata"].get("tags", []):
            (output,) = outputs
            with pytest.raises(Exception) as raised:  # noqa: PT011
                result_of(source, namespace, capsys)
            assert type(raised.value).__name__ == output["ename"]
            assert str(raised.value) == output["evalue"]
            continue
        shown = result_of(source, namespace, capsys)
        stored = ["".join(each["data"]["text/plain"]) for each in outputs]
        assert shown.rstrip("\n") == "".join(stored), source
    return len(cells)


def test_the_notebook_of_the_tour_is_up_to_date():
    page = ROOT / TOUR
    text = page.read_text(encoding="utf-8")
    assert page.with_suffix(".ipynb").read_text(encoding="utf-8") == notebook(text)


def test_every_cell_of_the_tour_runs_and_prints_what_is_stored(capsys):
    content = (ROOT / TOUR).with_suffix(".ipynb").read_text(encoding="utf-8")
    assert played(content, capsys) >= 15


def test_cells_end_where_something_is_printed(capsys):
    content = notebook(PAGE)
    assert played(content, capsys) == 4
    found = json.loads(content)
    kinds = [each["cell_type"] for each in found["cells"]]
    assert kinds == ["markdown", *["code"] * 4, "markdown"]
    assert "".join(found["cells"][1]["source"]) == "x = 6\nx * 7"
    assert found["cells"][4]["outputs"] == []
    assert found["cells"][5]["source"] == ["The end."]
    assert len({each["id"] for each in found["cells"]}) == 6
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)


def test_a_wrong_stored_output_is_noticed(capsys):
    with pytest.raises(AssertionError):
        played(notebook(PAGE.replace("42", "43")), capsys)


def test_the_format_is_that_of_jupyter():
    pytest.importorskip("nbformat").validate(json.loads(notebook(PAGE)))


def test_a_block_without_examples_is_refused():
    with pytest.raises(ValueError, match="a block of code holds examples with >>>; got 'x = 1'"):
        notebook("```python\nx = 1\n```\n")


def test_report_writes_the_notebook_and_check_notices_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    keep([a_run("base", 0, {"k_max": 1.0}, study="laws")], Path("results"))
    TOUR.parent.mkdir()
    TOUR.write_text(PAGE)
    made = TOUR.with_suffix(".ipynb")
    assert command_line.main(["report", "--check"]) == 1
    assert "tour.ipynb is not what" in capsys.readouterr().err
    assert not made.exists()
    assert command_line.main(["report"]) == 0
    assert made.read_text() == notebook(PAGE)
    assert command_line.main(["report", "--check"]) == 0
    TOUR.write_text(PAGE.replace("The end", "An end"))
    assert command_line.main(["report", "--check"]) == 1
