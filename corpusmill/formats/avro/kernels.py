"""Compiled decoding of the rows of an Avro block: numbers and arrays of numbers, field by field.

An array is a sequence of blocks, each of which begins with its number of items, and ends with a
block of 0 items. If the number is negative, the size of the block in bytes follows it. The arrays
that are written here have one block.

Source: https://avro.apache.org/docs/1.12.0/specification/#arrays-1
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import take_varint


@njit
def _take_number(data: np.ndarray, place: int) -> tuple[int, int]:
    """Return a zigzag number and the place after it; the place is -1 if the number is damaged."""
    bits, place = take_varint(data, place, len(data))
    return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), place


@njit
def _take_array(data: np.ndarray, place: int, values: np.ndarray, total: int) -> tuple[int, int]:
    """Append the items of an array to the first `total` values.

    Returns:
        total: how many values there are now.
        place: after the array; -1 if it is damaged.
    """
    count, place = _take_number(data, place)
    while count and place >= 0:
        if count < 0:
            count = -count
            _, place = _take_number(data, place)
        # In a damaged file `count` can be anything.
        if place < 0 or count < 0 or count > len(data) - place:
            return total, -1
        for _ in range(count):
            values[total], place = _take_number(data, place)
            if place < 0:
                return total, -1
            total += 1
        count, place = _take_number(data, place)
    return total, place


@njit
def decode_rows(
    data: np.ndarray, rows: int, is_list: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Decode all numbers of a block.

    Args:
        data: uint8[bytes], the block after decompression.
        rows: how many it holds.
        is_list: bool[fields], whether a field is an array of numbers or one number.

    Returns:
        values: int64[total], in the order of the file.
        starts: int64[fields, rows] into values.
        ends: int64[fields, rows] into values.
        damaged: the first damaged row; `rows` if bytes follow the last row; -1 if all is well.

    Example:
        two rows of an array and a number, [[5, -1], 7] and [[], 3], give values [5, -1, 7, 3],
        starts [[0, 3], [2, 3]] and ends [[2, 3], [3, 4]].
    """
    # Each number takes at least one byte.
    values = np.empty(len(data), np.int64)
    shape = (len(is_list), rows)
    starts, ends = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    place = total = 0
    for row in range(rows):
        for field in range(len(is_list)):
            starts[field, row] = total
            if is_list[field]:
                total, place = _take_array(data, place, values, total)
            elif place < len(data):
                values[total], place = _take_number(data, place)
                total += 1
            else:
                place = -1
            if place < 0:
                return values, starts, ends, row
            ends[field, row] = total
    return values[:total], starts, ends, -1 if place == len(data) else rows
