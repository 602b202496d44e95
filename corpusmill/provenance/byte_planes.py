"""Numbers as bytes that compress well: the lowest byte of all numbers, then the next one of all.

The upper bytes of small numbers are alike, and those that are 0 in all numbers are left out. The
first byte is how many bytes there are of each number:

    [7, 256, 258]   is   2   7 0 2   0 1 1

Parquet's BYTE_STREAM_SPLIT stores numbers so, too, but Arrow takes four times as long to write
lists of them. Of flags there are eight in a byte, after a byte that says how many of the last one
are none.
"""

import numpy as np


def to_bytes(values: np.ndarray, dtype: np.dtype) -> bytes:
    """Return numbers or flags as bytes.

    Args:
        values: integers[n] or bool[n].
        dtype: the type of which they are kept; of a smaller one than theirs, modulo its size.
    """
    if dtype == np.bool_:
        return to_bits(values)
    return to_planes(values.astype(dtype, copy=False).view(_unsigned(dtype)))


def from_bytes(data: bytes, dtype: np.dtype) -> np.ndarray:
    """Return what `to_bytes` has made bytes of.

    Args:
        data: the bytes.
        dtype: the type of the numbers.
    """
    if dtype == np.bool_:
        return from_bits(data)
    return from_planes(data, _unsigned(dtype)).view(dtype)


def _unsigned(dtype: np.dtype) -> np.dtype:
    """Return the unsigned type of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


def to_planes(values: np.ndarray) -> bytes:
    """Return numbers as bytes.

    Args:
        values: unsigned integers[n].
    """
    number = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    planes = np.empty((number, len(values)), np.uint8)
    for place in range(number):
        planes[place] = values >> values.dtype.type(8 * place)
    return bytes([number]) + planes.tobytes()


def from_planes(data: bytes, dtype: np.dtype) -> np.ndarray:
    """Return the numbers of which `to_planes` has made bytes.

    Args:
        data: the bytes.
        dtype: an unsigned type, which can hold the numbers.
    """
    number = data[0]
    planes = np.frombuffer(data, np.uint8, offset=1).reshape(number, -1)
    # The smallest type that holds them, as memory takes most of the time.
    small = np.dtype(f"u{1 << (number - 1).bit_length()}")
    values: np.ndarray = planes[0].astype(small)
    for place in range(1, number):
        values |= planes[place].astype(small) << small.type(8 * place)
    return values.astype(dtype, copy=False)


def to_bits(flags: np.ndarray) -> bytes:
    """Return flags as bytes.

    Args:
        flags: bool[n].

    Example:
        [True, False, True] gives the bytes 5 and 0b10100000.
    """
    return bytes([-len(flags) % 8]) + np.packbits(flags).tobytes()


def from_bits(data: bytes) -> np.ndarray:
    """Return the flags of which `to_bits` has made bytes: bool[n]."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8, offset=1))
    return bits[: len(bits) - data[0]].view(np.bool_)
