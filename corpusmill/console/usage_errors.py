"""Mistakes on the command line, each in one message with the value, the cause and the cure."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import tyro
from tyro import _errors as events

from corpusmill.errors import UserError

_KINDS = {"INT": "a whole number", "FLOAT": "a number", "STR": "a value", "{None}": "None"}


def explain_mistakes(
    prog: str, command: Any, arguments: Sequence[str]
) -> AbstractContextManager[None]:
    """Let the parser raise a UserError for what it would print in a box, while the block runs.

    Args:
        prog: what the user typed before the arguments ("corpusmill bert").
        command: the dataclass of the command's options; None where there is no command.
        arguments: what is parsed.
    """

    def explain(event: events.ParseErrorEvent) -> None:
        error = _explain(event, prog, command, arguments)
        if error:
            raise error

    return events.on_parse_error(explain)


def refuse_command(name: str, names: Sequence[str]) -> UserError:
    """The error for a command that does not exist.

    Args:
        name: as the user typed it.
        names: of the commands.
    """
    return UserError(name, "there is no such command", _suggest(name, names))


# The types of values that are given without a name.
POSITIONAL = (tyro.conf.Positional[str], tyro.conf.Positional[tuple[str, ...]])


def list_options(command: Any) -> Iterator[str]:
    """Yield the options of a command, or of options that are part of it.

    Args:
        command: a dataclass or a typed dictionary.

    Example:
        of a dataclass with `seed: int` and `wait: bool` the options are --seed, --wait and
        --no-wait.
    """
    for field, parts, hint in _fields(command):
        for _, part in parts:
            yield from list_options(part)
        if not parts and hint not in POSITIONAL:
            name = field.replace("_", "-")
            yield f"--{name}"
            if hint is bool:
                yield f"--no-{name}"


def list_subcommands(command: Any) -> Iterator[str]:
    """Yield the names of the options that follow a command as one word, such as objectives."""
    for _, parts, _ in _fields(command):
        yield from (name for name, _ in parts if name)


def _fields(command: Any) -> Iterator[tuple[str, list[tuple[str, Any]], Any]]:
    """Yield name, parts and type of each field; a part has the name of its word, and a class."""
    hints = get_type_hints(command, include_extras=True).items()
    for field, hint in ((name, hint) for name, hint in hints if get_origin(hint) is not ClassVar):
        is_union = get_origin(hint) in {Union, UnionType}
        parts = []
        for member in get_args(hint) if is_union else (hint,):
            kind, *marks = get_args(member) if get_origin(member) is Annotated else (member,)
            if is_dataclass(kind) or is_typeddict(kind):
                names = [mark.name for mark in marks if hasattr(mark, "name")]
                parts.append((names[0] if names else "", kind))
        yield field, parts, hint


def _explain(
    event: events.ParseErrorEvent, prog: str, command: Any, arguments: Sequence[str]
) -> UserError | None:
    """The error for what the parser found; None where its own message is as good."""
    error = None
    match event:
        case events.UnrecognizedArgs(tokens=tokens) if tokens:
            error = _refuse_words(tokens, prog, command)
        case events.MissingArgs(unrecognized_tokens=tokens) if tokens:
            error = _refuse_words(tokens, prog, command)
        case events.MissingArgs(missing_arguments=missing):
            names = [_name(entry.arg) for entry in missing]
            cause, object_ = ("it is", "it") if len(names) == 1 else ("they are", "them")
            cure = f"Give {object_}; {prog} --help explains all options"
            error = UserError(", ".join(names), f"{cause} missing", cure)
        case events.MissingSubcommand(subcommand_spec=commands):
            cure = f"Give one of {', '.join(commands.parser_from_name)}"
            error = UserError(prog, "a command is missing", cure)
        case events.InvalidChoice(argument=argument, value=value, choices=choices):
            cause = "the option does not have this value"
            error = UserError(f"{_name(argument)} {value}", cause, _suggest(value, choices))
        case events.BadValue(argument=argument, offending_value=None):
            cure = f"Give {_expect(argument)}; {prog} --help explains all options"
            error = UserError(_name(argument), "its value is missing", cure)
        case events.InstantiationFailure(argument=argument) if argument is not None:
            expected = _expect(argument)
            value = " ".join([_name(argument), *_values_of(argument, arguments)])
            error = UserError(value, f"the value is not {expected}", f"Give {expected}")
    return error


def _refuse_words(words: Sequence[str], prog: str, command: Any) -> UserError:
    """The error for words that the parser does not know."""
    options = [word for word in words if word.startswith("-")]
    see = f"{prog} --help explains all options"
    if command is None:
        return UserError(words[0], "the command comes before its options", see)
    if not options:
        if names := list(list_subcommands(command)):
            return UserError(words[0], "there is no such objective", _suggest(words[0], names))
        cause = "it is neither an option nor the value of one"
        return UserError(words[0], cause, f"Leave it out, or quote a value that has spaces; {see}")
    name = options[0].partition("=")[0].replace("_", "-")
    known = dict.fromkeys(list_options(command))
    if name in known:
        cause = "it is on the wrong side of the objective"
        cure = "The objective's own options follow its name, all others come before it"
        return UserError(options[0], cause, f"{cure}; {see}")
    close = get_close_matches(name, known, 2)
    cure = f"Did you mean {' or '.join(close)}? " if close else ""
    return UserError(options[0], "there is no such option", f"{cure}{see}")


def _suggest(value: str, choices: Sequence[str]) -> str:
    close = get_close_matches(value, choices, 2)
    others = f"Give one of {', '.join(choices)}"
    return f"Did you mean {' or '.join(close)}? {others}" if close else others


def _name(argument: Any) -> str:
    """The option as it is typed, or the name of a value without one."""
    if argument.is_positional():
        return str(argument.display_name())
    return str(argument.lowered.name_or_flags[0])


def _expect(argument: Any) -> str:
    """The values that an option takes, in words.

    Example:
        "{None}|INT" are "None or a whole number".
    """
    shown = str(argument.lowered.metavar or "")
    parts = [_KINDS.get(part, part) for part in shown.split("|")]
    # What is there by default comes last.
    return " or ".join(sorted(parts, key=lambda part: part == "None")) or "a value"


def _values_of(argument: Any, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the values that were given for an option."""
    is_own = False
    for word in arguments:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            is_own = name.replace("_", "-") in argument.lowered.name_or_flags
            if is_own and equals:
                yield value
        elif is_own:
            yield word
