"""What stands in a page of a Parquet shard, the levels of lists and values, and in structures.

A list of n values has n repetition levels, 0 for the first and 1 for the others, and as many
definition levels of 1; an empty list has one of each, both 0. Levels are written as runs: a run of
equal bits as its length and the bit, other bits in groups of eight.

Each column of a row group is written in one of Parquet's oldest encodings, which every reader has:
values as they are (PLAIN), or, where they recur, a dictionary of them and their places in it
(RLE_DICTIONARY). The most frequent value comes first in the dictionary, and a place takes whole
bytes: the high bytes of most places are then 0, and a codec finds tokens that recur. That makes the
rows of text smaller than streams of the bytes of ids do (BYTE_STREAM_SPLIT), which fewer readers
have.

What a file says of itself, its columns and where their pages are, stands at its end, in structures
of Thrift's compact protocol.

Sources:
    https://parquet.apache.org/docs/file-format/data-pages/encodings/
    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import put_varint, write_long, write_varint

_SIZE_BYTES = 4
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


# An entry of a dictionary takes about as many bytes as five places in it save, once compressed.
_LEAST_TIMES = 5
_MOST_SELDOM = np.uint16(2**16 - 1)
# The most entries of a dictionary whose places are bits, bytes, pairs of bytes, and three bytes.
_MOST_BITS, _MOST_BYTES, _MOST_PAIRS, _MOST_TRIPLES = 2, 2**8, 2**16, 2**24


@dataclass(frozen=True)
class Dictionary:
    """The values of a column in a row group, each once.

    Attributes:
        values: int64[entries].
        smallest: the smallest of them.
        places: uint8, uint16 or uint32[largest - smallest + 1], where each of the integers from the
            smallest on stands among the values, if it does.
    """

    values: np.ndarray
    smallest: int
    places: np.ndarray


def make_dictionary(values: np.ndarray) -> Dictionary | None:
    """Return a dictionary, the most frequent value first, or None where it would not save bytes.

    Args:
        values: integers[n]; they have less than 2^31.

    Example:
        A thousand times 900 and 500 times 7 give the values 900, 7; as few as two give None.
    """
    smallest = int(values.min()) if len(values) else 0
    span = int(values.max()) - smallest + 1 if len(values) else 1
    if span > len(values):  # the counts take no more memory than the values
        return None
    # A place of one byte compresses as well as any other.
    order = np.arange(span) if span <= _MOST_BYTES else _order(values, smallest, span)
    if len(order) * _LEAST_TIMES > len(values) or len(order) > _MOST_TRIPLES:
        return None
    kind = np.uint16 if len(order) <= _MOST_PAIRS else np.uint32
    places = np.zeros(span, np.uint8 if len(order) <= _MOST_BYTES else kind)
    places[order] = np.arange(len(order))
    return Dictionary(order + smallest, smallest, places)


def _order(values: np.ndarray, smallest: int, span: int) -> np.ndarray:
    """Return the distances of the values from the smallest, by frequency, then by value."""
    counts = count_values(values, smallest, span)
    distinct = np.flatnonzero(counts)
    # NumPy sorts 16-bit integers by radix, in a fifth of the time; few values are more frequent.
    seldom = np.minimum(counts[distinct], _MOST_SELDOM).astype(np.uint16)
    order = distinct[np.argsort(_MOST_SELDOM - seldom, kind="stable")]
    frequent = np.count_nonzero(seldom == _MOST_SELDOM)
    order[:frequent] = order[np.argsort(-counts[order[:frequent]], kind="stable")]
    return order


@njit
def count_values(values: np.ndarray, smallest: int, span: int) -> np.ndarray:
    """Return how often each of the integers from the smallest on occurs, int32[span]."""
    counts = np.zeros(span, np.int32)
    for value in values:
        counts[np.uint64(np.int64(value) - smallest)] += 1
    return counts


@njit
def find_places(
    values: np.ndarray, smallest: int, places: np.ndarray, out: np.ndarray, start: int
) -> None:
    """Write where values stand in a dictionary, in the type of its places.

    Args:
        values: integers[n].
        smallest: of the dictionary.
        places: of the dictionary.
        out: uint8[any].
        start: where to write; any byte, as processors write numbers anywhere.
    """
    found = out[start : start + places.itemsize * len(values)].view(places.dtype)
    for i in range(len(values)):
        # Without a sign there is no check for places that count from the end.
        found[i] = places[np.uint64(np.int64(values[i]) - smallest)]


def put_places(dictionary: Dictionary, values: np.ndarray, out: np.ndarray, place: int) -> int:
    """Write where values stand in a dictionary.

    Args:
        dictionary: of all the values.
        values: integers[n].
        out: uint8[any].
        place: where to write.

    Returns:
        The place after what was written.
    """
    if len(dictionary.values) <= _MOST_BITS:
        out[place] = 1
        edges = np.flatnonzero(values[1:] != values[:-1]) + 1
        counts = np.diff(edges, prepend=0, append=len(values))
        first = dictionary.places[values[:1].astype(np.int64) - dictionary.smallest].any()
        bits_end: int = put_runs(counts, first, out, place + 1)
        return bits_end
    width = min(3, dictionary.places.itemsize)
    out[place] = 8 * width
    # One run; places stand in groups of eight.
    groups = -(-len(values) // 8)
    place = put_varint(groups << 1 | 1, out, place + 1) if groups else place + 1
    end: int = place + 8 * groups * width
    last = place + width * len(values)
    if width == dictionary.places.itemsize:
        find_places(values, dictionary.smallest, dictionary.places, out, place)
    else:  # of four bytes the last is 0
        found = np.empty(4 * len(values), np.uint8)
        find_places(values, dictionary.smallest, dictionary.places, found, 0)
        out[place:last] = found.reshape(-1, 4)[:, :width].reshape(-1)
    out[last:end] = 0
    return end


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
        return bytes([value]) if isinstance(value, Byte) else write_long(value)
    if isinstance(value, bytes):
        return write_varint(len(value)) + value
    if isinstance(value, Mapping):
        return encode_struct(value)
    kind, size = _kind_of(value[0]) if value else _STRUCT, len(value)
    short = bytes([min(size, _LONGEST_SHORT_LIST + 1) << 4 | kind])
    head = short if size <= _LONGEST_SHORT_LIST else short + write_varint(size)
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
