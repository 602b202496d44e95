"""Fill in the middle: documents whose middle is moved to their end.

Source: Bavarian et al. 2022, "Efficient Training of Language Models to Fill in the Middle",
section 3. A share of the documents is cut at two places, both uniform among all places, the
beginning and the end included, into prefix, middle and suffix, of which each may be empty:

    PSM    <PRE> prefix <SUF> suffix <MID> middle <EOT>
    SPM    <PRE> <SUF> suffix <MID> prefix middle <EOT>

SPM is the paper's variant 2 (its appendix D), with which it trains both forms jointly, and that of
Megatron-LM and StarCoder: it is PSM with an empty prefix, whose middle is prefix and middle. The
three parts are tokenized separately. The end-of-text token is the caller's.

Static examples move the middles of documents; windows of a stream are rearranged when they are
loaded, each text of a window by itself (the paper's context level).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import (
    derive_keys,
    draw,
    purpose_of,
    to_below,
    to_uniform,
)
from corpusmill.errors import UserError, option
from corpusmill.objectives.examples.row_spans import DOCUMENT, FIRST, LENGTH
from corpusmill.tokenization.tokenizer_file import SpecialTokens

# The special tokens by role, with the names that models have given them.
FIM_TOKENS: Mapping[str, Sequence[str]] = {
    "fim_prefix": ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "\u2581<PRE>"),
    "fim_middle": ("<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>", "\u2581<MID>"),
    "fim_suffix": ("<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>", "\u2581<SUF>"),
}


def require_tokens(tokenizer_name: str, special: SpecialTokens) -> None:
    """Make sure that a tokenizer has the special tokens.

    Raises:
        UserError: it lacks one.
    """
    missing = [names[0] for role, names in FIM_TOKENS.items() if special.find(role) is None]
    if missing:
        cause = f"it has no special token {', '.join(missing)}, which filling in the middle needs"
        cure = "Train one that has it, or add it to this one as a special token"
        raise UserError(option("tokenizer", tokenizer_name), cause, cure)


def find_tokens(special: SpecialTokens) -> tuple[int, int, int]:
    """Return the ids of FIM_TOKENS, in their order; `require_tokens` has made sure of them."""
    prefix, middle, suffix = (special.find(role) for role in FIM_TOKENS)
    assert prefix is not None and middle is not None and suffix is not None  # noqa: PT018, S101
    return prefix, middle, suffix


# The forms of a document: as it is, prefix-suffix-middle, suffix-prefix-middle.
PLAIN, PSM, SPM = 0, 1, 2
# A document's draws: its form, then its two cuts.
DRAWS = 3

_DOCUMENTS = purpose_of("corpusmill.fill-in-the-middle")
# What is drawn for windows, which readers rearrange.
WINDOWS = purpose_of("corpusmill.fill-in-the-middle.windows")


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


# Special tokens that a rearranged document gets.
ADDED = 3


@njit
def rearrange(
    token_ids: np.ndarray, bounds: np.ndarray, forms: np.ndarray, roles: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Move the middles of documents to their ends.

    Args:
        token_ids: integers[tokens].
        bounds: int64[documents, 4], as `cut_tokens` has them; of PLAIN documents only the first and
            the last one count.
        forms: uint8[documents].
        roles: the ids of FIM_TOKENS, in their order.

    Returns:
        token_ids: the type of token_ids[tokens + ADDED for each rearranged document].
        offsets: int64[documents + 1].

    Example:
        token_ids [5, 6, 7, 8], bounds [[0, 1, 3, 4]] and roles (1, 2, 3) give
        [1, 5, 3, 8, 2, 6, 7] as PSM and [1, 3, 8, 2, 5, 6, 7] as SPM.
    """
    offsets = np.zeros(len(forms) + 1, np.int64)
    for i in range(len(forms)):
        added = 0 if forms[i] == PLAIN else ADDED
        offsets[i + 1] = offsets[i] + bounds[i, 3] - bounds[i, 0] + added
    moved = np.empty(offsets[-1], token_ids.dtype)
    for i in range(len(forms)):
        _write_document(token_ids, bounds[i], forms[i], roles, moved, offsets[i])
    return moved, offsets


