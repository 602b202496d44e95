"""From values by name, of a file or a program, to the dataclass that declares the options."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from corpusmill.errors import UserError
from corpusmill.settings.options import Option, groups_of, options_of
from corpusmill.settings.words import write_own_options


def read_value(declared: Option, value: Any) -> Any:
    """Return the value of an option that an object gives: paths as strings, lists as tuples.

    Args:
        declared: the option.
        value: as a file or a program has it. A single value stands for a list of one, a mapping for
            a list of NAME=VALUE, and in it a mapping for a path with options of its own.

    Raises:
        UserError: it is empty, or not of its type.
    """
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    plain = os.fspath(plain) if isinstance(plain, os.PathLike) else plain
    if plain == "None" and NoneType in declared.kinds:  # TOML has no null
        plain = None
    if declared.alone is not None and isinstance(plain, bool):
        return declared.alone if plain else declared.default
    if declared.is_list and plain is not None:
        plain = tuple(_list_values(plain))
    if plain == "" or (isinstance(plain, tuple) and "" in plain):
        cause = "its value is empty"
        raise UserError(declared.mention(value), cause, "Give a value, or leave it out")
    hint = get_args(declared.hint)[0] if get_origin(declared.hint) is Annotated else declared.hint
    declared.check_size(plain)
    try:
        return msgspec.convert(plain, hint)
    except msgspec.ValidationError:
        raise declared.refuse(value) from None
    except TypeError:  # a type that only the package of an objective knows
        return value


def _list_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, given in value.items():
            options = dict(given) if isinstance(given, dict) else {}
            paths = options.pop("path", "") if isinstance(given, dict) else given
            for each in paths if isinstance(paths, list | tuple) else [paths]:
                value = f"{name}={each}"
                yield write_own_options(value, options) if isinstance(given, dict) else value
        return
    listed = value.tolist() if hasattr(value, "tolist") else value
    for each in listed if isinstance(listed, list | tuple) else (listed,):
        yield os.fspath(each) if isinstance(each, os.PathLike) else each


Options = TypeVar("Options")


def fill(kind: type[Options], values: Mapping[str, Any], command: str = "") -> Options:
    """Return options, of which some have values.

    Args:
        kind: the dataclass of the options. Its fields that are dataclasses or typed dictionaries
            are groups of further options.
        values: by the name of the option; or an instance of a whole group by the name of its field,
            whose own values are those of the instance where no others are given. The values of
            a `preset` are taken for what is not given.
        command: how the command line begins, for the example in the message; empty in Python.

    Raises:
        UserError: an option is missing, or a value is not valid.
    """
    whole = {
        declared.name
        for name, group in groups_of(kind).items()
        if _whole(group, values.get(name)) is not None
        for declared in options_of(group)
    }
    options = options_of(kind)
    required = [declared for declared in options if declared.is_required]
    if missing := [one for one in required if one.name not in whole | values.keys()]:
        # Text can be named in two ways, so that neither is required.
        shown = [one for one in options if one in required or one.name == "input"]
        raise _refuse_missing(missing, shown, command)
    filled: Options = _fill(kind, values)
    return filled


def _refuse_missing(missing: Sequence[Option], shown: Sequence[Option], command: str) -> UserError:
    """Return the error for options that are missing, with a command line that shows them."""
    are, cure = ("it is", "Give it") if len(missing) == 1 else ("they are", "Give them")
    if len(missing) == 1 and missing[0].meaning:
        cure += f": {missing[0].meaning}"
    if command:
        given = [
            f"{'' if one.is_positional else f'{one.flag} '}{one.name.upper()}" for one in shown
        ]
        cure += f", as in `{' '.join([command, *given])}`"
    mentions = ", ".join(declared.mention() for declared in missing)
    return UserError(mentions, f"{are} missing", cure)


def _fill(kind: Any, values: Mapping[str, Any], whole: Any = None) -> Any:
    """Return options; those without a value are as in an instance of all, if there is one."""
    if is_typeddict(kind):
        given = {name: values[name] for name in get_type_hints(kind) if name in values}
        return {**(whole or {}), **given}
    given = {field.name: values[field.name] for field in fields(kind) if field.name in values}
    if whole is not None:
        return replace(whole, **given)
    for name, group in groups_of(kind).items():
        given[name] = _fill(group, values, _whole(group, given.get(name)))
    preset = values.get("preset")
    return (
        kind.from_preset(preset, **given) if preset and hasattr(kind, "presets") else kind(**given)
    )


def _whole(kind: Any, value: Any) -> Any:
    """Return the instance of a whole group; None for the value of an option of the same name."""
    return value if isinstance(value, dict if is_typeddict(kind) else kind) else None
