"""What each image should show: tensors or words, a table, or prompts with their files.

A table has the column `file` and columns that are factors; an empty cell leaves a factor open, and
several rows of one file are several objects. Prompts are a JSON list, or a line of JSON each, as
text-to-image benchmarks have them:

    [{"prompt": "a small blue triangle", "files": ["0/0.png", "0/1.png"]},
     {"include": [{"class": "cube", "color": "red", "count": 2}], "files": ["1/0.png"]}]

`include` lists the objects by factors (`class` is the shape, `color` the colour, `count` is 1 where
it is left out); without it, the concepts are the words of the prompt, at most one for each factor.
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from recombine.report.words import nearest
from recombine.scene import Factor
from recombine.scoring.matching import ABSENT, ANY
from recombine.worlds.files.folder import parsed, text

Wanted: TypeAlias = tuple[str, ...] | Mapping[str, str]
"""One concept for each factor, or those that are named."""
Labelled: TypeAlias = Tensor | Sequence[Wanted | Sequence[Wanted]]
"""Of each image: concept numbers, or words of one object, or of several."""

FILE = "file"
_ALSO = {"class": "shape", "color": "colour"}
_NOTES = ("tag", "prompt", "include", "files")


def requests_of(
    labels: Labelled, factors: Sequence[Factor], most: int
) -> Int[Tensor, "image object factor"]:
    """Return labels as concept numbers, with room for the most objects of an image."""
    if isinstance(labels, Tensor):
        return _checked(labels, factors, most)
    rows = []
    for number, label in enumerate(labels):
        objects: Any = [label] if isinstance(label, Mapping) or _is_one(label) else label
        try:
            if not 1 <= len(objects) <= most:
                raise ValueError(f"an image shows 1 to {most} objects; got {len(objects)}")
            numbers = [concept_numbers(each, factors) for each in objects]
        except ValueError as error:
            raise ValueError(f"label {number}: {error}") from None
        absent = [[ABSENT] * len(factors)] * (most - len(numbers))
        rows.append([*numbers, *absent])
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), most, len(factors))


def _is_one(label: Any) -> bool:
    return all(isinstance(each, str) for each in label)


def _checked(
    numbers: Tensor, factors: Sequence[Factor], most: int
) -> Int[Tensor, "image object factor"]:
    """Return labels that are numbers already, one object or several of each image."""
    numbers = numbers.cpu().long()
    numbers = numbers[:, None] if numbers.dim() == 2 else numbers
    if numbers.dim() != 3 or numbers.shape[2] != len(factors) or numbers.shape[1] > most:
        raise ValueError(
            f"labels have the shape (image, {len(factors)}), or (image, object, {len(factors)}) "
            f"of at most {most} objects; got {tuple(numbers.shape)}"
        )
    counts = torch.tensor([len(each.concepts) for each in factors])
    absent = (numbers == ABSENT).all(dim=2)
    bad = ((numbers < ANY) | (numbers >= counts)) & ~absent[..., None]
    if bad.any():
        number, _, factor = bad.nonzero()[0].tolist()
        raise ValueError(
            f"label {number}: {factors[factor].name} is a number from 0 to {counts[factor] - 1}, "
            f"or {ANY} where it is not named; got {int(numbers[bad][0])}"
        )
    if absent.all(dim=1).any():
        number = int(absent.all(dim=1).nonzero()[0])
        raise ValueError(f"label {number}: an image shows 1 to {most} objects; got 0")
    missing = most - numbers.shape[1]
    return torch.nn.functional.pad(numbers, (0, 0, 0, missing), value=ABSENT)


def concept_numbers(wanted: Wanted, factors: Sequence[Factor]) -> list[int]:
    """Return the concept numbers of one object; ANY where a factor is not named."""
    names = [each.name for each in factors]
    if not isinstance(wanted, Mapping):
        if len(wanted) != len(factors):
            raise ValueError(f"a composition is of {', '.join(names)}; got {', '.join(wanted)}")
        wanted = dict(zip(names, wanted, strict=True))
    for name in wanted:
        if name not in names:
            raise ValueError(f"{name!r} is not one of {', '.join(names)}{nearest(name, names)}")
    return [each.index(wanted[each.name]) if wanted.get(each.name) else ANY for each in factors]


def table(path: Path, factors: Sequence[Factor]) -> dict[str, list[Mapping[str, str]]]:
    """Return the objects of each file of a table, in the order of the table."""
    lines = csv.reader(text(path).splitlines())
    head = [_ALSO.get(each.strip(), each.strip()) for each in next(lines, [])]
    names = [each.name for each in factors]
    if FILE not in head or not set(head) & set(names):
        raise ValueError(
            f"{path} begins with the names of its columns: {FILE}, {', '.join(names)}; "
            f"got {', '.join(head) or 'nothing'}"
        )
    found: dict[str, list[Mapping[str, str]]] = {}
    for cells in lines:
        if not any(cells):
            continue
        where = f"{path}, line {lines.line_num}"
        if len(cells) != len(head):
            raise ValueError(f"{where} has {len(cells)} cells; expected {len(head)}")
        row = dict(zip(head, (each.strip() for each in cells), strict=True))
        name = row.pop(FILE)
        _check(row, factors, where)
        found.setdefault(name, []).append(row)
    if not found:
        raise ValueError(f"{path} labels no image")
    return found


def prompts(path: Path, factors: Sequence[Factor]) -> dict[str, list[Mapping[str, str]]]:
    """Return the objects of each file of a list of prompts."""
    entries: Any = _lines(path) if path.suffix == ".jsonl" else parsed(path)
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{path} is a list of objects with `files`, and `include` or `prompt`")
    found: dict[str, list[Mapping[str, str]]] = {}
    for number, entry in enumerate(entries):
        where = f"{path}, entry {number}"
        files = entry.get("files") if isinstance(entry, dict) else None
        if not isinstance(files, list) or not all(isinstance(each, str) for each in files):
            raise ValueError(f"{where} has no list of names called `files`")
        objects = _objects(entry, factors, where)
        for each in files:
            if each in found:
                raise ValueError(f"{where}: {each} has an entry before this one")
            found[each] = objects
    return found


def _objects(
    entry: Mapping[str, Any], factors: Sequence[Factor], where: str
) -> list[Mapping[str, str]]:
    """Return what an entry includes, or what the words of its prompt name."""
    if "include" not in entry:
        objects: Any = [_words(str(entry.get("prompt", "")), factors, where)]
    else:
        objects = []
        for each in entry["include"] if isinstance(entry["include"], list) else [None]:
            if not isinstance(each, dict) or not isinstance(each.get("count", 1), int):
                raise ValueError(
                    f"{where}: `include` is a list of objects such as {{shape, count}}"
                )
            named = {_ALSO.get(name, name): str(v) for name, v in each.items() if name != "count"}
            objects += [named] * each.get("count", 1)
    for each in objects:
        _check(each, factors, where)
    return list(objects)


def _words(prompt: str, factors: Sequence[Factor], where: str) -> Mapping[str, str]:
    """Return the concept of each factor that stands in a prompt."""
    words = re.findall(r"\w+", prompt.lower())
    named: dict[str, str] = {}
    for factor in factors:
        there = [each for each in factor.concepts if each in words]
        if len(there) > 1:
            raise ValueError(
                f"{where}: the prompt names {' and '.join(there)}; say with `include` which "
                "object has which"
            )
        named |= dict.fromkeys([factor.name] * len(there), there[0] if there else "")
    if not named:
        raise ValueError(f"{where}: no concept of the world is a word of the prompt {prompt!r}")
    return named


def _check(row: Mapping[str, str], factors: Sequence[Factor], where: str) -> None:
    try:
        concept_numbers(row, factors)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in text(path).splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not a line of JSON for each prompt: {error}") from None
