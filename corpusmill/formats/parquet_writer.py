"""The writer of Parquet shards, for columns of numbers and lists of numbers without nulls.

Arrow's writer makes two arrays of levels, a number for each value, and looks up each value in a
hash table. This one writes the levels of a row at once, and counts the values in an array.

What a file says of itself, its columns and where their pages are, stands at its end, in structures
of Thrift's compact protocol.

Sources:
    parquet.thrift of https://github.com/apache/parquet-format
    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.arrays.ragged import flatten
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet_encodings import (
    Dictionary,
    count_levels,
    make_dictionary,
    most_level_bytes,
    put_levels,
    put_places,
)
from corpusmill.formats.shard_formats import Columns, Sink
from corpusmill.formats.varints import write_long
from corpusmill.knobs import knob


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
_WRITER = b"corpusmill version 3"  # readers parse a name, the word version and a number

_REQUIRED, _REPEATED = 0, 2
_LIST_TYPE = 3
_PLAIN, _RUNS, _PLACES = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}
# Parquet's types by kind and size of NumPy's; smaller integers are stored in four bytes.
_TYPES = {"i1": 1, "u1": 1, "i2": 1, "u2": 1, "i4": 1, "u4": 1, "i8": 2, "u8": 2, "f4": 4, "f8": 5}


def can_be_stored(column: Column) -> bool:
    """Return whether a column holds integers, or floating-point numbers of 32 or 64 bits."""
    return np.dtype(column.dtype).str[1:] in _TYPES


def stored_type(column: Column) -> np.dtype:
    """Return the type of a value in the file, as integers: one of 32 bits, or of 64."""
    return np.dtype(f"<i{max(4, np.dtype(column.dtype).itemsize)}")


def _type_of(column: Column) -> int:
    """Return the number of Parquet's type."""
    return _TYPES[np.dtype(column.dtype).str[1:]]


class Bounds(NamedTuple):
    """The smallest and the largest value of a column in a row group, as the file has them."""

    smallest: bytes
    largest: bytes


