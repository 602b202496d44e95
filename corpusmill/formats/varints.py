"""Varints, the integers of one to ten bytes in Protocol Buffers and Avro, for whole batches.

A byte holds seven bits, the lowest first; its highest bit says that another byte follows. Avro
moves the sign to the lowest bit first (zigzag: 0, -1, 1, -2 become 0, 1, 2, 3). Protocol Buffers
writes an int64 as it is, so that a negative number takes ten bytes.

Sources: https://protobuf.dev/programming-guides/encoding/#varints and
https://avro.apache.org/docs/1.12.0/specification/#primitive-types-1
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit


def write_varint(number: int) -> bytes:
    """Encode a number that is not negative, without zigzag.

    Example:
        127 gives the byte 127, 128 the bytes 128 and 1.
    """
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def write_long(number: int) -> bytes:
    """Encode a number that is not negative, with zigzag."""
    return write_varint(number << 1)


@njit
def varint_size(number: int) -> int:
    """Return the bytes of a number that is not negative; 127 takes 1, 128 takes 2."""
    size = 1
    while number > 127:
        number >>= 7
        size += 1
    return size


@njit
def put_varint(number: int, out: np.ndarray, place: int) -> int:
    """Write a number, without zigzag, to a place of `out`; return the place after it."""
    bits = np.uint64(number)
    while bits > np.uint64(127):
        out[place] = np.uint8((bits & np.uint64(127)) | np.uint64(128))
        bits >>= np.uint64(7)
        place += 1
    out[place] = np.uint8(bits)
    return place + 1


@njit
def _encode(number: int, zigzag: bool) -> np.uint64:
    wide = np.int64(number)
    return np.uint64((wide << 1) ^ (wide >> 63) if zigzag else wide)


@njit
def row_sizes(values: np.ndarray, offsets: np.ndarray, zigzag: bool) -> np.ndarray:
    """Return how many bytes the numbers of each row take.

    Args:
        values: integers[total].
        offsets: int64[rows + 1] into values.
        zigzag: whether they are written with zigzag.

    Returns:
        int64[rows].

    Example:
        values [1, 300, -1], offsets [0, 2, 3] give [3, 10], and with zigzag [3, 1].
    """
    sizes = np.zeros(len(offsets) - 1, np.int64)
    for row in range(len(sizes)):
        size = offsets[row + 1] - offsets[row]
        for i in range(offsets[row], offsets[row + 1]):
            bits = _encode(values[i], zigzag)
            # Comparisons in place of a loop: the processor does them for several values at once.
            size += np.int64(bits > np.uint64(2**7 - 1)) + np.int64(bits > np.uint64(2**14 - 1))
            size += np.int64(bits > np.uint64(2**21 - 1)) + np.int64(bits > np.uint64(2**28 - 1))
            size += np.int64(bits > np.uint64(2**35 - 1)) + np.int64(bits > np.uint64(2**42 - 1))
            size += np.int64(bits > np.uint64(2**49 - 1)) + np.int64(bits > np.uint64(2**56 - 1))
            size += np.int64(bits > np.uint64(2**63 - 1))
        sizes[row] = size
    return sizes


@njit
def put_rows(
    values: np.ndarray,
    offsets: np.ndarray,
    sizes: np.ndarray,
    zigzag: bool,
    out: np.ndarray,
    places: np.ndarray,
) -> None:
    """Write the numbers of each row to its own place, and move the place past them.

    Args:
        values: integers[total].
        offsets: int64[rows + 1] into values.
        sizes: int64[rows], from `row_sizes`.
        zigzag: whether they are written with zigzag.
        out: uint8[bytes], changed.
        places: int64[rows] in out, changed.
    """
    for row in range(len(places)):
        place, start, end = places[row], offsets[row], offsets[row + 1]
        if sizes[row] == end - start:  # one byte each
            for i in range(end - start):
                out[place + i] = _encode(values[start + i], zigzag)
            places[row] = place + end - start
        else:
            for i in range(start, end):
                place = put_varint(_encode(values[i], zigzag), out, place)
            places[row] = place


@njit
def take_varint(data: np.ndarray, place: int, end: int) -> tuple[np.int64, int]:
    """Read the number at a place, without zigzag.

    Args:
        data: uint8[bytes].
        place: of its first byte.
        end: the place after the last byte that it may have.

    Returns:
        number: 0 if it is damaged.
        place: after it; -1 if it does not end before `end` or has more than ten bytes.
    """
    bits, shift = np.uint64(0), np.uint64(0)
    while place < end and shift < np.uint64(7 * 10):
        byte = np.uint64(data[place])
        bits |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
        place += 1
        if byte < np.uint64(128):
            return np.int64(bits), place
    return np.int64(0), -1


@njit
def gather(
    values: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate slices of an array.

    Args:
        values: any[total].
        starts: int64[rows].
        ends: int64[rows].

    Returns:
        values: any[sum of the slices' lengths].
        offsets: int64[rows + 1].

    Example:
        values [5, 6, 7, 8], starts [2, 0], ends [4, 1] give [7, 8, 5] and [0, 2, 3].
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    for row in range(len(starts)):
        offsets[row + 1] = offsets[row] + ends[row] - starts[row]
    gathered = np.empty(offsets[-1], values.dtype)
    for row in range(len(starts)):
        source, target = starts[row], offsets[row]
        for i in range(ends[row] - source):
            gathered[target + i] = values[source + i]
    return gathered, offsets
