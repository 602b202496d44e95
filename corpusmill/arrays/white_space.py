"""White space as Python's `str.isspace` has it, found in UTF-8 without decoding."""

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit


@njit
def space_at(  # noqa: PLR0911  one return for each lead byte reads best
    data: npt.NDArray[np.uint8], position: int, end: int
) -> int:
    """Return the width of the white space (`str.isspace`) at a byte, in bytes; 0 for other text."""
    first = data[position]
    if first < 0xC2:
        return 1 if first == 0x20 or 0x09 <= first <= 0x0D or 0x1C <= first <= 0x1F else 0
    if first == 0xC2:  # U+0085, U+00A0
        return 2 if position + 1 < end and data[position + 1] in (0x85, 0xA0) else 0
    if first < 0xE1 or first > 0xE3 or position + 2 >= end:
        return 0
    second, third = data[position + 1], data[position + 2]
    if first == 0xE1:  # U+1680
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:  # U+3000
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x81:  # U+205F
        return 3 if third == 0x9F else 0
    # U+2000 to U+200A, U+2028, U+2029, U+202F
    listed = 0x80 <= third <= 0x8A or third in (0xA8, 0xA9, 0xAF)
    return 3 if second == 0x80 and listed else 0


@njit
def space_before(data: npt.NDArray[np.uint8], begin: int, end: int) -> int:
    """Return the width of the white space that ends before a byte, in bytes; 0 for other text."""
    widest = 1 if data[end - 1] < 0x80 else min(3, end - begin)
    # No first byte of these characters can continue another one, so looking back is exact.
    for width in range(1, widest + 1):
        if space_at(data, end - width, end) == width:
            return width
    return 0