def find_bounds(column: Column, smallest: int, largest: int) -> Bounds | None:
    """Return the bounds of a column in a row group; None if the file does not give them.

    It gives those of columns with one integer a row, by which programs look for rows, and not those
    of tokens.

    Args:
        column: the column.
        smallest: value.
        largest: value.
    """
    if column.width or np.dtype(column.dtype).kind == "f":
        return None
    return Bounds(
        *(np.array(each).astype(stored_type(column)).tobytes() for each in (smallest, largest))
    )


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a row group.

    Attributes:
        place: of the first page in the file.
        levels: the number of values, and of empty lists.
        bytes: their size with headers.
        full_bytes: their size before compression.
        dictionary_bytes: the size of the first page, with its header, if it is a dictionary;
            otherwise 0.
        bounds: of the values; None if they are not told.
    """

    place: int
    levels: int
    bytes: int
    full_bytes: int
    dictionary_bytes: int
    bounds: Bounds | None


def data_header(levels: int, has_dictionary: bool, full_bytes: int, packed_bytes: int) -> bytes:
    """Return the header of a page of values, whose levels are runs.

    Args:
        levels: the number of values, and of empty lists.
        has_dictionary: whether a dictionary holds the values.
        full_bytes: size of its content before compression.
        packed_bytes: size of its content.
    """
    content = {1: levels, 2: _PLACES if has_dictionary else _PLAIN, 3: _RUNS, 4: _RUNS}
    return encode_struct({1: _DATA_PAGE, 2: full_bytes, 3: packed_bytes, 5: content})


def dictionary_header(values: int, full_bytes: int, packed_bytes: int) -> bytes:
    """Return the header of a dictionary.

    Args:
        values: the number of its values.
        full_bytes: size of its content before compression.
        packed_bytes: size of its content.
    """
    content = {1: values, 2: _PLAIN}
    return encode_struct({1: _DICTIONARY_PAGE, 2: full_bytes, 3: packed_bytes, 7: content})


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
        encodings = [_PLAIN, _RUNS]
        places: dict[int, Value] = {9: Long(chunk.place + chunk.dictionary_bytes)}
        if chunk.dictionary_bytes:
            encodings.append(_PLACES)
            places[11] = Long(chunk.place)
        if chunk.bounds:
            # There are no nulls.
            places[12] = {3: Long(0), 5: chunk.bounds.largest, 6: chunk.bounds.smallest}
        sizes = {5: Long(chunk.levels), 6: Long(chunk.full_bytes), 7: Long(chunk.bytes)}
        kind: Struct = {1: _type_of(column), 2: encodings, 3: _path(column), 4: codec}
        entries.append({2: Long(0), 3: {**kind, **sizes, **places}})
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
    # Without their order, which is that of their types, readers ignore smallest and largest values.
    orders: list[Struct] = [{1: {}}] * len(columns)
    own: Struct = {5: [{1: b"ARROW:schema", 2: schema}], 6: _WRITER, 7: orders}
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


_MOST_PAGE_BYTES = 2**31 - 1
# What stands before and after places in a dictionary.
_MOST_OTHER_BYTES = 64

PAGE_VALUES = knob("page_values", 2**18)
"""The values of a page of Parquet, and its rows, unless a single row has more."""
COPIED_GROUP_BYTES = knob("copied_group_bytes", 2**20, test=100)
"""How much of a group that stays as it is is copied at once."""


class PagesWriter:
    """Writes each batch of rows as one row group.

    Args:
        sink: of the file.
        columns: of the rows.
        options: as `resolve` returns them.
    """

    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._columns, self._options = sink, columns, options
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
                block = source.read(min(left, COPIED_GROUP_BYTES))
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
        bounds = None if column.width else find_bounds(column, values.min(), values.max())
        if values.itemsize > 2:  # also floating-point numbers become integers of the file's types
            values = values.view(f"i{values.itemsize}")
        place, levels, full_bytes = self._place, 0, 0
        dictionary = make_dictionary(values[offsets[0] : offsets[-1]])
        if dictionary:
            content = dictionary.values.astype(stored_type(column)).view(np.uint8)
            header = partial(dictionary_header, len(dictionary.values))
            full_bytes += self._write_page(content, header)
        first = self._place - place
        for start, stop in cut_pages(offsets, PAGE_VALUES):
            cut = offsets[start : stop + 1]
            content, count = self._fill_page(column, values, cut, dictionary)
            header = partial(data_header, count, dictionary is not None)
            full_bytes += self._write_page(content, header)
            levels += count
        return Chunk(place, levels, self._place - place, full_bytes, first, bounds)

    def _write_page(self, content: np.ndarray, header: Callable[[int, int], bytes]) -> int:
        """Write a page; return its size with the header, before compression."""
        packed = self._codec.compress(content, asbytes=True) if self._codec else bytes(content)
        head = header(len(content), len(packed))
        self._put(head)
        self._put(packed)
        return len(head) + len(content)

    def _fill_page(
        self,
        column: Column,
        values: np.ndarray,
        offsets: np.ndarray,
        dictionary: Dictionary | None,
    ) -> tuple[np.ndarray, int]:
        """Return the content of a page, which is valid until the next call, and its levels."""
        levels = int(count_levels(offsets)) if column.width else len(offsets) - 1
        stored, values = stored_type(column), values[offsets[0] : offsets[-1]]
        most = stored.itemsize * len(values) + _MOST_OTHER_BYTES
        most += most_level_bytes(levels) if column.width else 0
        if most > _MOST_PAGE_BYTES:
            raise ValueError(f"a row of {column.name} has {levels:,} values, too many for a page")
        if most > len(self._page):
            self._page = np.empty(most, np.uint8)
        place = put_levels(offsets, self._page) if column.width else 0
        if dictionary:
            end = put_places(dictionary, values, self._page, place)
        else:
            end = place + stored.itemsize * len(values)
            self._page[place:end] = values.astype(stored).view(np.uint8)
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
