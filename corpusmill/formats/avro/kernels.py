"""Rows of an Avro block, compiled: numbers and arrays of numbers, in the order of the fields.

An array is blocks of items, each behind their number, up to a block of none; a negative number is
followed by the bytes of the block. What is written here has one block an array.

Source: https://avro.apache.org/docs/1.12.0/specification/#arrays-1
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import take_varint


@njit
def _take_number(data: np.ndarray, place: int) -> tuple[int, int]:
    """A number with its sign, and the place behind it; (0, -1) where it has no end."""
    bits, place = take_varint(data, place, len(data))
    return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), place


@njit
def _take_array(data: np.ndarray, place: int, values: np.ndarray, found: int) -> tuple[int, int]:
    """Add the items of an array to the first `found` values.

    Returns:
        found: how many values there are now.
        place: behind the array; -1 where it is not whole.
    """
    count, place = _take_number(data, place)
    while count and place >= 0:
        if count < 0:
            count = -count
            _, place = _take_number(data, place)
        # `count` may be anything in a damaged file.
        if place < 0 or count < 0 or count > len(data) - place:
            return found, -1
        for _ in range(count):
            values[found], place = _take_number(data, place)
            if place < 0:
                return found, -1
            found += 1
        count, place = _take_number(data, place)
    return found, place


@njit
def decode_rows(
    data: np.ndarray, rows: int, is_list: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """All numbers of a block, and where those of each field stand among them.

    Args:
        data: uint8[bytes], of the block, not compressed.
        rows: how many it holds.
        is_list: bool[fields], whether a field is an array of numbers, or one number.

    Returns:
        values: int64[total], in the order of the file.
        starts: int64[fields, rows] into values.
        ends: int64[fields, rows] into values.
        damaged: the first row that is not whole, or `rows` where bytes are left behind the last
            one; -1 where all is well.

    Example:
        two rows of an array and a number, [[5, -1], 7] and [[], 3], give values [5, -1, 7, 3],
        starts [[0, 3], [2, 3]] and ends [[2, 3], [3, 4]].
    """
    # Each number takes a byte at least.
    values = np.empty(len(data), np.int64)
    shape = (len(is_list), rows)
    starts, ends = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    place = found = 0
    for row in range(rows):
        for field in range(len(is_list)):
            starts[field, row] = found
            if is_list[field]:
                found, place = _take_array(data, place, values, found)
            elif place < len(data):
                values[found], place = _take_number(data, place)
                found += 1
            else:
                place = -1
            if place < 0:
                return values, starts, ends, row
            ends[field, row] = found
    return values[:found], starts, ends, -1 if place == len(data) else rows