@njit
def locate_parts(
    ids: np.ndarray, bounds: np.ndarray, forms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what documents are made of once they are rearranged.

    Args:
        ids: uint64[documents].
        bounds: int64[documents, 4], as in `rearrange`.
        forms: uint8[documents].

    Returns:
        parts: uint64[3 * documents, 3] (`row_spans`), in the order in
            which they stand; they may be empty, as two of a PLAIN document are.
        places: int64[3 * documents], where each begins among the tokens that `rearrange` returns.

    Example:
        id 7, bounds [[0, 1, 3, 4]] and PSM give [[7, 0, 1], [7, 3, 1], [7, 1, 2]] and [1, 3, 5].
    """
    parts, places = np.empty((3 * len(ids), 3), np.uint64), np.empty(3 * len(ids), np.int64)
    written = place = 0
    for i in range(len(ids)):
        begin, first, second, end = bounds[i, 0], bounds[i, 1], bounds[i, 2], bounds[i, 3]
        if forms[i] == PLAIN:
            stretches = ((begin, end), (end, end), (end, end))
        elif forms[i] == PSM:
            stretches = ((begin, first), (second, end), (first, second))
        else:
            stretches = ((begin, begin), (second, end), (begin, second))
        for start, stop in stretches:
            place += 0 if forms[i] == PLAIN else 1  # the special token before each part
            parts[written, DOCUMENT], places[written] = ids[i], place
            parts[written, FIRST], parts[written, LENGTH] = start - begin, stop - start
            place += stop - start
            written += 1
    return parts, places


@njit
def _write_document(
    source: np.ndarray,
    bounds: np.ndarray,
    form: int,
    roles: tuple[int, int, int],
    target: np.ndarray,
    place: int,
) -> int:
    """Write a document in its form from a place on, as far as there is room; return its end."""
    begin, first, second, end = bounds[0], bounds[1], bounds[2], bounds[3]
    if form != PLAIN:
        prefix, middle, suffix = roles
        place = _write_token(prefix, target, place)
        if form == PSM:
            place = _write_tokens(source, begin, first, target, place)
            begin = first
        place = _write_token(suffix, target, place)
        place = _write_tokens(source, second, end, target, place)
        place = _write_token(middle, target, place)
        end = second
    place = _write_tokens(source, begin, end, target, place)
    return place  # noqa: RET504  a compiled kernel has no type for mypy


@njit
def _write_tokens(source: np.ndarray, begin: int, end: int, target: np.ndarray, place: int) -> int:
    count: int = min(end - begin, len(target) - place)
    for i in range(count):
        target[place + i] = source[begin + i]
    return place + count


@njit
def _write_token(token: int, target: np.ndarray, place: int) -> int:
    if place == len(target):
        return place
    target[place] = token
    return place + 1


@njit
def rearrange_windows(
    windows: np.ndarray,
    keys: np.ndarray,
    rate: float,
    spm_share: float,
    around: np.ndarray,
    roles: tuple[int, int, int],
) -> None:
    """Move the middles of the texts in windows, which stay as long as they are.

    A text lies between the tokens around documents or the window's borders. What special tokens
    displace is cut off at the window's end, as in Megatron-LM; an empty text stays empty.

    Args:
        windows: integers[windows, width], changed.
        keys: uint64[windows].
        rate: the share of the texts that are rearranged.
        spm_share: the share of those that are SPM; the others are PSM.
        around: integers[n], the ids that begin or end a text, which stay where they are.
        roles: the ids of FIM_TOKENS, in their order.

    Example:
        [5, 6, 9, 7, 8], whose texts end with 9, may become [1, 3, 6, 2, 5] or [5, 6, 9, 1, 7].
    """
    width = windows.shape[1]
    source, bounds = np.empty(width, windows.dtype), np.empty(4, np.int64)
    for i in range(len(windows)):
        source[:] = windows[i]
        begin = place = texts = 0
        while place < width:
            end = begin
            while end < width and source[end] not in around:
                end += 1
            form, counter = PLAIN, texts * DRAWS
            if end > begin:
                form = draw_form(keys[i], counter, rate, spm_share)
            first, second = draw_cuts(keys[i], counter + 1, end - begin)
            bounds[:] = begin, begin + first, begin + second, end
            place = _write_document(source, bounds, form, roles, windows[i], place)
            if end < width:
                place = _write_token(source[end], windows[i], place)
            begin, texts = end + 1, texts + 1


@njit
def count_token(token_ids: np.ndarray, begins: np.ndarray, ends: np.ndarray, token: int) -> int:
    """Count a token in stretches of tokens.

    Args:
        token_ids: integers[tokens].
        begins: int64[stretches], where each begins.
        ends: int64[stretches], where each ends.
        token: its id.
    """
    total = 0
    for i in range(len(begins)):
        for place in range(begins[i], ends[i]):
            total += token_ids[place] == token
    return total
