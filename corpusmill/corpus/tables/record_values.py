"""The values of tables as JSON lines have them: plain objects, lists, texts and numbers.

A struct of Arrow and a record of Avro have the keys of all rows, so that a null in one stands for a
key that the row does not have, and is left out at any depth. Maps are objects with the keys of
their own row; their nulls stay, as those of lists do. What is of Arrow's type for JSON, by which
`datasets` writes values that differ from row to row, is what its text holds.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import islice, repeat
from typing import Any

import pyarrow as pa

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.records.record_documents import to_array, to_text
from corpusmill.corpus.text.lines import are_utf_8


def is_json_type(kind: Any) -> bool:
    """Whether the texts of a column are values in JSON."""
    return getattr(kind, "extension_name", "") == "arrow.json"


def to_values(column: pa.Array) -> list[Any]:
    """Return the values of a column.

    Args:
        column: checked by Arrow.

    Example:
        struct<a: int64, b: list<int64>> [{1, null}, null] gives [{"a": 1}, None], map<string,
        int64> [[("a", null)]] gives [{"a": None}], and arrow.json ["[1]", "null"] gives
        [[1], None].
    """
    kind = column.type
    if is_json_type(kind):
        return [_parse(text) for text in column.storage.to_pylist()]
    if pa.types.is_dictionary(kind):  # equal values are one object
        values = to_values(column.dictionary)
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    if pa.types.is_nested(kind):
        return _to_nested(column)
    if pa.types.is_temporal(kind):
        column = column_to_text(column)
    return [to_plain(value) for value in column.to_pylist()]


def _to_nested(column: pa.Array) -> list[Any]:
    """Return structs and maps as objects, and lists of any kind as lists."""
    kind = column.type
    if pa.types.is_struct(kind):
        fields = map(to_values, column.flatten())
        rows: Iterable[tuple[Any, ...]] = zip(*fields, strict=True) if len(kind) else repeat(())
        names, valid = [field.name for field in kind], column.is_valid().to_pylist()
        return [
            leave_out_nulls(zip(names, row, strict=True)) if is_valid else None
            for is_valid, row in zip(valid, rows, strict=False)
        ]
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])
        return [
            None if pairs is None else {str(to_text(p["key"])): p.get("value") for p in pairs}
            for pairs in to_values(column.view(pa.list_(entries)))
        ]
    if pa.types.is_union(kind):
        return [to_plain(value) for value in column.to_pylist()]
    items, lengths = iter(to_values(column.flatten())), column.value_lengths().to_pylist()
    return [None if length is None else [*islice(items, length)] for length in lengths]


def leave_out_nulls(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a record without the fields that it has for the sake of other rows."""
    return {name: value for name, value in fields if value is not None}


def to_plain(value: Any) -> Any:
    """Return a value that is not nested in a type of JSON: numbers stay numbers."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():  # what is not UTF-8 in it costs its record
            return value.decode(errors="surrogateescape")
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
    return to_text(value)


def _parse(text: str | None) -> Any:
    """Return what a text in JSON holds; a text that is none, or is nested too deep, stays."""
    # Readers of data sets, which need no orjson, import this module, too.
    from corpusmill.corpus.records.json_lines import parse_json  # noqa: PLC0415

    try:
        return None if text is None else parse_json(text.encode())
    except UnreadableError:
        return text


def take_strings(column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
    """Return the texts among values in JSON, and what the others hold, by their rows.

    Args:
        column: texts in JSON, as pa.large_binary.

    Returns:
        The texts as pa.large_binary.

    Example:
        ['"a"', '[1]', 'null'] gives ["a", null, null], and {1: "an array", 2: "null"}.
    """
    from corpusmill.corpus.records.json_lines import KINDS, parse_json  # noqa: PLC0415  likewise

    texts, kinds = list[bytes | None](), dict[int, str]()
    for row, content in enumerate(column.to_pylist()):
        try:
            value = parse_json(content or b"null")
            kinds[row] = KINDS[type(value)]
        except UnreadableError as error:
            value, kinds[row] = None, f"no JSON ({error.detail})"
        is_text = type(value) is str
        texts.append(value.encode(errors="surrogatepass") if is_text else None)
    return pa.array(texts, pa.large_binary()), kinds


def column_to_text(column: pa.Array) -> pa.Array:
    """Return a column as pa.string.

    Args:
        column: checked by Arrow but for UTF-8. Text is pa.large_binary; what is not UTF-8 in it is
            replaced.

    Example:
        int64 [1, null] gives ["1", null], timestamp [2020-01-02 03:04] gives
        ["2020-01-02T03:04:00"], and list<int64> [[1, 2]] gives ["[1,2]"].
    """
    import pyarrow.compute as pc  # noqa: PLC0415  a twentieth of a second, and few builds need it

    kind, types = column.type, pa.types
    if kind == pa.large_binary():
        if are_utf_8(column.view(pa.large_string())):
            return column.view(pa.large_string()).cast(pa.string())
        return to_array(column.to_pylist())
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return column.cast(pa.string())
    if types.is_duration(kind):  # Python has no nanoseconds
        return to_array(column.cast(pa.duration("us"), safe=False).to_pylist())
    if types.is_temporal(kind) and not types.is_interval(kind):
        # Not by way of Python, whose types hold neither nanoseconds nor years above 9999. The names
        # of time zones are not those of every system.
        if types.is_timestamp(kind) and kind.tz:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    values = column.to_pylist() if types.is_interval(kind) else to_values(column)
    if is_json_type(kind):  # all but a text stands as it was written
        written = zip(values, column.storage.to_pylist(), strict=True)
        values = [value if isinstance(value, str | None) else text for value, text in written]
    return to_array(values)
