"""docs/json.md is what commands print: tests/json_schema.py looks at all that any test prints."""

from typing import Any

import pytest

from json_schema import check, documented
from recombine.__main__ import main
from recombine.commands import COMMANDS, command, index, options_of

NUMBER = {"value": 1, "low": None, "high": None, "n": 2}


def test_every_command_that_prints_json_is_on_the_page():
    prints = [name for name in COMMANDS if hasattr(options_of(command(name)), "json")]
    assert sorted(documented()) == sorted(prints)


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": "x", "measurements": {}},
        {"subject": "x", "measurements": {}, "images": [], "more": 1},
        {"subject": 3, "measurements": {}, "images": []},
        {"subject": "x", "measurements": {"a": {"value": 1}}, "images": []},
        {"subject": "x", "measurements": {"a": {**NUMBER, "low": 0}}, "images": []},
    ],
)
def test_what_is_not_on_the_page_is_noticed(wrong: dict[str, Any]):
    check("detect", {"subject": "x", "measurements": {"a": NUMBER}, "images": []})
    with pytest.raises(AssertionError):
        check("detect", wrong)


def test_what_a_command_prints_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "read", lambda: {"worlds": {}, "more": {}})
    assert main(["list", "worlds", "--json"]) == 0
    with pytest.raises(AssertionError, match=r"list --json has \['more', 'worlds'\]"):
        main(["list", "--json"])
