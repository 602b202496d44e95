r"""Shards of MosaicML's streaming library (MDS), which the trainers of ModernBERT and mmBERT read.

A shard is read at any row. All numbers are little-endian:

    uint32 rows, uint32[rows + 1] the byte of the shard at which each row begins, and the end of the
    last one, the columns in JSON, the rows

A row begins with the sizes, uint32, of its columns whose size is not fixed. The columns follow, in
the order of their names. A number is the bytes of its type. A list is an array of one dimension:
the byte 4 + k, its length in 2**k bytes, its values. A folder has an index.json with the rows, the
bytes and the digest of each shard.

A row that is a whole document, for trainers that pack documents when they load them, also has
`len`, the number of its tokens, and `id`, a hash of them.

Source: streaming/base/format/mds of mosaicml/streaming, version 2 of its files.
"""

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH, LONGEST_ROW, Column, most_values
from corpusmill.arrays.distinct import hash_rows
from corpusmill.arrays.ragged import check_numbers, flatten, restore
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import (
    READ_TOKENS,
    Columns,
    DataSetContents,
    ShardFormat,
    ShardWriter,
    Sink,
    Sinks,
    Sources,
    WrittenShard,
)
from corpusmill.formats.varints import gather

_INDEX = "index.json"
_VALIDATION_INDEX = f"validation/{_INDEX}"
_VERSION, _HASH = 2, "sha256"
_MOST_SHARD_BYTES = 2**32 - 1
# Of an array: the byte of its dimensions, and the bytes of its length at most.
_ONE_DIMENSION, _LENGTH_BYTES = 4, 4
_ID_BYTES = 16

_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]
_Rows = tuple[np.ndarray, np.ndarray]


class Field(NamedTuple):
    """A column of MDS.

    Attributes:
        name: by which rows are read.
        encoding: the name of its type.
        size: its bytes in each row; None where rows have their own.
    """

    name: str
    encoding: str
    size: int | None


def _list_fields(columns: Columns) -> list[Field]:
    """Return the columns of a shard, in the order of their names."""
    fields = [
        Field(column.name, f"ndarray:{column.dtype}", None)
        if column.width
        else Field(column.name, column.dtype, np.dtype(column.dtype).itemsize)
        for column in columns
    ]
    if _are_documents(columns):
        fields += [Field("id", "str", None), Field("len", "int", 8)]
    return sorted(fields)


def _are_documents(columns: Columns) -> bool:
    return len(columns) == 1 and columns[0].width == ANY_LENGTH


def _describe_fields(columns: Columns) -> dict[str, object]:
    """Return what a shard and the index say of the columns."""
    fields = _list_fields(columns)
    return {
        "column_encodings": [field.encoding for field in fields],
        "column_names": [field.name for field in fields],
        "column_sizes": [field.size for field in fields],
        "compression": None,
        "format": "mds",
        "hashes": [_HASH],
        "size_limit": None,
        "version": _VERSION,
    }


def _encode_header(columns: Columns) -> bytes:
    return json.dumps(_describe_fields(columns), sort_keys=True).encode()


class MdsFormat(ShardFormat):
    """Rows of numbers and lists of numbers."""

    name = "mds"
    file_suffixes = (".mds",)
    free_names = True
    companion_names = (_INDEX, _VALIDATION_INDEX)

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse columns whose type the format lacks.

        Raises:
            UserError: there is one.
        """
        check_numbers(columns, self.name)

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which holds rows in a temporary file: what precedes them is known last."""
        return _Writer(sinks[0], columns)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, and check every byte of the shard."""
        source = sources[0]
        begins = _read_begins(source, _encode_header(columns))
        sizes = [most_values(column, longest, options.is_padded) for column in columns]
        most = sum(
            size * np.dtype(column.dtype).itemsize + 64
            for size, column in zip(sizes, columns, strict=True)
        )
        if len(begins) > 1 and np.diff(begins).max() > most:
            raise ValueError(f"a row has more than {most:,} bytes")
        first, rows, batch_bytes = 0, len(begins) - 1, 4 * READ_TOKENS
        while first < rows:
            fitting = int(np.searchsorted(begins, begins[first] + batch_bytes, side="right")) - 1
            stop = min(first + batch_rows, max(first + 1, fitting))
            data = np.frombuffer(source.read(int(begins[stop] - begins[first])), np.uint8)
            yield _decode(data, begins[first : stop + 1] - begins[first], columns, options)
            first = stop

    def companion_files(self, contents: DataSetContents) -> dict[str, bytes]:
        """Return the index of each split.

        Shards stand beside the index of the train split. That of the validation split has a folder
        of its own, from which it leads to them.
        """
        places = {"train": (_INDEX, ""), "validation": (_VALIDATION_INDEX, "../")}
        return {
            places[split][0]: _encode_index(shards, contents.columns, places[split][1])
            for split, shards in contents.shards.items()
        }

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by streaming."""
        yield from ("```python", "from streaming import StreamingDataset", "")
        yield 'examples = StreamingDataset(local=".", batch_size=1)'
        yield from ("```", "")
        yield 'The validation split is read with `split="validation"`, from a folder on a disk.'
        yield ""


