"""Token ids marked by whether they continue a word.

Between tokenizing and building, the boundaries of words (`corpusmill.tokenization.words.words`)
travel in the ids themselves, as 2 * id + continues, so that all stages in between handle one list
of integers, with boundaries as without.
"""

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import smallest_integer


def marked_dtype(vocab_size: int) -> np.dtype:
    """Return the smallest of int16, uint16 and int32 that holds every marked id.

    Args:
        vocab_size: upper bound of the ids; at most 2**30.

    Raises:
        OverflowError: the vocabulary is larger.
    """
    if vocab_size > 2**30:
        raise OverflowError(f"marked ids of {vocab_size:,} tokens take more than 31 bits")
    return smallest_integer(max(2 * vocab_size - 1, np.iinfo(np.int16).max))


def mark(ids: np.ndarray, continues: npt.NDArray[np.bool_]) -> np.ndarray:
    """Mark token ids.

    Args:
        ids: [n], of an integer type that also holds the marked ids.
        continues: bool[n], whether a token continues the word of the token before it in its
            sentence.

    Returns:
        2 * ids + continues, [n], of the same type as ids.

    Example:
        "un ##cut ##s , word" with ids [7, 8, 9, 4, 6] gives [14, 17, 19, 8, 12].
    """
    marked: np.ndarray = (ids << 1) | continues.astype(ids.dtype)
    return marked


def ids_of(marked: np.ndarray) -> np.ndarray:
    """Return the token ids of marked ones, of the same type."""
    ids: np.ndarray = marked >> 1
    return ids


def continues_of(marked: np.ndarray) -> npt.NDArray[np.bool_]:
    """Return bool[n]: whether each marked id continues the word before it."""
    return (marked & 1).astype(np.bool_)
