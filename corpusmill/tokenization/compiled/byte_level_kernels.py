"""Byte-level BPE in compiled loops: text broken into pieces, and the bytes of a piece merged.

The pieces are those of the regular expressions of
`corpusmill.tokenization.compiled.byte_level_patterns`; merging is that of Sennrich et al. 2016 on
bytes, as GPT-2 does it (Radford et al. 2019): of all neighbours that may be joined, those of the
lowest rank first, the leftmost of them first.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit

# Classes of characters.
OTHER, LETTER, NUMBER, SPACE, UNKNOWN = 0, 1, 2, 3, 4

# A piece with more bytes is left to the tokenizer, since merging takes the square of its length.
LONGEST_PIECE = 512
_LONG_S = 0x17F  # is "s" where case does not matter
_APOSTROPHE, _BLANK = 0x27, 0x20
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
# Rows of a piece that is merged, and the key of neighbours that are never joined.
IDS, KEYS, JOINED, BEFORE, BEHIND = 0, 1, 2, 3, 4
PLACE_BITS, NEVER = 9, np.int32(2**31 - 1)
MOST_MERGES = 2 ** (31 - PLACE_BITS)


class Rules(NamedTuple):
    """What differs between patterns.

    Attributes:
        any_case: whether 'S is taken as 's, and a single character that is no letter or number goes
            with the letters behind it, line ends with the signs before them (GPT-4 and later).
        most_digits: numbers in a piece.
    """

    any_case: bool
    most_digits: int


class Merges(NamedTuple):
    """A vocabulary of byte-level BPE.

    Attributes:
        byte_ids: int32[256], the id of each byte.
        pairs: uint64[a power of two, 2]; a pair of ids, the left one in the upper half, and its
            rank in the upper half with the id it becomes; _FREE where there is none.
    """

    byte_ids: np.ndarray
    pairs: np.ndarray


@njit
def read_character(text: np.ndarray, place: int) -> tuple[int, int]:
    """Code point and size of the UTF-8 character at a place."""
    lead: int = text[place]
    if lead < 0x80:
        return lead, 1
    second: int = text[place + 1] & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third: int = text[place + 2] & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    fourth: int = text[place + 3] & 0x3F
    return (lead & 0x07) << 18 | second << 12 | third << 6 | fourth, 4


@njit
def end_of_run(
    classes: np.ndarray, text: np.ndarray, place: int, stop: int, of: int, most: int
) -> int:
    """Where a run of characters of one class ends; -1 where a class is not known.

    Args:
        classes: uint8[code points].
        text: uint8[bytes].
        place: where the run begins; it may be empty.
        stop: where the text ends.
        of: class.
        most: characters of the longest run.
    """
    while place < stop and most > 0:
        code, size = read_character(text, place)
        if classes[code] == UNKNOWN:
            return -1
        if classes[code] != of:
            break
        place, most = place + size, most - 1
    return place


@njit
def contraction_bytes(text: np.ndarray, place: int, stop: int, any_case: bool) -> int:
    """Bytes of 's, 't, 'm, 'd, 're, 've or 'll at a place; 0 for others, -1 where not known."""
    if text[place] != _APOSTROPHE or place + 1 >= stop:
        return 0
    if any_case and read_character(text, place + 1)[0] == _LONG_S:
        return -1
    case = 0x20 if any_case else 0
    first = text[place + 1] | case if text[place + 1] >= 0x40 else 0
    if first in (0x73, 0x74, 0x6D, 0x64):
        return 2
    second = text[place + 2] | case if place + 2 < stop and text[place + 2] >= 0x40 else 0
    is_long = (first == 0x6C and second == 0x6C) or (first in (0x72, 0x76) and second == 0x65)
    return 3 if is_long else 0


@njit
def end_of_blank(rules: Rules, classes: np.ndarray, text: np.ndarray, place: int, stop: int) -> int:
    """Where a piece ends that begins with white space which nothing else takes."""
    end: int = end_of_run(classes, text, place, stop, SPACE, stop)
    if end < 0:
        return end
    line_end = last = place
    at = place
    while at < end:
        last = at
        code, size = read_character(text, at)
        at += size
        if code in (0x0A, 0x0D):
            line_end = at
    if rules.any_case and line_end > place:
        return line_end
    # The last character before other text is left to it, unless there is but one.
    return end if end == stop or last == place else last


@njit
def end_of_piece(rules: Rules, classes: np.ndarray, text: np.ndarray, place: int, stop: int) -> int:
    """Where the piece that begins at a place ends; -1 where it cannot be said.

    Args:
        rules: of the pattern.
        classes: uint8[code points].
        text: uint8[bytes], valid UTF-8.
        place: first byte.
        stop: where the text ends.
    """
    size = contraction_bytes(text, place, stop, rules.any_case)
    if size:
        return place + size if size > 0 else -1
    code, size = read_character(text, place)
    of = classes[code]
    # A blank, or in later patterns any one sign, may go before letters; only a blank before signs.
    begin, next_of = place, of
    if (code == _BLANK or (rules.any_case and of in (OTHER, SPACE))) and place + size < stop:
        next_of = classes[read_character(text, place + size)[0]]
        leads = next_of == LETTER and code not in (0x0A, 0x0D)
        leads |= code == _BLANK and (next_of == OTHER or (next_of == NUMBER and not rules.any_case))
        if leads:
            begin, of = place + size, next_of
    if UNKNOWN in (of, next_of):
        return -1
    if of == SPACE:
        blank_end: int = end_of_blank(rules, classes, text, place, stop)
        return blank_end
    most = rules.most_digits if of == NUMBER else stop
    end: int = end_of_run(classes, text, begin, stop, of, most)
    if rules.any_case and of == OTHER and end > 0:
        while end < stop and text[end] in (0x0A, 0x0D):
            end += 1
    return end


