"""What a Parquet file says of itself: its columns, and where their pages are.

Source: parquet.thrift of https://github.com/apache/parquet-format

Structures in Thrift's compact protocol, by which Parquet files describe themselves.

Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.corpus.tables.numbers import write_long
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_format import Columns


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
