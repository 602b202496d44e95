"""Texts and tables of a Python program as an input: written once, as JSON lines, for the workers.

Each record is what `json.dumps` makes of it, on a line of its own: a text is {"text": ...}, a dict
stands as it is, and of a table only the field of the text is taken. So the documents have the ids,
and the data set the bytes, of the JSON-lines file that a program would write with `json.dumps`.
What such a file cannot hold, such as bytes, becomes a record that is rejected and counted.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from corpusmill.corpus.records.record_documents import no_such_field
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.errors import UserError, first_line, option
from pipeline.recipe.inputs import InputFile
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_file

_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 2**20
_KINDS = (
    "Give files, or an iterable of texts or of dicts, a pandas or polars frame, an Arrow table or "
    "reader, or a data set of Hugging Face's datasets"
)


@dataclass(frozen=True)
class Records:
    """Records of a Python program.

    Attributes:
        given: an iterable of texts or dicts, or a table. One that can be read only once is.
    """

    given: Any

    def write(self, folder: str, text_field: str) -> InputFile:
        """Write the records to a file that workers can open.

        Args:
            folder: where the file is made.
            text_field: the field of the text.

        Returns:
            The file. Its name in the manifest holds the digest of its content, and no path.

        Raises:
            UserError: there are no records, or they do not have the field.
        """
        path = join_path(folder, "records.jsonl")
        with create_file(path) as stream:
            sink = HashingWriter(stream)
            lines = bytearray()
            for record in _read_records(self.given, text_field):
                lines += _encode(record, text_field)
                if len(lines) >= _BYTES_AT_ONCE:
                    sink.write(bytes(lines))
                    lines.clear()
            sink.write(bytes(lines))
        if not sink.bytes:
            raise UserError(option("input"), "it has no records", "Give at least one text")
        return InputFile(path, sink.bytes, f"records-{sink.sha256[:16]}.jsonl")


def _read_records(given: Any, text_field: str) -> Iterator[Any]:
    """Yield the records: texts and dicts, or whatever stands in their place."""
    if isinstance(given, str | bytes | Mapping) or not _is_iterable(given):
        splits = [str(name) for name in given] if isinstance(given, Mapping) else []
        cause = f"it is of type {type(given).__name__}"
        cause += f", with {', '.join(splits[:5])}" * bool(splits)
        raise UserError(option("input"), cause, _KINDS)
    if _is_of("pandas", "DataFrame", given):
        yield from _read_pandas(_column(given, text_field))
    elif _is_of("pandas", "Series", given):
        yield from _read_pandas(given)
    elif _is_of("polars", "LazyFrame", given):
        _check_field(given.collect_schema().names(), text_field)
        yield from given.select(text_field).collect().get_column(text_field)
    elif _is_of("polars", "DataFrame", given):
        yield from _column(given, text_field)
    elif _is_of("polars", "Series", given):
        yield from given
    elif _is_of("datasets", "Dataset", given):
        _check_field(given.column_names, text_field)
        tables = given.select_columns([text_field]).with_format("arrow").iter(_ROWS_AT_ONCE)
        yield from chain.from_iterable(table[text_field].to_pylist() for table in tables)
    elif isinstance(given, pa.Array | pa.ChunkedArray):
        yield from _read_array(given)
    elif isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__"):
        yield from _read_arrow(given, text_field)
    else:
        yield from given


def _is_iterable(given: Any) -> bool:
    lazy = hasattr(given, "collect_schema") or hasattr(given, "__arrow_c_stream__")
    return lazy or hasattr(given, "__iter__") or hasattr(given, "__getitem__")


def _is_of(package: str, kind: str, given: Any) -> bool:
    """Whether an object is of a class of a package, which is not imported for this."""
    known = getattr(sys.modules.get(package), kind, None)
    return isinstance(known, type) and isinstance(given, known)


def _check_field(fields: Iterable[Any], text_field: str) -> None:
    names = [str(field) for field in fields]
    if text_field not in names:
        raise no_such_field("the input", text_field, names)
    if names.count(text_field) > 1:
        cause = "several columns of the input have this name"
        raise UserError(option("text_field", text_field), cause, "Rename all but one")


def _column(frame: Any, text_field: str) -> Any:
    _check_field(frame.columns, text_field)
    return frame[text_field]


def _read_pandas(series: Any) -> Iterator[Any]:
    """Yield the values of a series; those that are missing, however pandas marks them, are None."""
    for start in range(0, len(series), _ROWS_AT_ONCE):
        part = series.iloc[start : start + _ROWS_AT_ONCE].astype(object)
        yield from part.where(part.notna(), None).tolist()


def _read_arrow(given: Any, text_field: str) -> Iterator[Any]:
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    reader = given
    if not isinstance(given, pa.RecordBatchReader):
        try:
            reader = pa.RecordBatchReader.from_stream(given)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            cause = f"it is not a table ({first_line(error)})"
            raise UserError(option("input"), cause, _KINDS) from None
    _check_field(reader.schema.names, text_field)
    for batch in reader:
        yield from _read_array(batch.column(text_field))


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


def _encode(record: Any, text_field: str) -> bytes:
    """Return the line of a record, as `json.dumps` writes it."""
    row = record if isinstance(record, Mapping) else {text_field: record}
    try:
        return f"{_ENCODER.encode(dict(row))}\n".encode()
    except (ValueError, TypeError, RecursionError):  # such as NaN, or a dict that holds itself
        text = row.get(text_field)
        if text_field in row and not isinstance(text, str):
            text = None if _is_missing(text) else _describe_value(text)
        return f"{_ENCODER.encode({text_field: text} if text_field in row else {})}\n".encode()


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _describe_value(value: Any) -> dict[str, str]:
    """Return an object in place of what JSON cannot hold, which is rejected as a text."""
    return {"type": type(value).__name__}


_ENCODER = json.JSONEncoder(allow_nan=False, default=_describe_value)
