"""The options of a dataclass one by one, as it declares and documents them."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from textwrap import dedent
from types import NoneType, UnionType
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

from corpusmill.errors import UserError, option, suggest

# The types of options whose values are given by their place, and not after a name.
Positional = Annotated[str, "positional"]
Positionals = Annotated[tuple[str, ...], "positional"]

# The values of an option whose type does not list them, by its class and its name.
Choices = Mapping[tuple[type, str], tuple[str, ...]]


# How messages call the types of values.
IN_WORDS = {
    int: "a whole number", float: "a number", str: "a text", bool: "True or False",
    NoneType: "None",
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        name: with underscores, as the dataclass has it.
        hint: its type.
        default: the default; `dataclasses.MISSING` where the option must be given, and None for one
            that may be left out without having a default.
        document: returns its documentation, in one line. It is read from the source of the class
            when it is shown.
        title: of the group of options that it belongs to ("run options").
        group: what it has in common with the options beside it, in words.
        constraints: what its value must be beyond its type (`corpusmill.settings.constraints`).
    """

    name: str
    hint: Any
    default: Any
    document: Callable[[], str]
    title: str
    group: str
    constraints: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """Its documentation, in one line; empty without any."""
        return self.document()

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def is_positional(self) -> bool:
        """Whether its value is given without its name."""
        return self.hint in {Positional, Positionals}

    @property
    def is_switch(self) -> bool:
        """Whether it is set by its name alone."""
        return self.hint is bool

    @property
    def is_list(self) -> bool:
        """Whether it takes any number of values."""
        return any(get_origin(kind) is tuple for kind in self.kinds)

    @property
    def flag(self) -> str:
        """The option on the command line; a name that Python reserves ends with an underscore."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that its value may have."""
        hint = get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint
        return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)

    @cached_property
    def choices(self) -> tuple[Any, ...]:
        """The values that it may have, if they are listed."""
        kinds = [one for kind in self.kinds for one in (kind, *get_args(kind))]
        listed = (get_args(kind) for kind in kinds if get_origin(kind) is Literal)
        return tuple(value for values in listed for value in values if value is not None)

    @property
    def alone(self) -> Any:
        """Its value where it is given without one; None if it cannot be."""
        return next(filter(None, (getattr(one, "alone", None) for one in self.constraints)), None)

    def check_size(self, value: Any) -> None:
        """Refuse a whole number that no kernel can hold.

        Raises:
            UserError: the value, or one of its values, has more than 64 bits.
        """
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) >= 2**64:
                cause = "a number has more than 64 bits"
                # Python does not write numbers of thousands of digits.
                shown = number if abs(number) < 10**99 else "..."
                raise UserError(self.mention(shown), cause, "Give a smaller one")

    def mention(self, *value: Any) -> str:
        """Mention the option in a message, perhaps with a value."""
        return str(option(self.name, *value, is_flag=not self.is_positional))

    def describe_values(self) -> str:
        """Describe the values that it takes.

        Example:
            of `int | None` "a whole number or None".
        """
        # What is there by default comes last.
        kinds = sorted(self.kinds, key=lambda kind: kind is NoneType)
        return " or ".join(map(_describe_kind, kinds))

    @property
    def meaning(self) -> str:
        """The first sentence of its documentation, to go on after a colon; empty without any."""
        text = self.text.split(". ")[0].rstrip(".")
        return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"

    def refuse(self, value: Any) -> UserError:
        """Return the error for a value that it does not take."""
        expected = self.describe_values()
        cure = f"{suggest(str(value), map(str, self.choices), 1)}Give {expected}"
        return UserError(self.mention(value), f"the value is not {expected}", cure)


def _describe_kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        if get_origin(element) is Literal:
            return f"some of {', '.join(get_args(element))}"
        return f"a list of {'whole numbers' if element is int else 'texts'}"
    return IN_WORDS.get(kind, str(getattr(kind, "__name__", kind)))


def options_of(kind: Any, choices: Choices | None = None) -> list[Option]:
    """List the options of a dataclass, and of the dataclasses and typed dictionaries in it.

    Args:
        kind: the class.
        choices: the values of options whose types do not list them.
    """
    return list(_walk(kind, choices or {}, "options"))


def is_group(hint: Any) -> bool:
    """Whether the type of a field is a class of further options."""
    return is_dataclass(hint) or is_typeddict(hint)


def groups_of(kind: type[Any]) -> dict[str, Any]:
    """Return the classes of the groups of options in a dataclass, by the names of its fields."""
    return {name: hint for name, hint in get_type_hints(kind).items() if is_group(hint)}


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
    if not is_group(kind):
        return None
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _walk(kind: Any, choices: Choices, title: str) -> Iterator[Option]:
    hints = get_type_hints(kind, include_extras=True)
    declared = {field.name: field for field in fields(kind)} if is_dataclass(kind) else {}
    group = summarize(kind) or ""
    for name, hint in hints.items():
        if get_origin(hint) is ClassVar:
            continue
        if is_group(hint):
            inner = name.removesuffix("_options").removesuffix("s").replace("_", " ")
            yield from _walk(hint, choices, f"{inner} options")
            continue
        default = None
        if field := declared.get(name):
            default = field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
        constraints: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated and hint not in {Positional, Positionals}:
            hint, constraints = hint.__origin__, hint.__metadata__  # noqa: PLW2901
        listed = choices.get((kind, name))
        hint = Literal[listed] if listed else hint  # noqa: PLW2901
        document = partial(_document, kind, name)
        yield Option(name, hint, default, document, title, group, constraints)


def _document(kind: type, name: str) -> str:
    return document_fields(kind).get(name, "")
