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

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.examples.fim_cuts import DRAWS, PLAIN, PSM, draw_cuts, draw_form
from corpusmill.objectives.examples.spans import DOCUMENT, FIRST, LENGTH

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
        parts: uint64[3 * documents, 3] (`corpusmill.objectives.examples.spans`), in the order in
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
            place = _write(source, begin, first, target, place)
            begin = first
        place = _write_token(suffix, target, place)
        place = _write(source, second, end, target, place)
        place = _write_token(middle, target, place)
        end = second
    place = _write(source, begin, end, target, place)
    return place  # noqa: RET504  a compiled kernel has no type for mypy


@njit
def _write(source: np.ndarray, begin: int, end: int, target: np.ndarray, place: int) -> int:
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
    end_of_text: int,
    roles: tuple[int, int, int],
) -> None:
    """Move the middles of the texts in windows, which stay as long as they are.

    A text lies between end-of-text tokens or the window's borders. What special tokens displace is
    cut off at the window's end, as in Megatron-LM; an empty text stays empty.

    Args:
        windows: integers[windows, width], changed.
        keys: uint64[windows].
        rate: the share of the texts that are rearranged.
        spm_share: the share of those that are SPM; the others are PSM.
        end_of_text: the id that ends a text.
        roles: the ids of FIM_TOKENS, in their order.

    Example:
        [5, 6, 9, 7, 8], whose end_of_text is 9, may become [1, 3, 6, 2, 5] or [5, 6, 9, 1, 7].
    """
    width = windows.shape[1]
    source, bounds = np.empty(width, windows.dtype), np.empty(4, np.int64)
    for i in range(len(windows)):
        source[:] = windows[i]
        begin = place = texts = 0
        while place < width:
            end = begin
            while end < width and source[end] != end_of_text:
                end += 1
            form, counter = PLAIN, texts * DRAWS
            if end > begin:
                form = draw_form(keys[i], counter, rate, spm_share)
            first, second = draw_cuts(keys[i], counter + 1, end - begin)
            bounds[:] = begin, begin + first, begin + second, end
            place = _write_document(source, bounds, form, roles, windows[i], place)
            if end < width:
                place = _write_token(end_of_text, windows[i], place)
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
