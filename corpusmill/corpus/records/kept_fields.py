"""The values of fields that are kept beside a text, as text.

Strings stay as they are; numbers, truth values and nested values become JSON, dates and times what
ISO 8601 writes, and a missing value is null.
"""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from corpusmill.errors import UserError


def to_text(value: object) -> str | None:
    """Return a value as text.

    Example:
        "a", 1.5, True, [1, "b"] and None give "a", "1.5", "true", '[1,"b"]' and None.
    """
    match value:
        case None:
            return None
        case str():
            # Avro's readers put what is not UTF-8 into surrogates.
            return value if value.isascii() else _encodable(value)
        case bytes():
            return value.decode(errors="replace")
        case dt.date() | dt.time():  # a datetime is a date, too
            return value.isoformat()
        case bool() | int() | float() | list() | tuple() | dict():
            return _to_json(value)
    return str(value)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape").decode(errors="replace")
    return text


def _to_json(value: object) -> str:
    import orjson  # noqa: PLC0415  readers of data sets import this module, and need none

    try:
        return orjson.dumps(value, _to_simple, orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # of numbers above 64 bits, and of surrogates
        text = json.dumps(value, default=_to_simple, ensure_ascii=False, separators=(",", ":"))
        return _encodable(text)


def _to_simple(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def to_array(values: Sequence[object]) -> pa.Array:
    """Return values of a field as pa.string."""
    try:
        # Most fields hold texts alone, and of these nothing is to be converted.
        return pa.array(values, pa.string())
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([to_text(value) for value in values], pa.string())


def check_columns(file: str, keep_fields: Sequence[str], fields: Sequence[str]) -> None:
    """Refuse to keep a column that a table does not have.

    Args:
        file: path of the table.
        keep_fields: the names that the user wrote.
        fields: the names of its columns.

    Raises:
        UserError: names the existing ones.
    """
    for name in keep_fields:
        if name not in fields:
            names = ", ".join(fields) or "none"
            cause = f"{file} has no such field; its fields are {names}"
            raise UserError(f"--keep-fields {name}", cause, "Name fields that it has")
