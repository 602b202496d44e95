"""The writer of Parquet shards, for columns of numbers and lists of numbers without nulls.

Arrow's writer makes two arrays of levels, a number for each value, and copies each value several
times. This one writes the levels of a row at once and each value once, into a buffer that all pages
share.

A list of n values has n repetition levels, 0 for the first and 1 for the others, and as many
definition levels of 1; an empty list has one of each, both 0. Levels are written as runs: a run of
equal bits as its length and the bit, other bits in groups of eight.

What a file says of itself, its columns and where their pages are, stands at its end, in structures
of Thrift's compact protocol.

Sources:
    https://parquet.apache.org/docs/file-format/data-pages/encodings/
    parquet.thrift of https://github.com/apache/parquet-format
    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import flatten
from corpusmill.corpus.tables.table import write_long
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import Columns, Sink
from corpusmill.formats.varints import put_varint
from corpusmill.limits import FileLimits


class Byte(int):
    """An integer of 8 bits."""


class Long(int):
    """An integer of 64 bits."""


# Plain integers have 32 bits; a structure has its fields by number, in ascending order. A list
# holds values of one kind, and one without values is a list of structures.
Value: TypeAlias = "bool | int | bytes | Sequence[Value] | Mapping[int, Value]"
Struct = Mapping[int, Value]

_TRUE, _FALSE, _BYTE, _INT, _LONG, _BYTES, _LIST, _STRUCT = 1, 2, 3, 5, 6, 8, 9, 12
_LONGEST_SHORT_LIST = 14
_MOST = {_BYTE: 2**7, _INT: 2**31, _LONG: 2**63}


def encode_struct(fields: Struct) -> bytes:
    """Encode a structure.

    Args:
        fields: by number.

    Raises:
        ValueError: an integer is negative or too large for its type.

    Example:
        {1: 5, 3: b"a"} gives the bytes 0x15, 10, 0x28, 1, 97, 0.
    """
    written, last = bytearray(), 0
    for number, value in fields.items():
        written.append(number - last << 4 | _kind_of(value))
        written += b"" if isinstance(value, bool) else _encode(value)
        last = number
    written.append(0)
    return bytes(written)


def _encode(value: Value) -> bytes:
    """Encode a value that is no truth value, which only fields can be."""
    if isinstance(value, int):
        kind = _kind_of(value)
        if not 0 <= value < _MOST[kind]:
            raise ValueError(f"{value} does not fit the type of its field")
        return bytes([value]) if kind == _BYTE else write_long(value)
    if isinstance(value, bytes):
        return _encode_size(len(value)) + value
    if isinstance(value, Mapping):
        return encode_struct(value)
    kind, size = _kind_of(value[0]) if value else _STRUCT, len(value)
    short = bytes([min(size, _LONGEST_SHORT_LIST + 1) << 4 | kind])
    head = short if size <= _LONGEST_SHORT_LIST else short + _encode_size(size)
    return head + b"".join(map(_encode, value))


def _kind_of(value: Value) -> int:
    match value:
        case bool():
            return _TRUE if value else _FALSE
        case Byte():
            return _BYTE
        case Long():
            return _LONG
        case int():
            return _INT
        case bytes():
            return _BYTES
    return _STRUCT if isinstance(value, Mapping) else _LIST


def _encode_size(size: int) -> bytes:
    """Encode a number without a sign."""
    written = bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes([*written, size])


MAGIC = b"PAR1"
_SIZE_BYTES = 4
_WRITER = b"corpusmill version 2"  # readers parse a name, the word version and a number

_REQUIRED, _REPEATED = 0, 2
_LIST_TYPE = 3
_RUNS, _STREAMS = 3, 9
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}
# Parquet's types by kind and size of NumPy's; smaller integers are stored in four bytes.
_TYPES = {"i1": 1, "u1": 1, "i2": 1, "u2": 1, "i4": 1, "u4": 1, "i8": 2, "u8": 2, "f4": 4, "f8": 5}


def can_be_stored(column: Column) -> bool:
    """Return whether a column holds integers, or floating-point numbers of 32 or 64 bits."""
    return np.dtype(column.dtype).str[1:] in _TYPES


def stored_bytes(column: Column) -> int:
    """Return the bytes of a value in the file before compression."""
    return max(4, np.dtype(column.dtype).itemsize)


def _type_of(column: Column) -> int:
    """Return the number of Parquet's type."""
    return _TYPES[np.dtype(column.dtype).str[1:]]


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a row group.

    Attributes:
        place: of the first page in the file.
        levels: the number of values, and of empty lists.
        bytes: their size with headers.
        full_bytes: their size before compression.
    """

    place: int
    levels: int
    bytes: int
    full_bytes: int


def page_header(levels: int, full_bytes: int, packed_bytes: int) -> bytes:
    """Return the header of a page of byte streams, whose levels are runs.

    Args:
        levels: the number of values, and of empty lists.
        full_bytes: size of its content before compression.
        packed_bytes: size of its content.
    """
    content = {1: levels, 2: _STREAMS, 3: _RUNS, 4: _RUNS}
    return encode_struct({1: 0, 2: full_bytes, 3: packed_bytes, 5: content})


def describe_group(
    columns: Columns, options: OutputOptions, rows: int, chunks: list[Chunk]
) -> Struct:
    """Return what the footer says of a row group.

    Args:
        columns: of the file.
        options: as `resolve` returns them.
        rows: of the group.
        chunks: of the columns.
    """
    codec = _CODECS[options.compression or "none"]
    entries: list[Struct] = []
    for column, chunk in zip(columns, chunks, strict=True):
        sizes = {5: Long(chunk.levels), 6: Long(chunk.full_bytes), 7: Long(chunk.bytes)}
        kind: Struct = {1: _type_of(column), 2: [_RUNS, _STREAMS], 3: _path(column), 4: codec}
        entries.append({2: Long(0), 3: {**kind, **sizes, 9: Long(chunk.place)}})
    full_bytes = Long(sum(chunk.full_bytes for chunk in chunks))
    group_bytes = Long(sum(chunk.bytes for chunk in chunks))
    place = Long(chunks[0].place)
    return {1: entries, 2: full_bytes, 3: Long(rows), 5: place, 6: group_bytes}


def encode_footer(columns: Columns, padded: bool, rows: int, groups: list[Struct]) -> bytes:
    """Return the end of a file.

    Args:
        columns: of the file.
        padded: whether lists have a fixed size.
        rows: of all groups.
        groups: from `describe_group`.
    """
    # Parquet has only lists of any size, and Arrow's schema says which are of a fixed one.
    schema = base64.b64encode(arrow_schema(columns, padded).serialize())
    elements: list[Struct] = [{3: _REQUIRED, 4: b"schema", 5: len(columns)}]
    elements += [element for column in columns for element in _describe_column(column)]
    own: Struct = {5: [{1: b"ARROW:schema", 2: schema}], 6: _WRITER}
    footer = encode_struct({1: 2, 2: elements, 3: Long(rows), 4: groups, **own})
    return footer + len(footer).to_bytes(_SIZE_BYTES, "little") + MAGIC


def _path(column: Column) -> list[bytes]:
    own = column.name.encode()
    return [own, b"list", b"element"] if column.width else [own]


def _describe_column(column: Column) -> list[Struct]:
    """Return the elements of a column in the schema: itself, or a list of three levels."""
    *lists, name = _path(column)
    value: Struct = {1: _type_of(column), 3: _REQUIRED, 4: name, **_describe_integer(column)}
    if not lists:
        return [value]
    outer: Struct = {3: _REQUIRED, 4: lists[0], 5: 1, 6: _LIST_TYPE, 10: {3: {}}}
    return [outer, {3: _REPEATED, 4: lists[1], 5: 1}, value]


def _describe_integer(column: Column) -> Struct:
    """Return the converted and the logical type of integers that are not int32 or int64."""
    dtype = np.dtype(column.dtype)
    if dtype.kind == "f" or dtype.name in {"int32", "int64"}:
        return {}
    bits, signed = 8 * dtype.itemsize, dtype.kind == "i"
    first = 15 if signed else 11  # those of 8, 16, 32 and 64 bits follow one another
    return {6: first + (8, 16, 32, 64).index(bits), 10: {10: {1: Byte(bits), 2: signed}}}


# The most groups of eight bits whose header is a single byte.
_MOST_GROUPS = 63


@njit
def most_level_bytes(levels: int) -> int:
    """Return the most bytes that `put_levels` writes for this number of levels of each kind."""
    # A group of eight bits takes a byte, a run of eight or more two; headers are few.
    return 2 * (_SIZE_BYTES + levels // 2 + 16)


@njit
def count_levels(offsets: np.ndarray) -> int:
    """Return the number of levels of each kind: one for each value and each empty list.

    Args:
        offsets: integers[rows + 1].
    """
    levels: int = offsets[-1] - offsets[0]
    for row in range(len(offsets) - 1):
        levels += offsets[row] == offsets[row + 1]
    return levels


@njit
def put_levels(offsets: np.ndarray, out: np.ndarray) -> int:
    """Write the repetition and the definition levels of lists, each with their size before them.

    Args:
        offsets: integers[rows + 1].
        out: uint8[at least `most_level_bytes`].

    Returns:
        The number of bytes written.
    """
    counts = np.empty(2 * (len(offsets) - 1), np.int64)
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        counts[2 * row], counts[2 * row + 1] = 1, max(0, length - 1)
    place = _put_sized_runs(counts, False, out, 0)
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        counts[2 * row], counts[2 * row + 1] = length, np.int64(length == 0)
    end: int = _put_sized_runs(counts, True, out, place)
    return end


@njit
def _put_sized_runs(counts: np.ndarray, first: bool, out: np.ndarray, place: int) -> int:
    end: int = put_runs(counts, first, out, place + _SIZE_BYTES)
    size = end - place - _SIZE_BYTES
    for i in range(_SIZE_BYTES):
        out[place + i] = size >> 8 * i & 255
    return end


@njit
def put_runs(counts: np.ndarray, first: bool, out: np.ndarray, place: int) -> int:
    """Write bits that are given by the lengths of their runs.

    Args:
        counts: integers[runs], the number of equal bits; runs of ones and zeros alternate, and may
            be empty.
        first: the bit of the first run.
        out: uint8[any].
        place: where to write.

    Returns:
        The place after what was written.

    Example:
        9 ones and 2 zeros are 18, 1 (a run of nine bits of 1), 3 and 0 (one group of eight bits).
    """
    header = -1  # of the groups that are being written
    bits = held = 0
    run, last = 0, len(counts)
    while run < last:
        bit, count = np.int64(first) ^ (run & 1), counts[run]
        run += 1
        # The next run of the same bit follows at once where the one between is empty.
        while run < last and (counts[run] == 0 or run & 1 ^ np.int64(first) == bit):
            if run & 1 ^ np.int64(first) == bit:
                count += counts[run]
            run += 1
        while count:
            if held == 0 and count >= 8:
                place = put_varint(count << 1, out, place)
                out[place] = bit
                place += 1
                header, count = -1, 0
                continue
            if held == 0 and (header < 0 or out[header] == _MOST_GROUPS << 1 | 1):
                header, out[place] = place, 1
                place += 1
            taken = min(count, 8 - held)
            bits |= ((1 << taken) - 1) * bit << held
            held, count = held + taken, count - taken
            if held == 8 or (count == 0 and run == last):
                out[place] = bits
                out[header] += 2
                place += 1
                bits = held = 0
    return place


@njit
def put_streams(values: np.ndarray, width: int, out: np.ndarray, place: int) -> int:
    """Write the first byte of every value, then the second of every value, and so on.

    Args:
        values: integers[n].
        width: bytes of a value in the file; it is widened with its sign.
        out: uint8[any].
        place: where to write.

    Returns:
        The place after what was written.

    Example:
        258 and -1, four bytes wide, give 2, 255, 1, 255, 0, 255, 0, 255.
    """
    for byte in range(width):
        stream = out[place : place + len(values)]
        for i in range(len(values)):
            stream[i] = np.int64(values[i]) >> 8 * byte & 255
        place += len(values)
    return place


_MOST_PAGE_BYTES = 2**31 - 1


class PagesWriter:
    """Writes each batch of rows as one row group.

    Args:
        sink: of the file.
        columns: of the rows.
        options: as `resolve` returns them.
        limits: the thresholds of the file.
    """

    def __init__(
        self, sink: Sink, columns: Columns, options: OutputOptions, limits: FileLimits
    ) -> None:
        self._sink, self._columns, self._options = sink, columns, options
        self._limits = limits
        self._codec = _open_codec(options)
        self._groups: list[Struct] = []
        self._rows = self._place = 0
        self._page = np.empty(0, np.uint8)
        self._put(MAGIC)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write a row group, unless there are no rows."""
        if not rows.num_rows:
            return
        chunks = [self._write_chunk(column, rows.column(column.name)) for column in self._columns]
        self._add(rows.num_rows, chunks)

    def copy(self, source: BinaryIO, rows: int, chunks: Sequence[Chunk]) -> None:
        """Write a row group of another file, whose columns and options are the same.

        Args:
            source: the other file, seekable.
            rows: of the group.
            chunks: of the columns, as they are in the other file.

        Raises:
            ValueError: the other file ends before them.
        """
        copied: list[Chunk] = []
        for chunk in chunks:
            copied.append(replace(chunk, place=self._place))
            source.seek(chunk.place)
            left = chunk.bytes
            while left:
                block = source.read(min(left, self._limits.copied_bytes))
                if not block:
                    raise ValueError(f"it ends {left:,} bytes before the end of a row group")
                self._put(block)
                left -= len(block)
        self._add(rows, copied)

    def _add(self, rows: int, chunks: list[Chunk]) -> None:
        """Describe a row group that has been written."""
        self._groups.append(describe_group(self._columns, self._options, rows, chunks))
        self._rows += rows

    def close(self) -> None:
        """Write the footer."""
        padded = self._options.is_padded
        self._put(encode_footer(self._columns, padded, self._rows, self._groups))

    def _write_chunk(self, column: Column, array: pa.Array) -> Chunk:
        values, offsets = flatten(array)
        if values.dtype.kind == "f":
            values = values.view(f"i{values.itemsize}")
        place, full_bytes, levels = self._place, 0, 0
        for start, stop in cut_pages(offsets, self._limits.page_values):
            cut = offsets[start : stop + 1]
            content, count = self._fill_page(column, values, cut)
            packed = self._codec.compress(content, asbytes=True) if self._codec else bytes(content)
            header = page_header(count, len(content), len(packed))
            self._put(header)
            self._put(packed)
            full_bytes += len(header) + len(content)
            levels += count
        return Chunk(place, levels, self._place - place, full_bytes)

    def _fill_page(
        self, column: Column, values: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Return the content of a page, which is valid until the next call, and its levels."""
        levels = int(count_levels(offsets)) if column.width else len(offsets) - 1
        width = stored_bytes(column)
        most = width * int(offsets[-1] - offsets[0])
        most += most_level_bytes(levels) if column.width else 0
        if most > _MOST_PAGE_BYTES:
            raise ValueError(f"a row of {column.name} has {levels:,} values, too many for a page")
        if most > len(self._page):
            self._page = np.empty(most, np.uint8)
        place = put_levels(offsets, self._page) if column.width else 0
        end = put_streams(values[offsets[0] : offsets[-1]], width, self._page, place)
        return self._page[:end], levels

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._place += len(data)


def cut_pages(offsets: np.ndarray, values: int) -> list[tuple[int, int]]:
    """Return (first row, row after the last) of each page of a column.

    Args:
        offsets: integers[rows + 1]; at least one row.
        values: the most values of a page and the most rows, unless a single row has more values.

    Example:
        [0, 3, 5, 9, 20] and 6 values give (0, 2), (2, 3) and (3, 4).
    """
    pages, start, rows = [], 0, len(offsets) - 1
    while start < rows:
        fitting = int(np.searchsorted(offsets, offsets[start] + values, "right")) - 1
        stop = min(max(start + 1, fitting), start + values, rows)
        pages.append((start, stop))
        start = stop
    return pages


def _open_codec(options: OutputOptions) -> pa.Codec | None:
    if options.compression in {None, "none"}:
        return None
    return pa.Codec(options.compression, compression_level=options.compression_level)