@njit
def find_pair(pairs: np.ndarray, left: int, right: int) -> np.uint64:
    """Rank and new id of a pair, as in `Merges.pairs`; _FREE where it is never joined."""
    last = np.uint64(len(pairs) - 1)
    key = np.uint64(left) << np.uint64(32) | np.uint64(right)
    slot = ((key * _MULTIPLIER) >> np.uint64(32)) & last
    while pairs[slot, 1] != _FREE:
        if pairs[slot, 0] == key:
            break
        slot = (slot + np.uint64(1)) & last
    value: np.uint64 = pairs[slot, 1]
    return value


@njit
def fill_pairs(pairs: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    """Put pairs into the table.

    Args:
        pairs: uint64[a power of two, 2], all _FREE at first.
        keys: uint64[pairs]; where a key comes twice, the later value holds.
        values: uint64[pairs].
    """
    last = np.uint64(len(pairs) - 1)
    for at in range(len(keys)):
        slot = ((keys[at] * _MULTIPLIER) >> np.uint64(32)) & last
        while pairs[slot, 1] != _FREE and pairs[slot, 0] != keys[at]:
            slot = (slot + np.uint64(1)) & last
        pairs[slot, 0], pairs[slot, 1] = keys[at], values[at]


@njit
def look_up_pair(merges: Merges, piece: np.ndarray, at: int, behind: int) -> None:
    """Find out what a token of a piece and the one behind it are joined to.

    Args:
        merges: the vocabulary.
        piece: as for `merge_bytes`.
        at: the token.
        behind: the one behind it.
    """
    value = find_pair(merges.pairs, piece[IDS, at], piece[IDS, behind])
    piece[KEYS, at] = np.int32(np.int64(value >> np.uint64(32)) << PLACE_BITS | at)
    if value == _FREE:
        piece[KEYS, at] = NEVER
    piece[JOINED, at] = np.int32(value & np.uint64(0xFFFFFFFF))


@njit
def merge_bytes(
    merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray
) -> np.int64:
    """The ids of a piece.

    A token stands at the place of its first byte and names its neighbours; places are never moved,
    so that the search for the next pair is the same short loop each time.

    Args:
        merges: the vocabulary.
        text: uint8[bytes].
        start: of the piece.
        end: of the piece, at most LONGEST_PIECE behind.
        piece: int32[5, LONGEST_PIECE + 1]. The ids are written to the beginning of row IDS. The
            others are, of each token, what it becomes together with the one behind it (JOINED), the
            rank of that with its own place (KEYS), and the tokens before and behind it.

    Returns:
        Their number.
    """
    count = end - start
    for at in range(count):
        piece[IDS, at] = merges.byte_ids[text[start + at]]
        piece[BEFORE, at], piece[BEHIND, at] = at - 1, at + 1
        piece[KEYS, at] = NEVER
    for at in range(count - 1):
        look_up_pair(merges, piece, at, at + 1)
    while True:
        lowest = NEVER
        for at in range(count):
            lowest = min(lowest, piece[KEYS, at])
        if lowest == NEVER:
            break
        at = lowest & (2**PLACE_BITS - 1)
        gone = piece[BEHIND, at]
        behind, before = piece[BEHIND, gone], piece[BEFORE, at]
        piece[IDS, at], piece[BEHIND, at] = piece[JOINED, at], behind
        piece[KEYS, at] = piece[KEYS, gone] = NEVER
        piece[BEFORE, behind] = at
        if behind < count:
            look_up_pair(merges, piece, at, behind)
        if before >= 0:
            look_up_pair(merges, piece, before, at)
    left = at = 0
    while at < count:
        piece[IDS, left] = piece[IDS, at]
        left, at = left + 1, piece[BEHIND, at]
    return np.int64(left)


@njit
def merge_tokens(merges: Merges, text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The id that each of some pieces is merged to.

    Args:
        merges: the vocabulary.
        text: uint8[bytes], the pieces one behind the other, none longer than LONGEST_PIECE.
        ends: int64[pieces + 1] into text.

    Returns:
        int32[pieces], -1 for those of several ids.
    """
    merged = np.full(len(ends) - 1, -1, np.int32)
    piece = np.empty((5, LONGEST_PIECE + 1), np.int32)
    for token in range(len(merged)):
        if merge_bytes(merges, text, ends[token], ends[token + 1], piece) == 1:
            merged[token] = piece[IDS, 0]
    return merged


@njit
def encode_spans(
    rules: Rules,
    classes: np.ndarray,
    merges: Merges,
    token_starts: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids of stretches of text, each taken as a text of its own.

    Args:
        rules: of the pattern.
        classes: uint8[code points].
        merges: the vocabulary.
        token_starts: bool[256], bytes with which added tokens begin.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each.

    Returns:
        ids: int32[...], one stretch's behind the other's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer: no ids are given for them.
    """
    ids = np.empty((spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    piece = np.empty((5, LONGEST_PIECE + 1), np.int32)
    written = 0
    for span in range(len(spans)):
        place, stop = spans[span]
        for at in range(place, stop):
            left[span] |= token_starts[text[at]]
        while place < stop and not left[span]:
            end = end_of_piece(rules, classes, text, place, stop)
            if end < 0 or end - place > LONGEST_PIECE:
                left[span] = True
                break
            count = merge_bytes(merges, text, place, end, piece)
            ids[written : written + count] = piece[IDS, :count]
            written, place = written + count, end
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return ids[:written], ends, left
