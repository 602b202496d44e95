"""Token ids that say whether they go on with a word: what a rule of words makes of documents.

Between tokenizing and building, the boundaries of words (`corpusmill.tokenization.words.words`)
travel in the ids themselves, as 2 * id + continues, so that all stages in between handle one list
of integers as they do without boundaries.
"""

import numpy as np

from corpusmill.arrays.columns import smallest_integer


def marked_dtype(vocab_size: int) -> np.dtype:
    """The smallest of int16, uint16 and int32 that holds every marked id.

    Args:
        vocab_size: ids are below it; at most 2**30.

    Raises:
        OverflowError: the vocabulary is larger.
    """
    if vocab_size > 2**30:
        raise OverflowError(f"marked ids of {vocab_size:,} tokens take more than 31 bits")
    return smallest_integer(max(2 * vocab_size - 1, np.iinfo(np.int16).max))


def mark(ids: np.ndarray, continues: np.ndarray) -> np.ndarray:
    """Token ids to marked ones.

    Args:
        ids: any integer type[n] that holds the marked ids, too.
        continues: bool[n], where a token goes on with the word of the token before it in its
            sentence.

    Returns:
        2 * ids + continues, of the type of ids.

    Example:
        "un ##cut ##s , word" with ids [7, 8, 9, 4, 6] gives [14, 17, 19, 8, 12].
    """
    marked: np.ndarray = (ids << 1) | continues.astype(ids.dtype)
    return marked


def ids_of(marked: np.ndarray) -> np.ndarray:
    """The token ids of marked ones, of the same type."""
    ids: np.ndarray = marked >> 1
    return ids


def continues_of(marked: np.ndarray) -> np.ndarray:
    """bool[n]: where a marked id goes on with the word before it."""
    return (marked & 1).astype(np.bool_)
