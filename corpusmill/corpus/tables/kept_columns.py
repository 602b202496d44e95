"""Columns of a table that are kept beside the text, as text (`corpus.records.kept_fields`)."""

import pyarrow as pa

from corpusmill.corpus.records.kept_fields import to_array
from corpusmill.corpus.text.lines import are_utf_8


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

    kind = column.type
    if kind == pa.large_binary():
        if are_utf_8(column.view(pa.large_string())):
            return column.view(pa.large_string()).cast(pa.string())
        return to_array(column.to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        # Not by way of Python, whose types hold neither nanoseconds nor years above 9999. The names
        # of time zones are not those of every system.
        if pa.types.is_timestamp(kind) and kind.tz:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return to_array(_to_values(column))


def _to_values(column: pa.Array) -> list[object]:
    """Return the values of a column; None for one that Python has no type for."""
    values: list[object] = []
    for value in column:
        try:
            values.append(value.as_py())
        except (ValueError, OverflowError):  # such as nanoseconds in a nested value
            values.append(None)
    return values
