"""The symbols of all words in one array of cells, in which symbols are joined in place.

A word is a boundary and a cell for each of its characters. The first cell of a symbol holds its id.
If a symbol has n > 1 cells, the others are negative, and the second and the last of them hold
1 - n, so that both neighbours of a symbol are found at once. Nothing moves when symbols are joined.

Example:
    The words "ab" (number 0) and "abb" (number 1), where a and b have the ids 5 and 6, and "ab" the
    id 7, before and after a and b are joined, with B for BOUNDARY:

        B  5  6  B-1  5  6  6  B
        B  7 -1  B-1  7 -1  6  B
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.characters import read_character

# A boundary is BOUNDARY less the number of the word that follows it.
BOUNDARY = -(2**30)
# The id of characters without one.
UNKNOWN = -1


@njit
def write_cells(text: np.ndarray, offsets: np.ndarray, ids: np.ndarray, longest: int) -> np.ndarray:
    """Write the symbols of words to cells.

    Args:
        text: uint8[bytes], the words' UTF-8.
        offsets: int64[words + 1] into text; fewer than 2**30 words.
        ids: int32[2, code points], the id of each character at the start of a word, and of each
            after it, or UNKNOWN.
        longest: the most characters of a word; longer words become several, of the same number.

    Returns:
        int32[cells], a boundary at the end.
    """
    size = offsets[-1] - offsets[0]
    cells = np.empty(size + size // longest + len(offsets), np.int32)
    written = 0
    for word in range(len(offsets) - 1):
        place, length = offsets[word], 0
        while place < offsets[word + 1]:
            code, size = read_character(text, place)
            if length % longest == 0:
                cells[written] = BOUNDARY - word
                written += 1
            cells[written] = ids[min(length % longest, 1), code]
            written, place, length = written + 1, place + size, length + 1
    cells[written] = BOUNDARY
    return cells[: written + 1]


@njit
def cell_after(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol after the one at a place, or the boundary there."""
    second = cells[place + 1]
    return place + 1 - second if BOUNDARY < second < 0 else place + 1


@njit
def cell_before(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol before the one at a place, or the boundary there."""
    last = cells[place - 1]
    return place - 1 + last if BOUNDARY < last < 0 else place - 1


@njit
def word_at(cells: np.ndarray, place: int) -> np.int64:
    """Return the number of the word that a symbol belongs to."""
    while cells[place] >= 0:
        place = cell_before(cells, place)
    return np.int64(BOUNDARY - cells[place])


@njit
def join_cells(cells: np.ndarray, place: int, after: int, joined: int) -> None:
    """Join the symbol at a place and the one after it.

    Args:
        cells: int32[cells], changed in place.
        place: the first cell of the left symbol.
        after: the first cell of the right one.
        joined: the id of the symbol that they become.
    """
    end = cell_after(cells, after)
    cells[after] = -1
    cells[place] = joined
    cells[place + 1] = cells[end - 1] = place + 1 - end
