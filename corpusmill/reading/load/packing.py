"""Arrays packed into one piece of memory, to be sent to another process at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Arrays begin at multiples of this many bytes.
_ALIGNMENT = 64


def pack(
    arrays: Sequence[npt.NDArray[Any]], allocate: Callable[[int], npt.NDArray[np.uint8]]
) -> tuple[int, list[int]]:
    """Copy arrays into one piece of memory, one after another.

    Args:
        arrays: the arrays.
        allocate: returns memory of a size, uint8[size].

    Returns:
        the size of the memory in bytes, and where in it each array begins.
    """
    sizes = [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays]
    *begins, end = np.cumsum([0, *sizes]).tolist()
    size = max(1, end)
    memory = allocate(size)
    for array, begin in zip(arrays, begins, strict=True):
        memory[begin : begin + array.nbytes] = (
            np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        )
    return size, begins
