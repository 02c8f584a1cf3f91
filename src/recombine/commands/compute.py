"""`recombine run` of what is computed, not trained: its own fields become options."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from recombine.commands import choice, console
from recombine.commands import run as training
from recombine.commands.console import print_json, say
from recombine.commands.parse import UNSET, parsed
from recombine.compute import Calculation, compute
from recombine.experiment import Computation, Watched
from recombine.experiments import declared
from recombine.report.origin import source_digest
from recombine.report.record import Record
from recombine.report.words import nearest

_TAKEN = ("question", "headline")
"""Fields that say what is asked: to change them would be another question."""


@dataclass(frozen=True)
class Options:
    """Compute and write runs/NAME/VARIANT/seedK/record.json; nothing is trained.

    What was computed before is not computed again.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME[:VARIANT]")]
    """What to compute (see recombine list)."""
    tiny: bool = False
    """Shrink to a second: does it run at all?"""
    seed: int = 0
    """Where the random numbers start."""
    device: Annotated[str | None, UNSET] = None
    """Where to compute: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    out: Path = Path("runs")
    """Folder for the records."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def named(words: Sequence[str]) -> list[str]:
    """Return the computations that these words name; none when the first name is another."""
    before = ["", *words]
    names = [
        word
        for word, last in zip(words, before, strict=False)
        if last not in ("--out", "--device") and word.partition(":")[0] in declared()
    ]
    if not names or not _computations(names[0].partition(":")[0]):
        return []
    for name in names:
        if not _computations(name.partition(":")[0]):
            raise ValueError(f"{names[0]} is computed and {name} is trained; run one at a time")
    return names


def run(names: Sequence[str], words: Sequence[str]) -> int:
    """Compute every variant that is named, and draw the figures."""
    chosen = [pair for text in names for pair in training.chosen_variants(text)]
    values = [_computations(name)[variant] for name, variant in chosen]
    settable = shared_fields(values)
    _check(words, settable, names[0])
    program = f"recombine run {names[0]}"
    options: Any = parsed(options_of(settable, values, program), program, words)
    device = choice.chosen_device(options.device)
    typed = {name: getattr(options, name) for name in settable}
    overrides = {name: text for name, text in typed.items() if text is not None}
    records: list[tuple[Calculation, Record]] = []
    for (name, variant), value in zip(chosen, values, strict=True):
        value = overridden(value.tiny() if options.tiny else value, overrides)
        plan = Calculation(name, variant, value, options.seed, options.tiny, overrides)
        announce_kept(plan, options.out)
        with progress(plan) as watch:
            record = compute(plan, device, options.out, watch)
        records.append((plan, record))
        training.announce(plan, record, options.out)
    drawn = training.draw(records, options.out)
    if options.json:
        runs = [training.described(*each) for each in records]
        print_json({**(runs[0] if len(runs) == 1 else {"runs": runs}), "figures": drawn})
    return 0


def announce_kept(plan: Calculation, out: Path) -> None:
    """Say when nothing is computed, and why that may surprise."""
    if kept := plan.kept(out):
        where = plan.folder(out) / "record.json"
        changed = "" if kept.source == source_digest() else " by other code; remove it to redo it"
        say(f"{plan.name}:{plan.variant}: {where} was computed before{changed}")


