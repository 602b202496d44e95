"""Arrays that a kernel borrows."""

import sys

import numpy as np

from corpusmill.arrays.intrinsics import borrow
from corpusmill.arrays.kernel_cache import njit


@njit(inline="always")
def add_one(numbers: np.ndarray, place: int) -> None:
    """Add 1 at a place."""
    numbers[place] += 1


@njit
def add_to_all(numbers: np.ndarray) -> None:
    """Add 1 at each place."""
    lent = borrow(numbers)
    for place in range(len(lent)):
        add_one(lent, place)


def test_a_borrowed_array_is_the_same_memory_and_stays_with_its_owner() -> None:
    numbers = np.arange(12).reshape(3, 4)[1:, ::2].T
    before = sys.getrefcount(numbers)
    for row in numbers:
        add_to_all(row)
    assert numbers.tolist() == [[5, 9], [7, 11]]
    assert sys.getrefcount(numbers) == before
    del row
    assert numbers.tolist() == [[5, 9], [7, 11]]
