"""Texts and tables of a Python program as an input: written once, as JSON lines, for the workers.

Each record is what `json.dumps` makes of it, on a line of its own: a text is {"text": ...}, a dict
stands as it is, and of a table only the field of the text and the kept fields are taken. So the
documents have the ids, and the data set the bytes, of the JSON-lines file that a program would
write with `json.dumps`.
What such a file cannot hold, such as bytes, becomes a record that is rejected and counted.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from corpusmill.corpus.records.nested_fields import MISSING, divide_name, find_value
from corpusmill.corpus.records.record_documents import no_such_field, no_such_kept_field, to_text
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.errors import UserError, first_line, option
from pipeline.recipe.inputs import InputFile
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_file

_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 2**20
_WAYS_TO_ROWS = ("collect_schema", "__arrow_c_stream__", "__iter__", "__getitem__")
_KINDS = (
    "Give files, or an iterable of texts or of dicts, a pandas or polars frame, an Arrow table or "
    "reader, or a data set of Hugging Face's datasets"
)


def write_records(
    given: Any,
    folder: str,
    text_field: str,
    keep_fields: Sequence[str] = (),
    parts: Sequence[str] = (),
    others: Sequence[str] = (),
) -> InputFile:
    """Write the records of a Python program to a file that workers can open.

    Args:
        given: an iterable of texts or dicts, or a table. One that can be read only once is.
        folder: where the file is made.
        text_field: the field of the text; nested fields are named with dots.
        keep_fields: the fields that are kept.
        parts: the fields of which texts are made, of which a record may lack some; empty where one
            field holds the text.
        others: further fields that are taken where there are such.

    Returns:
        The file. Its name in the manifest holds the digest of its content, and no path.

    Raises:
        UserError: there are no records, or they do not have these fields.
    """
    path = join_path(folder, "records.jsonl")
    with create_file(path) as stream:
        sink = HashingWriter(stream)
        lines = bytearray()
        names = (*(parts or (text_field,)), *keep_fields, *others)
        for record in _read_records(given, names, (*parts, *others)):
            lines += _encode(record, names)
            if len(lines) >= _BYTES_AT_ONCE:
                sink.write(bytes(lines))
                lines.clear()
        sink.write(bytes(lines))
    if not sink.bytes:
        raise UserError(option("input"), "it has no records", "Give at least one text")
    return InputFile(path, sink.bytes, f"records-{sink.sha256[:16]}.jsonl")


def _read_records(given: Any, names: Sequence[str], parts: Sequence[str]) -> Iterator[Any]:
    """Yield the records: texts and dicts, or whatever stands in their place.

    Args:
        given: an iterable or a table.
        names: of the text field and of the kept fields, which alone are taken of a table.
        parts: those that a table may lack.
    """
    has_rows = any(hasattr(given, name) for name in _WAYS_TO_ROWS)
    if isinstance(given, str | bytes | Mapping) or not has_rows:
        splits = [str(name) for name in given] if isinstance(given, Mapping) else []
        cause = f"it is of type {type(given).__name__}"
        cause += f", with {', '.join(splits[:5])}" * bool(splits)
        raise UserError(option("input"), cause, _KINDS)
    if _is_of("pandas", "Series", given):
        yield from _read_pandas(given)
    elif isinstance(given, pa.Array | pa.ChunkedArray):
        yield from _read_array(given)
    elif _is_of("polars", "Series", given) or not (opened := _open_table(given)):
        yield from given
    else:
        existing, read = opened
        places = _find_columns([str(name) for name in existing], names, parts)
        columns = list(dict.fromkeys(column for column, _ in places.values()))
        for values in read(columns):
            row = dict(zip(columns, values, strict=True))
            yield {
                name: value
                for name, (column, inner) in places.items()
                if (value := _look_into(row[column], inner)) is not MISSING
            }


_Read = Callable[[list[str]], Iterator[tuple[Any, ...]]]


def _open_table(given: Any) -> tuple[Iterable[Any], _Read] | None:
    """Return the names of a table's columns and what reads some of them; None if it is no table."""
    if _is_of("pandas", "DataFrame", given):
        return given.columns, lambda some: _zip(_read_pandas(given[name]) for name in some)
    if _is_of("polars", "LazyFrame", given):
        return given.collect_schema().names(), lambda some: given.select(some).collect().iter_rows()
    if _is_of("polars", "DataFrame", given):
        return given.columns, lambda some: given.select(some).iter_rows()
    if _is_of("datasets", "Dataset", given):
        return given.column_names, lambda some: _read_batches(
            some, given.select_columns(some).with_format("arrow").iter(_ROWS_AT_ONCE)
        )
    if isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__"):
        reader = _open_reader(given)
        return reader.schema.names, lambda some: _read_batches(some, reader)
    return None


