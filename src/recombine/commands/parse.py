"""From words on the command line to a dataclass of options, or to one line that says why not."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import tyro

# The only place where tyro says what is wrong as data (docs/decisions/028).
from tyro import _errors as refusals

from recombine.commands.grammar import registry
from recombine.report.words import listed, nearest


def parsed(
    kind: type[Any],
    program: str,
    words: Sequence[str],
    config: Sequence[Any] = (tyro.conf.FlagCreatePairsOff,),
    **settings: Any,
) -> Any:
    """Read the options of a command; what is wrong with them is one line of a ValueError.

    Further settings are those of `tyro.cli`.
    """
    with refusals.on_parse_error(_refusal(kind, program, words)):
        return tyro.cli(
            kind, prog=program, args=words, config=config, registry=registry(), **settings
        )


def recognized(kind: type[Any], program: str, words: Sequence[str]) -> Any:
    """Read the options of a command; return them and the words that are not among them.

    With `--help` as the first word it shows these options; after a name, `--help` is left over,
    for the options of what is named.
    """
    helped = not words or words[0].startswith("-")
    return parsed(kind, program, words, return_unknown_args=True, add_help=helped)


def overridden(value: Any, words: Sequence[str], program: str) -> Any:
    """Return a frozen dataclass value with the fields set that the words name.

    What cannot be typed, such as a function, is no option.
    """
    says = "Fields that can be set, beside the options of the command itself."
    config = (tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)
    return parsed(type(value), program, words, config, default=value, description=says)


def _refusal(
    kind: type[Any], program: str, words: Sequence[str]
) -> Callable[[refusals.ParseErrorEvent], None]:
    """Return what is called with tyro's reason to refuse, and raises it as one line."""
    options = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(kind)
        if tyro.conf.Positional not in getattr(field.type, "__metadata__", ())
    ]

    def refuse(event: refusals.ParseErrorEvent) -> None:
        if reason := _reason(event, options, words):
            raise ValueError(f"{reason} (see {program} --help)") from None

    return refuse


def _reason(
    event: refusals.ParseErrorEvent, options: Sequence[str], words: Sequence[str]
) -> str | None:
    """Return what is wrong in words; nothing where tyro's own box has to do."""
    match event:
        # A mistyped option takes the next words with it, so it may be why one is missing.
        case (
            refusals.UnrecognizedArgs(tokens=[word, *_])
            | refusals.MissingArgs(unrecognized_tokens=[word, *_])
        ):
            return _unrecognized(word, options)
        case refusals.BadValue(argument=argument) if argument.is_positional():
            mistyped = [word for word in words if _is_option(word) and _option(word) not in options]
            return _unrecognized(mistyped[0] if mistyped else words[-1], options)
        case refusals.MissingArgs(missing_arguments=missing):
            return f"{listed(_name(each.arg) for each in missing)} is missing"
        case refusals.BadValue(argument=argument, reason="too_few_values"):
            return f"{_name(argument)} needs a value, {argument.lowered.metavar}"
        case refusals.InvalidChoice(argument=argument, value=value, choices=choices):
            known = ", ".join(choices)
            meant = nearest(value, choices)
            return f"{_name(argument)}: expected one of {known}, got {value!r}{meant}"
        case refusals.InstantiationFailure(argument=None, message=message):
            return message
        case refusals.InstantiationFailure(argument=argument, message=message):
            return f"{_name(argument)}: {message}"
    return None


def _unrecognized(word: str, options: Sequence[str]) -> str:
    """Return what is wrong with a word that is no option and no value of one."""
    if not _is_option(word):
        return f"{word!r} is one too many"
    option = _option(word)
    if option in options:
        return f"{option} cannot be set on the command line"
    return f"{option} is not an option{nearest(option, options)}"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.lstrip("-")[:1].isalpha()


def _option(word: str) -> str:
    """Return --the-option of the word --the_option=5."""
    return word.partition("=")[0].replace("_", "-")


def _name(argument: Any) -> str:
    """Return what the help calls an argument: --count, or WORLD."""
    if argument.is_positional():
        return str(argument.lowered.metavar)
    return "/".join(argument.lowered.name_or_flags)
