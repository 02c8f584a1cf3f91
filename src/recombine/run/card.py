"""The card of a model, generated from its record: what it is, its numbers, its limits."""

from collections.abc import Iterator

from huggingface_hub import ModelCardData

from recombine.condition import Conditioner
from recombine.report.hub import Task, results, written
from recombine.report.table import duration, interval, markdown
from recombine.run.record import Record
from recombine.spelling import spelled
from recombine.study import Cell
from recombine.training import Training
from recombine.views import Codes, Latents

LONGEST = 160
"""Characters of a declared value on the card; all of it is in config.json."""


def card(cell: Cell, record: Record, parameters: int) -> str:
    """Return README.md of a pretrained folder; a hub reads the numbers in its head."""
    parts = [_head(cell, record), f"# {record.name}", *_about(cell.training, record, parameters)]
    return "\n\n".join([*parts, *_numbers(record), *_limits(cell.training, record)]) + "\n"


def _head(cell: Cell, record: Record) -> str:
    task = Task(record.study, record.question, cell.training.world.name)
    rows = [
        {"measurement": name, "seed": record.seed, **each.printed}
        for name, each in record.measured.items()
    ]
    data = ModelCardData(
        license="apache-2.0",
        library_name="recombine",
        tags=["compositional-generalization", task.world],
        model_name=record.name,
        eval_results=results(task, rows) or None,
    ).to_dict()
    if not rows:
        data.pop("model_name", None)
    return f"---\n{written(data)}---"


def _about(training: Training, record: Record, parameters: int) -> Iterator[str]:
    yield record.title or "A model of recombine."
    if record.question:
        yield f"The question of its study: {record.question}"
    rows = [
        ("images", f"{training.world.name}, {training.world.size} pixels"),
        ("parameters", f"{parameters:,}"),
        *((name, f"`{_short(text)}`") for name, text in training.spelled.items()),
        ("seed", str(record.seed)),
    ]
    if record.step is not None:
        rows.append(("steps taken", f"{record.step:,}"))
    if record.seconds:
        rows.append(("time", duration(record.seconds)))
    yield "## What it was trained on"
    yield markdown(("", ""), rows)
    yield "`config.json` has every value in full. Load it with"
    yield '```python\nimport recombine\n\nmodel = recombine.load("this folder")\n```'
    if record.command:
        yield f"and train it again with `{record.command}`."


def _numbers(record: Record) -> Iterator[str]:
    yield "## Measurements"
    if not record.measured:
        yield "Nothing was measured of it."
        return
    rows = [
        (name, interval(each.value, each.low, each.high), f"{each.n:,}")
        for name, each in record.measured.items()
    ]
    yield markdown(("measurement", "value [95 % interval]", "n"), rows)
    yield "Intervals are within this one seed. `recombine measure FOLDER` measures it again."


def _limits(training: Training, record: Record) -> Iterator[str]:
    limits = [
        f"It knows images of the world `{training.world.name}` and nothing else: no number here "
        "says anything of other images."
    ]
    if training.conditioner != Conditioner():
        limits.append(f"Its condition is `{_short(spelled(training.conditioner))}`, not a text.")
    if isinstance(training.view, Latents | Codes):
        limits.append(f"It works on what the tokenizer `zoo:{training.view.name}` makes of images.")
    if record.tiny:
        limits.append("It was trained for seconds, to see that everything runs.")
    if record.note:
        limits.append(record.note)
    yield "## Limits"
    yield "\n".join(f"* {each}" for each in limits)
    yield "## License"
    yield "Apache-2.0, like the package."


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
