"""Shares of a number in whole numbers, even where products exceed 64 bits."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit


@njit
def floor_share(place: int, part: int, whole: int) -> int:
    """Return place * part / whole, rounded down.

    A float64 is close to it. The remainder shows the error; it is small, and so it is right even
    where the products have wrapped around.

    Args:
        place: 0 to `whole`.
        part: 0 to `whole`.
        whole: 1 to 2**50.

    Example:
        place 7 of 10 and part 3 give 2.
    """
    floor = int(np.float64(place) * (np.float64(part) / np.float64(whole)))
    remainder = place * part - floor * whole
    while remainder < 0:
        floor -= 1
        remainder += whole
    while remainder >= whole:
        floor += 1
        remainder -= whole
    return floor


@njit
def round_share(place: int, part: int, whole: int) -> int:
    """Return place * part / whole, rounded half up, as `floor_share` does."""
    floor: int = floor_share(place, part, whole)
    remainder = place * part - floor * whole
    return floor + 1 if remainder >= whole - remainder else floor
