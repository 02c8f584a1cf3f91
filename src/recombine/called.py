"""Chapters that share their name with a public function: `recombine.measure(model, "length")`.

`recombine.measure` and `recombine.run` are packages, and calling them calls the function of that
name in `recombine.api`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CalledChapter(ModuleType):
    """A package that can be called."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module("recombine.api"), name)(*given, **named)


def also_a_function(chapter: str) -> None:
    """Let a chapter be called."""
    sys.modules[chapter].__class__ = CalledChapter
