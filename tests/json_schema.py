"""docs/json.md as a check: every object that a test has printed must be what the page says."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/json.md"
COMMANDS = "recombine.commands."
ROW = re.compile(r"^\| (\w+) \| [^|]+ \|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """Return of each command the keys that it always prints, and those that it may print."""
    rows = ROW.findall(PAGE.read_text())[1:]
    return {name: (_keys(always), _keys(sometimes)) for name, always, sometimes in rows}


def _keys(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def check(command: str, printed: dict[str, Any]) -> None:
    """Raise unless an object is what the page says of a command."""
    assert isinstance(printed["subject"], str)
    for measured in printed["measurements"].values():
        assert [*measured] == ["value", "low", "high", "n"]
        assert (measured["low"] is None) == (measured["high"] is None)
    always, may = documented()[command]
    keys = set(printed) - {"subject", "measurements"}
    assert always <= keys <= always | may, f"{command} --json has {sorted(keys)}: see docs/json.md"


def checked(result: dict[str, Any], **settings: Any) -> str:
    """Return the text of an object, after a look at it; the caller's file names the command."""
    text = json.dumps(result, **settings)
    modules = [frame.frame.f_globals.get("__name__", "") for frame in inspect.stack(0)]
    files = [name.removeprefix(COMMANDS) for name in modules if name.startswith(COMMANDS)]
    if commands := [name for name in files if name != "console"]:
        check("list" if commands[0] == "listing" else commands[0], json.loads(text))
    return text
