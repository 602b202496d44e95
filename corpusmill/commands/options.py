"""The options of a command one by one, as its dataclasses declare and document them."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from textwrap import dedent
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from corpusmill.commands.command import Choices, Command
from corpusmill.console.usage_errors import POSITIONAL


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        name: with underscores, as the dataclass has it.
        hint: its type.
        default: the default; `dataclasses.MISSING` where the option must be given, and None for one
            that may be left out without having a default.
        text: its documentation.
        group: what it has in common with the options beside it, in words.
        subcommand: the word that must come before it, such as an objective; empty for most.
    """

    name: str
    hint: Any
    default: Any
    text: str
    group: str
    subcommand: str = ""

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def is_positional(self) -> bool:
        """Whether its value is given without its name."""
        return self.hint in POSITIONAL

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that its value may have, without marks of the parser."""
        hint = get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint
        return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that it may have, if they are listed."""
        return tuple(
            value
            for kind in self.kinds
            if get_origin(kind) is Literal
            for value in get_args(kind)
            if value is not None
        )


def options_of(command: Command, subcommand: str = "") -> list[Option]:
    """List the options of a command.

    Args:
        command: the command.
        subcommand: the word whose options are wanted, for a command with such words; by default
            that of the command.
    """
    return list(_walk(command.options, command.choices, subcommand))


def subcommands_of(command: Command) -> tuple[str, ...]:
    """The words of which one may follow the other options, such as objectives; mostly none."""
    hints = get_type_hints(command.options, include_extras=True).values()
    return tuple(name for hint in hints for name in _name_parts(hint))


@cache
def document_fields(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class and of its bases, each as one line.

    Example:
        A class with `seed: int = 0` and, on the next line, a string that says "The seed." gives
        {"seed": "The seed."}.
    """
    texts: dict[str, str] = {}
    for base in kind.__bases__:
        texts |= {} if base.__module__ == "builtins" else document_fields(base)
    try:
        [body] = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, SyntaxError):  # a class that a program has made
        return texts
    assert isinstance(body, ast.ClassDef)  # noqa: S101  it is the source of a class
    for statement, following in pairwise(body.body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            texts[statement.target.id] = " ".join(str(following.value.value).split())
    return texts


def summarize(kind: Any) -> str | None:
    """Return the first paragraph of the docstring of a class of options, as one line."""
    if not is_dataclass(kind) and not is_typeddict(kind):
        return None
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _walk(kind: Any, choices: Choices, subcommand: str) -> Iterator[Option]:
    group = summarize(kind) or ""
    declared: Mapping[str, Field[Any]] = {}
    if is_dataclass(kind):
        declared = {field.name: field for field in fields(kind)}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is ClassVar:
            continue
        parts = _name_parts(hint)
        if is_dataclass(hint) or is_typeddict(hint):
            yield from _walk(hint, choices, subcommand)
            continue
        default = default_of(declared[name]) if name in declared else None
        text = document_fields(kind).get(name, "")
        if parts:
            usual = next(word for word, part in parts.items() if isinstance(default, part))
            yield Option(name, Literal[tuple(parts)], usual, text, group)
            word = subcommand or usual
            for option in _walk(parts[word], choices, subcommand):
                yield replace(option, subcommand=word)
            continue
        listed = choices.get((kind, name))
        yield Option(name, Literal[listed] if listed else hint, default, text, group)


def _name_parts(hint: Any) -> dict[str, Any]:
    """The classes of a union of options, by the words that choose them."""
    if get_origin(hint) not in {Union, UnionType}:
        return {}
    return {
        mark.name: get_args(member)[0]
        for member in get_args(hint)
        if get_origin(member) is Annotated
        for mark in get_args(member)[1:]
        if getattr(mark, "name", None)
    }


def default_of(field: Field[Any]) -> Any:
    """Return the default of an option; `dataclasses.MISSING` where it must be given."""
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING
