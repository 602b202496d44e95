"""The content of data pages: levels made straight from the lengths of lists, and streams of bytes.

A list of n values has n repetition levels, 0 for the first and 1 for the others, and as many
definition levels of 1; an empty list has one of each, both 0. Levels are written as runs: a run of
equal bits as its length and the bit, other bits in groups of eight.

Source: https://parquet.apache.org/docs/file-format/data-pages/encodings/
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import put_varint

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
