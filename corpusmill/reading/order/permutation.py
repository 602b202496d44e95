"""A permutation of any range of numbers, as a function that needs no memory.

Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains": a Feistel network over two
digits, the left in Z_a and the right in Z_b, where a * b is at least the size of the range. A
result past the end of the range is permuted again until it falls within it (cycle walking).
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below


@njit
def _shape(size: int) -> tuple[int, int, int]:
    """Return how many values both digits have, and the number of rounds."""
    left_size = int(np.ceil(np.sqrt(size)))
    right_size = (size + left_size - 1) // left_size
    # Each round changes both digits. Small ranges need more rounds until any two numbers go to any
    # two places equally often, and tiny ones until all permutations occur equally often.
    rounds = 3 if size > 1024 else 4 if size > 64 else 12 if size > 1 else 0
    return left_size, right_size, rounds


@njit
def permute(index: int, size: int, key: np.uint64) -> int:
    """Return the place of one number in a permutation of the numbers below `size`.

    Args:
        index: 0 to size - 1.
        size: 1 to 2**60.
        key: selects the permutation. If a * b is the size, possibly only the even permutations
            occur.

    Returns:
        an integer in [0, size), different for each index.

    Example:
        with size 5, some key gives 3, 0, 4, 1, 2 for the indices 0 to 4.
    """
    left_size, right_size, rounds = _shape(size)
    while True:
        right = index // left_size
        left = index - right * left_size
        for turn in range(rounds):
            left += to_below(draw(key, 2 * turn * 2**32 + right), left_size)
            if left >= left_size:
                left -= left_size
            right += to_below(draw(key, (2 * turn + 1) * 2**32 + left), right_size)
            if right >= right_size:
                right -= right_size
        index = right * left_size + left
        if index < size:
            return index


@njit
def unpermute(place: int, size: int, key: np.uint64) -> int:
    """Return the number that `permute` puts at a place: its inverse, for the same size and key.

    Args:
        place: 0 to size - 1.
        size: 1 to 2**60.
        key: selects the permutation.
    """
    left_size, right_size, rounds = _shape(size)
    while True:
        right = place // left_size
        left = place - right * left_size
        for turn in range(rounds - 1, -1, -1):
            right -= to_below(draw(key, (2 * turn + 1) * 2**32 + left), right_size)
            if right < 0:
                right += right_size
            left -= to_below(draw(key, 2 * turn * 2**32 + right), left_size)
            if left < 0:
                left += left_size
        place = right * left_size + left
        if place < size:
            return place
