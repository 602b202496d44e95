"""Structures in Thrift's compact protocol, by which Parquet files describe themselves.

Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from corpusmill.corpus.tables.numbers import write_long


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
