"""A permutation of any range of numbers, as a function that needs no memory.

Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains": a Feistel network over two
digits, left in Z_a and right in Z_b, whose product is at least the range's size; what falls behind
the end is permuted again until it falls within (cycle walking).
"""

import numpy as np
from numba import njit

from corpusmill.randomness import draw

_ROUNDS = 8


@njit(cache=True, nogil=True)
def permute(index: int, size: int, key: np.uint64) -> int:
    """Where a permutation of the numbers below `size` puts one of them.

    Args:
        index: 0 to size - 1.
        size: 1 to 2**60.
        key: which permutation.

    Returns:
        An integer in [0, size); no two indices give the same one.

    Example:
        of the 5 numbers below 5, some key gives 3, 0, 4, 1, 2.
    """
    left_size = int(np.ceil(np.sqrt(size)))
    right_size = (size + left_size - 1) // left_size
    while True:
        left, right = index % left_size, index // left_size
        for turn in range(_ROUNDS):
            # The two digits change places, and their moduli with them.
            modulus = left_size if turn % 2 == 0 else right_size
            bits = draw(key, np.int64(turn) * np.int64(2**32) + right)
            left, right = right, int((left + np.int64(bits % np.uint64(modulus))) % modulus)
        index = right * left_size + left
        if index < size:
            return index
