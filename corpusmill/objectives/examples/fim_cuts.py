"""Where documents are cut to fill in the middle: the random draws.

`corpusmill.objectives.examples.fill_in_the_middle` has the source, and what is made of the cuts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import (
    derive_key,
    derive_keys,
    draw,
    purpose_of,
    to_below,
    to_uniform,
)

# The forms of a document: as it is, prefix-suffix-middle, suffix-prefix-middle.
PLAIN, PSM, SPM = 0, 1, 2
# A document's draws: its form, then its two cuts.
DRAWS = 3

_DOCUMENTS = purpose_of("corpusmill.fill-in-the-middle")
_WINDOWS = purpose_of("corpusmill.fill-in-the-middle.windows")


@dataclass(frozen=True)
class CharacterCuts:
    """Cuts texts into prefix, middle and suffix (`corpusmill.tokenization.text_cuts.TextCuts`).

    Attributes:
        seed: the data set's seed.
        rate: the share of the texts that are cut.
    """

    seed: int
    rate: float

    def __call__(
        self,
        documents: npt.NDArray[np.uint64],
        text: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the offsets of the pieces into the text, and of the documents into the pieces."""
        keys = derive_document_keys(self.seed, documents)
        pieces: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
        pieces = cut_characters(text, offsets, keys, draw_forms(keys, self.rate, 0.0))
        return pieces


def derive_document_keys(seed: int, documents: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the keys by which documents are cut, uint64[documents].

    Args:
        seed: the data set's seed.
        documents: uint64[documents], their ids.
    """
    keys: npt.NDArray[np.uint64] = derive_keys(np.uint64(seed), documents, 0, _DOCUMENTS)
    return keys


@njit
def derive_window_keys(seed: int, samples: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Return the keys by which windows are rearranged in their epochs.

    Args:
        seed: 0 to 2**64 - 1.
        samples: int64[windows], their numbers.
        epochs: int64[windows], the epoch in which each is read.

    Returns:
        uint64[windows].
    """
    keys = np.empty(len(samples), np.uint64)
    for i in range(len(samples)):
        keys[i] = derive_key(seed, samples[i], epochs[i], _WINDOWS)
    return keys


@njit
def draw_forms(keys: np.ndarray, rate: float, spm_share: float) -> np.ndarray:
    """Draw the forms of documents, uint8[documents]. Which are PLAIN depends on the rate alone.

    Args:
        keys: uint64[documents].
        rate: the share of the documents that are rearranged.
        spm_share: the share of those that are SPM; the others are PSM.
    """
    forms = np.empty(len(keys), np.uint8)
    for i in range(len(keys)):
        forms[i] = draw_form(keys[i], 0, rate, spm_share)
    return forms


@njit
def draw_form(key: np.uint64, counter: int, rate: float, spm_share: float) -> int:
    """Draw the form of one document, as `draw_forms`, with a draw of its key."""
    number = to_uniform(draw(key, counter))
    if number >= rate:
        return PLAIN
    return SPM if number < rate * spm_share else PSM


@njit
def draw_cuts(key: np.uint64, counter: int, length: int) -> tuple[int, int]:
    """Draw two places from 0 to length, the smaller one first."""
    one = to_below(draw(key, counter), length + 1)
    other = to_below(draw(key, counter + 1), length + 1)
    return min(one, other), max(one, other)


@njit
def cut_characters(
    text: np.ndarray, offsets: np.ndarray, keys: np.ndarray, forms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cut texts that are not PLAIN into three pieces, at characters of Unicode.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[documents + 1] into text.
        keys: uint64[documents].
        forms: uint8[documents].

    Returns:
        pieces: int64[pieces + 1] into text; pieces may be empty.
        document_offsets: int64[documents + 1] into the pieces.
    """
    pieces = np.empty(1 + len(forms) + 2 * np.count_nonzero(forms), np.int64)
    document_offsets = np.zeros(len(offsets), np.int64)
    pieces[0], number = offsets[0], 0
    for i in range(len(forms)):
        begin, end = offsets[i], offsets[i + 1]
        if forms[i] != PLAIN:
            characters = 0
            for place in range(begin, end):
                characters += _begins_character(text[place])
            first, second = draw_cuts(keys[i], 1, characters)
            middle = _skip_characters(text, begin, end, first)
            pieces[number + 1] = middle
            pieces[number + 2] = _skip_characters(text, middle, end, second - first)
            number += 2
        number += 1
        pieces[number], document_offsets[i + 1] = end, number
    return pieces, document_offsets


@njit
def _begins_character(byte: int) -> bool:
    """Whether a byte of UTF-8 is the first one of a character."""
    return (byte & 0xC0) != 0x80


@njit
def _skip_characters(text: np.ndarray, begin: int, end: int, number: int) -> int:
    """Return the place after a number of characters, which the text has."""
    place = begin
    while place < end:
        if _begins_character(text[place]):
            if number == 0:
                return place
            number -= 1
        place += 1
    return end


@njit
def cut_tokens(offsets: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Draw the cuts of documents at tokens.

    Args:
        offsets: int64[documents + 1], of the documents' tokens.
        keys: uint64[documents].

    Returns:
        int64[documents, 4], where prefix, middle and suffix begin, and where the suffix ends.
    """
    bounds = np.empty((len(keys), 4), np.int64)
    for i in range(len(keys)):
        begin, end = offsets[i], offsets[i + 1]
        first, second = draw_cuts(keys[i], 1, end - begin)
        bounds[i, 0], bounds[i, 1] = begin, begin + first
        bounds[i, 2], bounds[i, 3] = begin + second, end
    return bounds


def bounds_of_whole(
    offsets: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the cuts and the forms of documents that are all PLAIN.

    Args:
        offsets: int64[documents + 1], of the documents' tokens.

    Returns:
        bounds: as `cut_tokens`, with the whole document as its prefix.
        forms: uint8[documents].
    """
    begins, ends = offsets[:-1], offsets[1:]
    bounds: npt.NDArray[np.int64] = np.stack([begins, ends, ends, ends], axis=1)
    return bounds, np.full(len(bounds), PLAIN, np.uint8)


def bounds_of_pieces(
    document_offsets: npt.NDArray[np.int64],
    piece_offsets: npt.NDArray[np.int64],
    forms: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]:
    """Return the cuts of documents that `CharacterCuts` has cut.

    Args:
        document_offsets: int64[documents + 1] into the pieces.
        piece_offsets: int64[pieces + 1] into the tokens.
        forms: uint8[documents].

    Returns:
        As `cut_tokens`.

    Raises:
        ValueError: a document has another number of pieces than its form.
    """
    pieces = np.diff(document_offsets)
    if (pieces != np.where(forms == PLAIN, 1, 3)).any():
        raise ValueError("documents have other pieces than their seed and rate give")
    steps = np.minimum(np.arange(4), pieces[:, None])
    bounds: npt.NDArray[np.int64] = piece_offsets[document_offsets[:-1, None] + steps]
    return bounds