def _encode_index(shards: Sequence[WrittenShard], columns: Columns, folder: str) -> bytes:
    """Return the index of shards, but of those without rows, which the library cannot read."""
    entries = [
        {
            **_describe_fields(columns),
            "raw_data": {
                "basename": f"{folder}{shard.file}",
                "bytes": shard.bytes,
                "hashes": {_HASH: shard.sha256},
            },
            "samples": shard.rows,
            "zip_data": None,
        }
        for shard in shards
        if shard.rows
    ]
    return json.dumps({"shards": entries, "version": _VERSION}, sort_keys=True).encode() + b"\n"


class _Writer:
    def __init__(self, sink: Sink, columns: Columns) -> None:
        self._sink, self._columns = sink, columns
        self._rows = cast(BinaryIO, TemporaryFile())  # noqa: SIM115  closed with the writer
        self._sizes = [np.zeros(0, np.int64)]

    def write(self, rows: pa.RecordBatch) -> None:
        data, sizes = _encode(rows, self._columns)
        self._rows.write(data.tobytes())
        self._sizes.append(sizes)

    def close(self) -> None:
        header, sizes = _encode_header(self._columns), np.concatenate(self._sizes)
        begins = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=begins[1:])
        begins += 4 * (1 + len(begins)) + len(header)
        if begins[-1] > _MOST_SHARD_BYTES:
            cause = f"a shard of {begins[-1]:,} bytes is longer than an MDS file can be"
            raise UserError(option("num_shards"), cause, "Give more shards")
        self._sink.write(np.uint32(len(sizes)).tobytes() + begins.astype("<u4").tobytes() + header)
        with self._rows as rows:
            rows.seek(0)
            shutil.copyfileobj(rows, self._sink)


class _Part(NamedTuple):
    """What each of n rows has of something.

    Attributes:
        data: uint8[bytes].
        begins: int64[n] into data.
        ends: int64[n] into data.
    """

    data: _Bytes
    begins: _Places
    ends: _Places


def _encode(rows: pa.RecordBatch, columns: Columns) -> tuple[_Bytes, _Places]:
    """Return the bytes of rows, uint8[bytes], and how many each takes, int64[rows]."""
    numbers = {column.name: flatten(rows.column(column.name)) for column in columns}
    parts = {
        column.name: _list_parts(*numbers[column.name])
        if column.width
        else [_fixed_part(numbers[column.name][0])]
        for column in columns
    }
    if _are_documents(columns):
        [(values, offsets)] = numbers.values()
        parts["id"] = [_fixed_part(_name_rows(values, offsets))]
        parts["len"] = [_fixed_part(np.diff(offsets))]
    fields = _list_fields(columns)
    own = [parts[field.name] for field in fields if field.size is None]
    sizes = [np.sum([part.ends - part.begins for part in each], axis=0) for each in own]
    head = [_fixed_part(size.astype("<u4")) for size in sizes]
    return _join([*head, *(part for field in fields for part in parts[field.name])])


def _fixed_part(values: np.ndarray) -> _Part:
    """Return the bytes of numbers, of which each row has one or as many."""
    data = _to_bytes(values)
    size = len(data) // max(1, len(values))
    begins = size * np.arange(len(values))
    return _Part(data, begins, begins + size)


def _to_bytes(values: np.ndarray) -> _Bytes:
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8).reshape(-1)


def _list_parts(values: np.ndarray, offsets: _Places) -> list[_Part]:
    """Return what precedes the values of each list, and the values."""
    values, offsets = values[offsets[0] : offsets[-1]], offsets - offsets[0]
    lengths = np.diff(offsets)
    powers = _length_powers(lengths)
    prefix = np.empty((len(lengths), 1 + _LENGTH_BYTES), np.uint8)
    prefix[:, 0] = _ONE_DIMENSION + powers
    prefix[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, _LENGTH_BYTES)
    before, size = _fixed_part(prefix), values.dtype.itemsize
    return [
        before._replace(ends=before.begins + 1 + (1 << powers)),
        _Part(_to_bytes(values), size * offsets[:-1], size * offsets[1:]),
    ]


def _length_powers(lengths: _Places) -> _Places:
    """Return int64[n], of how many bytes, as powers of 2, a length is: 255 gives 0, 256 gives 1."""
    return (lengths > 0xFF).astype(np.int64) + (lengths > 0xFFFF)


def _name_rows(values: np.ndarray, offsets: _Places) -> _Bytes:
    """Return the names of rows, uint8[rows, 16]: hashes of their values in hexadecimal."""
    digits = hash_rows(values, offsets).astype(">u8").tobytes().hex().encode()
    return np.frombuffer(digits, np.uint8).reshape(-1, _ID_BYTES)


