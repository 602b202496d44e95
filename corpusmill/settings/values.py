"""The value of an option from an object, of a file or of a program."""

import os
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from corpusmill.errors import UserError
from corpusmill.settings.options import Option


def read_value(declared: Option, value: Any) -> Any:
    """Return the value of an option that an object gives: paths as strings, lists as tuples.

    Args:
        declared: the option.
        value: as a file or a program has it. A single value stands for a list of one, a mapping for
            a list of NAME=VALUE.

    Raises:
        UserError: it is empty, or not of its type.
    """
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    plain = os.fspath(plain) if isinstance(plain, os.PathLike) else plain
    if plain == "None" and NoneType in declared.kinds:  # TOML has no null
        plain = None
    if declared.is_list and plain is not None:
        plain = tuple(_list_values(plain))
    if plain == "" or (isinstance(plain, tuple) and "" in plain):
        cause = "its value is empty"
        raise UserError(declared.mention(value), cause, "Give a value, or leave it out")
    hint = get_args(declared.hint)[0] if get_origin(declared.hint) is Annotated else declared.hint
    try:
        return msgspec.convert(plain, hint)
    except msgspec.ValidationError:
        raise declared.refuse(value) from None
    except TypeError:  # a type that only the package of an objective knows
        return value


def _list_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, given in value.items():
            yield from (f"{name}={one}" for one in (given if isinstance(given, list) else [given]))
        return
    listed = value.tolist() if hasattr(value, "tolist") else value
    for one in listed if isinstance(listed, list | tuple) else (listed,):
        yield os.fspath(one) if isinstance(one, os.PathLike) else one
