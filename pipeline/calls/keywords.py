"""Keyword arguments to the options of a command: the same dataclasses, checked in the same way."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import numpy as np

from corpusmill.errors import UserError
from corpusmill.objectives.options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES

_IN_WORDS = {
    int: "a whole number", float: "a number", str: "a string", bool: "True or False",
    NoneType: "None",
}  # fmt: skip

_CAPITAL = re.compile(r"(?<=.)(?=[A-Z])")
_LONGEST_SHOWN = 200


class CallOptions:
    """The options of a command, filled from keyword arguments.

    Args:
        command: the dataclass of the command. Its fields that are dataclasses are groups, whose
            options are keywords as well.
        objective: the class of the objective's options; None for a command without one.
    """

    def __init__(self, command: type[Any], objective: type[ObjectiveOptions] | None = None) -> None:
        self._command = command
        self._groups: dict[str, Any] = {}
        self._types: dict[str, dict[str, Any]] = {"": {}}
        for name, hint in get_type_hints(command).items():
            group = objective if name == "objective" else hint
            if group is not None and (is_dataclass(group) or is_typeddict(group)):
                self._groups[name] = group
                self._types[name] = _option_types(group)
            elif name != "objective":
                self._types[""][name] = hint
        self._objective = objective

    @property
    def types(self) -> dict[str, Any]:
        """The types of all options by name."""
        return {name: hint for group in self._types.values() for name, hint in group.items()}

    def fill(self, given: Mapping[str, Any], **built: Any) -> Any:
        """Return the command.

        Args:
            given: the keyword arguments: options, or the dataclass of a whole group by its name.
            built: fields of the command that are there already.

        Raises:
            UserError: an option does not exist, or its value is not valid.
        """
        unknown = given.keys() - self.types.keys() - self._groups.keys()
        if unknown:
            raise self._refuse_unknown(min(unknown, key=list(given).index))
        parts = dict(built)
        for group, types in self._types.items():
            values = {
                name: convert(name, given[name], hint)
                for name, hint in types.items()
                if name in given
            }
            if not group:
                parts |= values
            elif group not in built:
                parts[group] = self._fill_group(group, given.get(group), values)
        return self._command(**{name: part for name, part in parts.items() if part is not None})

    def _fill_group(self, group: str, whole: Any, values: dict[str, Any]) -> Any:
        kind = self._groups[group]
        if whole is None:
            return kind(**values)
        if not is_typeddict(kind) and not isinstance(whole, kind):
            cause = f"it is of type {type(whole).__name__}"
            raise UserError(f"{group}=", cause, f"Give {kind.__name__}(...), or its options")
        return {**whole, **values} if is_typeddict(kind) else replace(whole, **values)

    def _refuse_unknown(self, name: str) -> UserError:
        owners = [one for one in OBJECTIVES.names if name in _option_types(OBJECTIVES[one])]
        if owners and self._objective:
            cause = f"it is an option of {' and '.join(owners)} alone"
            return UserError(f"{name}=", cause, "Leave it out")
        close = get_close_matches(name, [*self.types, *self._groups], 3)
        cure = f"Did you mean {' or '.join(close)}? " if close else ""
        function = _CAPITAL.sub("_", self._command.__name__).lower()
        cure += f"help(corpusmill.{function}) explains all options"
        return UserError(f"{name}=", "there is no such option", cure)


def fill_objective(
    objective: str | ObjectiveOptions, preset: str | None, given: Mapping[str, Any]
) -> ObjectiveOptions:
    """Return the options of an objective.

    Args:
        objective: its name, or its options.
        preset: the preset from which the options are taken that are not given; None for none.
        given: keyword arguments; those that are no options of the objective are left out.

    Raises:
        UserError: there is no such objective or preset, or a value is not valid.
    """
    kind = kind_of(objective)
    values = {
        name: convert(name, given[name], hint)
        for name, hint in _option_types(kind).items()
        if name in given
    }
    if isinstance(objective, str):
        return kind(**values) if preset is None else kind.from_preset(preset, **values)
    if preset is not None:
        cause = "the options of the objective are given, and those of a preset would replace them"
        cure = f"Give {kind.__name__}.from_preset({preset!r}), or the name of the objective"
        raise UserError(f"preset={preset!r}", cause, cure)
    return replace(objective, **values)


def kind_of(objective: str | ObjectiveOptions) -> type[ObjectiveOptions]:
    """Return the class of an objective's options.

    Raises:
        UserError: there is no such objective.
    """
    if isinstance(objective, ObjectiveOptions):
        return type(objective)
    names = OBJECTIVES.names
    if not isinstance(objective, str) or objective not in names:
        close = get_close_matches(str(objective), names, 1)
        cure = f"Did you mean {close[0]!r}? " if close else ""
        cure += f"Give one of {', '.join(names)}, or the options of an objective"
        raise UserError(f"objective={objective!r}", "there is no such objective", cure)
    return OBJECTIVES[objective]


def convert(name: str, value: Any, hint: Any) -> Any:
    """Return a value as an option of a type takes it: paths as strings, lists as tuples.

    Raises:
        UserError: it is not of the type.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, os.PathLike):
        plain = os.fspath(plain)
    takes_many = any(get_origin(one) is tuple for one in _members(hint))
    if takes_many and isinstance(plain, np.ndarray):
        plain = tuple(plain.tolist())
    if takes_many and isinstance(plain, str | int):
        plain = (plain,)
    elif takes_many and isinstance(plain, list | tuple):
        plain = tuple(os.fspath(one) if isinstance(one, os.PathLike) else one for one in plain)
    if plain == "" or (isinstance(plain, tuple) and "" in plain):
        cause = "its value is empty"
        raise UserError(f"{name}={_show(value)}", cause, "Give a value, or leave it out")
    try:
        return msgspec.convert(plain, hint)
    except msgspec.ValidationError:
        expected = " or ".join(_in_words(hint))
        cause, cure = f"the value is not {expected}", f"Give {_suggest(plain, hint, expected)}"
        raise UserError(f"{name}={_show(value)}", cause, cure) from None
    except TypeError:  # a type that only the package of an objective knows
        return value


def _show(value: Any) -> str:
    """Return a value as a program writes it, or its type where that is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{type(value).__name__}(...)"


def _option_types(group: Any) -> dict[str, Any]:
    hints = get_type_hints(group)
    if not is_dataclass(group):
        return hints
    return {field.name: hints[field.name] for field in fields(group)}


def choices(hint: Any) -> list[str]:
    """Return the values that a type allows by name; none for a type that is no choice."""
    literals = (one for one in _members(hint) if get_origin(one) is Literal)
    return [str(value) for literal in literals for value in get_args(literal)]


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)


def _in_words(hint: Any) -> Iterator[str]:
    """Yield the values that a type has, in words; None, which is the default, comes last."""
    for one in sorted(_members(hint), key=lambda member: member is NoneType):
        if get_origin(one) is Literal:
            yield f"one of {', '.join(map(repr, get_args(one)))}"
        elif get_origin(one) is tuple:
            yield f"a sequence of {'whole numbers' if int in get_args(one) else 'strings'}"
        else:
            origin = get_origin(one) or one
            yield _IN_WORDS.get(origin, str(getattr(origin, "__name__", origin)))


def _suggest(value: Any, hint: Any, expected: str) -> str:
    close = get_close_matches(str(value), choices(hint), 1)
    return f"{close[0]!r}, perhaps, or {expected}" if close else expected
