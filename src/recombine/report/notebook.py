"""A page of doctests as a Jupyter notebook: text cells, code cells and what they print.

A code cell ends where something is printed, as a notebook shows the last value of a cell only.
What a cell prints is stored with it. One that raises, as the page says it does, is marked with
`raises-exception`, so that a notebook that is run as a whole goes on.
"""

import doctest
import json
import re
from collections.abc import Iterator
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def notebook(page: str) -> str:
    """Return the page as the content of an .ipynb file; the same page gives the same file."""
    parts = _BLOCK.split(page)
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        if number % 2:
            cells += code_cells(part)
        elif part.strip():
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(part.strip())})
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def code_cells(block: str) -> Iterator[dict[str, Any]]:
    """Yield the cells of a block of examples, and check that it holds nothing else."""
    source = ""
    examples = doctest.DocTestParser().get_examples(block)
    if not examples:
        raise ValueError(f"a block of code holds examples with >>>; got {block.strip()!r}")
    for example in examples:
        source += example.source
        if example.want or example is examples[-1]:
            yield _code(source, example)
            source = ""


def _code(source: str, example: doctest.Example) -> dict[str, Any]:
    tags = ["raises-exception"] if example.exc_msg else []
    found = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": tags} if tags else {},
    }
    return {**found, "outputs": _outputs(example), "source": _lines(source.rstrip("\n"))}


def _outputs(example: doctest.Example) -> list[dict[str, Any]]:
    if example.exc_msg:
        name, _, says = example.exc_msg.strip().partition(": ")
        return [{"output_type": "error", "ename": name, "evalue": says, "traceback": []}]
    if not example.want:
        return []
    data = {"text/plain": _lines(example.want.rstrip("\n"))}
    result = {"output_type": "execute_result", "execution_count": None}
    return [{**result, "metadata": {}, "data": data}]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