def _join(parts: Sequence[_Part]) -> tuple[_Bytes, _Places]:
    """Return the parts of each row one after the other, and how many bytes each row takes."""
    starts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    begins = np.stack([part.begins + start for part, start in zip(parts, starts, strict=True)], 1)
    ends = np.stack([part.ends + start for part, start in zip(parts, starts, strict=True)], 1)
    data = np.concatenate([part.data for part in parts])
    data.flags.writeable = False  # as what is read, so that no kernel is compiled twice
    joined, _ = gather(data, begins.reshape(-1), ends.reshape(-1))
    return joined, (ends - begins).sum(axis=1)


def _read_begins(source: BinaryIO, header: bytes) -> _Places:
    """Return the places at which rows begin, and the end of the last, of which each is checked."""
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    [rows] = np.frombuffer(source.read(4).ljust(4, b"\0"), "<u4").astype(np.int64)
    first = 4 * (rows + 2) + len(header)
    if size < first:
        raise ValueError("it ends before its first row")
    begins = np.frombuffer(source.read(4 * (int(rows) + 1)), "<u4").astype(np.int64)
    if source.read(len(header)) != header:
        raise ValueError("it has other columns than the manifest says")
    if begins[0] != first or (np.diff(begins) < 0).any() or begins[-1] != size:
        raise ValueError("its rows do not follow each other")
    return begins


def _decode(
    data: _Bytes, bounds: _Places, columns: Columns, options: OutputOptions
) -> pa.RecordBatch:
    """Decode rows.

    Args:
        data: uint8[bytes], the rows.
        bounds: int64[rows + 1], where they begin and end.
        columns: of the data set.
        options: as of `MdsFormat.read`.
    """
    if len(data) != bounds[-1]:
        raise ValueError("it ends too early")
    found = find_columns(data, bounds, _list_fields(columns))
    rows = [
        _take_lists(data, found[column.name], column)
        if column.width
        else (_take_bytes(data, found[column.name], column.dtype), np.arange(len(bounds)))
        for column in columns
    ]
    if _are_documents(columns):
        [(values, offsets)] = rows
        lengths = _take_bytes(data, found["len"], "int64")
        names = _take_bytes(data, found["id"]).reshape(-1, _ID_BYTES)
        if (lengths != np.diff(offsets)).any() or (names != _name_rows(values, offsets)).any():
            raise ValueError("a document has another id or len than its tokens")
    return restore(columns, rows, options.is_padded)


def find_columns(
    data: _Bytes, bounds: _Places, fields: Sequence[Field]
) -> dict[str, tuple[_Places, _Places]]:
    """Return where each column begins and ends in each row.

    Args:
        data: uint8[bytes], the rows.
        bounds: int64[rows + 1], where they begin and end.
        fields: the columns, in the order of the file.

    Raises:
        ValueError: a row does not have the columns.
    """
    own = [field.name for field in fields if field.size is None]
    head = bounds[:-1, None] + np.arange(4 * len(own))
    if (bounds[:-1] + 4 * len(own) > bounds[1:]).any():
        raise ValueError("a row is too short for the sizes of its columns")
    sizes = np.ascontiguousarray(data[head]).view("<u4").astype(np.int64)
    place, found = bounds[:-1] + 4 * len(own), dict[str, tuple[_Places, _Places]]()
    for field in fields:
        size = sizes[:, own.index(field.name)] if field.size is None else field.size
        found[field.name] = (place, place + size)
        place = place + size
    if (place != bounds[1:]).any():
        raise ValueError("a row is not as long as its columns")
    return found


def _take_bytes(data: _Bytes, places: tuple[_Places, _Places], dtype: str = "uint8") -> np.ndarray:
    """Return the bytes at some places, as numbers of a type."""
    taken: np.ndarray = gather(data, *places)[0].view(np.dtype(dtype).newbyteorder("<"))
    return taken.astype(dtype, copy=False)


def _take_lists(data: _Bytes, places: tuple[_Places, _Places], column: Column) -> _Rows:
    begins, ends = places
    # What a list lacks of the bytes of a length, the next column or row may have.
    padded = np.concatenate([data, np.zeros(1 + _LENGTH_BYTES, np.uint8)])
    prefix = padded[begins[:, None] + np.arange(1 + _LENGTH_BYTES)]
    powers = prefix[:, 0].astype(np.int64) - _ONE_DIMENSION
    length_bytes = 1 << np.clip(powers, 0, 2)
    prefix[:, 1:][np.arange(_LENGTH_BYTES) >= length_bytes[:, None]] = 0
    lengths = np.ascontiguousarray(prefix[:, 1:]).view("<u4").reshape(-1).astype(np.int64)
    begins = begins + 1 + length_bytes
    is_whole = begins + np.dtype(column.dtype).itemsize * lengths == ends
    if not (is_whole & (powers == _length_powers(lengths))).all():
        raise ValueError(f"{column.name} is no array of one dimension in some row")
    values = _take_bytes(data, (begins, ends), column.dtype)
    return values, np.append(0, np.cumsum(lengths))
