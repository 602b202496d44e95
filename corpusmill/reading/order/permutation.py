"""A permutation of any range of numbers, as a function that needs no memory.

Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains": a Feistel network over two
digits, left in Z_a and right in Z_b, whose product is at least the range's size; what falls behind
the end is permuted again until it falls within (cycle walking).
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below


@njit
def permute(index: int, size: int, key: np.uint64) -> int:
    """Where a permutation of the numbers below `size` puts one of them.

    Args:
        index: 0 to size - 1.
        size: 1 to 2**60.
        key: which permutation. Where the digits' product is the size, it may be that only the even
            permutations come about.

    Returns:
        An integer in [0, size); no two indices give the same one.

    Example:
        of the 5 numbers below 5, some key gives 3, 0, 4, 1, 2.
    """
    left_size = int(np.ceil(np.sqrt(size)))
    right_size = (size + left_size - 1) // left_size
    # Each changes both digits. The fewer the numbers, the more it takes until two of them go to any
    # two places equally often, and of a handful until all permutations come about equally often.
    rounds = 3 if size > 1024 else 4 if size > 64 else 12 if size > 1 else 0
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