@contextmanager
def progress(plan: Calculation) -> Iterator[Watched]:
    """Show a bar of the parts that are done."""
    with console.bar() as bar:
        task = bar.add_task(f"{plan.name}:{plan.variant}", total=None, speed="")

        def watch(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield watch


def shared_fields(values: Sequence[Any]) -> dict[str, Any]:
    """Return the fields that can be set on the command line, with their types.

    Those are the fields that all have: numbers, words, yes or no, and tuples of them.
    """
    reserved = {each.name for each in fields(Options)} | set(_TAKEN)
    hints = [get_type_hints(type(value)) for value in values]
    return {
        each.name: hints[0][each.name]
        for each in fields(values[0])
        if each.name not in reserved
        and all(hint.get(each.name) == hints[0][each.name] for hint in hints)
        and _metavar(hints[0][each.name])
    }


def options_of(settable: Mapping[str, Any], values: Sequence[Any], program: str) -> type:
    """Return the options of a command that computes these values."""
    said = documented(type(values[0]))
    made = []
    for name, hint in settable.items():
        default = spelled_out(getattr(values[0], name))
        help_text = f"{said.get(name, '')} (default: {default})".strip()
        marks = tyro.conf.arg(metavar=_metavar(hint), help=help_text, help_behavior_hint="")
        made.append((name, Annotated[str | None, marks], field(default=None)))
    kind = make_dataclass("Options", made, bases=(Options,), frozen=True)
    example = f"Example: {program} --seed 1 --json"
    kind.__doc__ = f"{values[0].question}\n\n{inspect.getdoc(Options)}\n\n{example}"
    return kind


def documented(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, which Python itself forgets."""
    said: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        except (OSError, TypeError):
            continue
        lines = getattr(body, "body", [])
        for line, after in zip(lines, lines[1:], strict=False):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                text = after.value if isinstance(after, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    said[line.target.id] = " ".join(text.value.split())
    return said


def overridden(value: Computation, overrides: Mapping[str, str]) -> Computation:
    """Return the computation with these fields set, from the words that were typed."""
    hints = get_type_hints(type(value))
    changed = {name: typed(text, hints[name], name) for name, text in overrides.items()}
    declared_value: Any = value
    return replace(declared_value, **changed)


def typed(text: str, hint: Any, name: str) -> Any:
    """Read the value of a field: 3, 0.5, yes, 1,2 or none."""
    option = f"--{name.replace('_', '-')}"
    kinds = _kinds(hint)
    if NoneType in kinds and text == "none":
        return None
    (kind,) = [each for each in kinds if each is not NoneType]
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return tuple(_read(part, inner, option, "numbers such as 1,2", text) for part in parts)
    return _read(text, kind, option, _WORDS.get(kind, ""), text)


def spelled_out(value: Any) -> str:
    """Write a value as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(spelled_out, value))
    return "none" if value is None else str(value)


def _yes_or_no(text: str) -> bool:
    return {"yes": True, "no": False, "true": True, "false": False}[text.lower()]


_READ: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, bool: _yes_or_no}
_WORDS = {int: "a whole number", float: "a number", bool: "yes or no"}
_METAVARS = {int: "N", float: "X", str: "TEXT", bool: "yes|no"}


def _read(text: str, kind: Any, option: str, expected: str, whole: str) -> Any:
    if get_origin(kind) is Literal:
        known = [str(each) for each in get_args(kind)]
        if text not in known:
            listed = ", ".join(known)
            raise ValueError(f"{option} is one of {listed}; got {whole!r}{nearest(text, known)}")
        return get_args(kind)[known.index(text)]
    try:
        return _READ[kind](text)
    except (ValueError, KeyError):
        raise ValueError(f"{option} is {expected}; got {whole!r}") from None


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types that a field may have; a whole number is a number too."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(each for each in kinds if each is not int or float not in kinds)


def _metavar(hint: Any) -> str:
    """Return what stands for the value in the help; nothing when it cannot be typed."""
    kinds = [each for each in _kinds(hint) if each is not NoneType]
    if len(kinds) != 1:
        return ""
    if get_origin(kinds[0]) is Literal:
        return "|".join(map(str, get_args(kinds[0])))
    if get_origin(kinds[0]) is tuple and get_args(kinds[0])[1:] == (...,):
        inner = _METAVARS.get(get_args(kinds[0])[0], "")
        return f"{inner},..." if inner else ""
    return _METAVARS.get(kinds[0], "") if isinstance(kinds[0], type) else ""


def _computations(name: str) -> dict[str, Computation]:
    """Return the variants of a file that are computed."""
    found = declared().get(name, {})
    return {key: each for key, each in found.items() if isinstance(each, Computation)}


def _check(words: Sequence[str], settable: Mapping[str, Any], name: str) -> None:
    """Raise on an option that is of no use here, and name the one that may be meant."""
    known = [*(each.name for each in fields(Options) if each.name != "names"), *settable, "help"]
    of_training = {each.name for each in fields(training.Options)}
    for word in words:
        option = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if not word.startswith("--") or option in known:
            continue
        meant = nearest(option, known).replace("_", "-").replace("mean ", "mean --")
        if option in of_training:
            raise ValueError(f"--{option.replace('_', '-')} is for training; {name} is computed")
        raise ValueError(
            f"{word.partition('=')[0]} is not an option of {name}{meant} "
            f"(see recombine run {name} --help)"
        )