def _zip(columns: Iterable[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*columns, strict=True)


def _read_batches(names: list[str], batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from _zip(_read_array(batch.column(name)) for name in names)


def _find_columns(
    existing: Sequence[str], names: Sequence[str], parts: Sequence[str]
) -> dict[str, tuple[str, str | None]]:
    """Return, for each field, its column and the name inside it, as `find_value` finds fields."""
    places: dict[str, tuple[str, str | None]] = {}
    for name in names:
        ways = [(name, None), *divide_name(name)]
        place = next((way for way in ways if way[0] in existing), None)
        if place is None and name in parts:
            continue
        if place is None and name == names[0]:
            raise no_such_field("the input", name, existing)
        if place is None:
            raise no_such_kept_field(option("keep_fields", name), "the input", existing)
        if existing.count(place[0]) > 1:
            cause = f"several columns of the input are called {place[0]}"
            raise UserError(option("input"), cause, "Rename all but one")
        places[name] = place
    return places


def _look_into(value: Any, name: str | None) -> Any:
    if name is None or value is None:
        return value
    return find_value(value, name) if isinstance(value, dict) else MISSING


def _is_of(package: str, kind: str, given: Any) -> bool:
    """Whether an object is of a class of a package, which is not imported for this."""
    known = getattr(sys.modules.get(package), kind, None)
    return isinstance(known, type) and isinstance(given, known)


def _read_pandas(series: Any) -> Iterator[Any]:
    """Yield the values of a series; those that are missing, however pandas marks them, are None."""
    for start in range(0, len(series), _ROWS_AT_ONCE):
        part = series.iloc[start : start + _ROWS_AT_ONCE].astype(object)
        yield from part.where(part.notna(), None).tolist()


def _open_reader(given: Any) -> pa.RecordBatchReader:
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given
    try:
        return pa.RecordBatchReader.from_stream(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        cause = f"it is not a table ({first_line(error)})"
        raise UserError(option("input"), cause, _KINDS) from None


def _read_array(array: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    for start in range(0, len(array), _ROWS_AT_ONCE):
        part = array.slice(start, _ROWS_AT_ONCE)
        try:
            values = part.to_pylist()
        except UnicodeDecodeError:  # Arrow does not check its texts
            values = part.cast(pa.binary() if _is_small(part) else pa.large_binary()).to_pylist()
            values = [_decode(value) for value in values]
        yield from values


def _is_small(array: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(array.type))


def _decode(value: bytes | None) -> str | bytes | None:
    with suppress(UnicodeDecodeError):
        return value if value is None else value.decode()
    return value


def _encode(record: Any, names: Sequence[str]) -> bytes:
    """Return the line of a record, as `json.dumps` writes it."""
    row = dict(record) if isinstance(record, Mapping) else {names[0]: record}
    values = {name: find_value(row, name) for name in names}
    text = values[names[0]]
    if isinstance(text, float) and math.isnan(text):
        row[names[0]] = None
    for name in names[1:]:
        if not isinstance(values[name], _OF_JSON) and values[name] is not MISSING:
            row[name] = to_text(values[name])
    with suppress(ValueError, TypeError, RecursionError):  # such as a dict that holds itself
        return f"{_ENCODER.encode(row)}\n".encode()
    simple = {name: _simplify(value) for name, value in values.items() if value is not MISSING}
    return f"{_ENCODER.encode(simple)}\n".encode()


def _simplify(value: Any) -> Any:
    """Return a value, or an object in place of what JSON cannot hold."""
    try:
        _ENCODER.encode(value)
    except (ValueError, TypeError, RecursionError):
        return _describe_value(value)
    return value


def _describe_value(value: Any) -> dict[str, str]:
    """Return an object in place of what JSON cannot hold, which is rejected as a text."""
    return {"type": type(value).__name__}


_ENCODER = json.JSONEncoder(default=_describe_value)
_OF_JSON = (str, int, float, list, tuple, dict, type(None))
