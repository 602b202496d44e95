"""The words and phrases of jieba, compiled where that is proven to be the same.

The words, their frequencies and the Markov model are read from the package jieba, whose code is
never run. The package rjieba decides what is right: both cut a text made of the dictionary's own
words, and unless all phrases are the same, or if another version of jieba or none is installed,
rjieba cuts everything, which takes four times as long.

A stretch of ideographs, ASCII letters and digits is cut into the words whose frequencies have the
largest product. What remains, single characters next to each other that are not a word together, is
cut by the Markov model: each ideograph begins a word, ends one, is in the middle of one, or is one;
the likeliest sequence of these states wins.

Source: `jieba.cut` and `jieba.finalseg` by Sun Junyi (https://github.com/fxsjy/jieba), as jieba-rs
does it (https://github.com/messense/jieba-rs). Floating-point numbers are added in the same order
as there, and of equal scores the same one wins, so that the words are the same.
"""

import hashlib
import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import orjson

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import HALF, MULTIPLIER, ONE, read_character

# Rows of the dictionary that are those of code points, and all of its rows.
HEADS, ROWS = 0x10000, 2**20
# A row: its filter (10 bits), the number of its weight (13 bits) and its key (41 bits). A weight
# numbered 0 stands for the end of no word.
_CODE, _KEY, _WEIGHT = np.uint64(21), np.uint64(2**41 - 1), np.uint64(2**13 - 1)
_WEIGHT_PLACE, _FILTER_PLACE = np.uint64(41), np.uint64(54)
_TABLE = np.uint64(ROWS - HEADS)
# Bits for pairs of characters, in words of 64.
_PAIRS = 2**15
_WITHIN_WORDS = (0x23, 0x25, 0x26, 0x2B, 0x2D, 0x2E, 0x5F)  # # % & + - . _
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2CEB0, 0x2EBEF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class Dictionary(NamedTuple):
    """Words and the logarithms of their shares, as a tree of characters.

    The rows are the beginnings of words. Those of one character are the first ones, by their code
    point; the others follow as an open-addressing hash table, in which a row's key is the row that
    it continues and its last character.

    Attributes:
        rows: uint64[ROWS]: the key + 1, or 0; the number of the weight of the word that ends here,
            or 0; and a filter, a bit for each of ten kinds of characters that continue it.
        pairs: uint64[...], a Bloom filter of the beginnings of two characters.
        weights: float64[weights + 1], by their numbers; the first is that of no word, -inf.
        unknown: the weight of a character that begins no word.
    """

    rows: np.ndarray
    pairs: np.ndarray
    weights: np.ndarray
    unknown: float


@njit(inline="always")
def _filter_bit(code: np.uint32) -> np.uint64:
    """Return the bit of a character in the filters of rows."""
    kind = (np.uint64(code) * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)) * np.uint64(10) >> HALF
    return ONE << (_FILTER_PLACE + kind)


@njit(inline="always")
def _pair_bit(first: np.uint32, second: np.uint32) -> tuple[np.uint64, np.uint64]:
    """Return the word and the bit of two characters in the filter of pairs."""
    mixed = (np.uint64(first) << _CODE | np.uint64(second)) * MULTIPLIER
    return mixed >> np.uint64(49), ONE << (mixed >> np.uint64(43) & np.uint64(63))


@njit(inline="always")
def _find_row(rows: np.ndarray, row: np.uint64, code: np.uint32) -> np.uint64:
    """Return the row to which a character leads from a row, or the free one where it belongs."""
    key = (row << _CODE | np.uint64(code)) + ONE
    place = np.uint64(HEADS) + ((key * MULTIPLIER >> HALF) * _TABLE >> HALF)
    while rows[place] & _KEY and rows[place] & _KEY != key:
        place += ONE
        if place == ROWS:
            place = np.uint64(HEADS)
    return place


@njit
def read_dictionary(content: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read lines of a word, its frequency and further fields, with a space after each.

    Args:
        content: uint8[bytes], UTF-8 with a line break after each line. There must be room for the
            beginnings of all words.

    Returns:
        rows: as in `Dictionary`, without weights.
        pairs: likewise.
        frequencies: int64[rows], -1 where no word ends. Of a word that recurs, the last one counts.
    """
    rows, pairs = np.zeros(ROWS, np.uint64), np.zeros(_PAIRS, np.uint64)
    frequencies = np.full(ROWS, -1, np.int64)
    place = 0
    while place < len(content):
        first, step = read_character(content, place)
        row, place = np.uint64(first), place + step
        while content[place] != 0x20:
            code, step = read_character(content, place)
            child = _find_row(rows, row, np.uint32(code))
            if row == first:
                word, bit = _pair_bit(np.uint32(first), np.uint32(code))
                pairs[word] |= bit
            rows[row] |= _filter_bit(np.uint32(code))
            rows[child] |= (row << _CODE | np.uint64(code)) + ONE
            row, place = child, place + step
        number, place = 0, place + 1
        while 0x30 <= content[place] <= 0x39:
            number, place = 10 * number + (content[place] - 0x30), place + 1
        frequencies[row] = number
        while content[place] != 0x0A:
            place += 1
        place += 1
    return rows, pairs, frequencies


@njit(inline="always")
def is_alphanumeric(code: int) -> bool:
    """Whether a character is an ASCII letter or digit."""
    return 0x30 <= code <= 0x39 or 0x41 <= code <= 0x5A or 0x61 <= code <= 0x7A


@njit
def hide_others(codes: np.ndarray) -> np.ndarray:
    """Return uint32[n], characters with 0 in place of those that jieba does not join to others.

    Args:
        codes: uint32[n], characters.
    """
    shown = np.empty(len(codes), np.uint32)
    for i in range(len(codes)):
        code = codes[i]
        shown[i] = code if 0x4E00 <= code <= 0x9FFF or is_shown(code) else 0
    return shown


@njit
def is_shown(code: int) -> bool:
    """Whether jieba may join a character to others.

    It is an ideograph, an ASCII letter or digit, or a sign within words.
    """
    if code < 0x80:
        return is_alphanumeric(code) or code in _WITHIN_WORDS
    for first, last in _IDEOGRAPHS:  # noqa: SIM110  numba has no any()
        if first <= code <= last:
            return True
    return False


@njit
def score_words(dictionary: Dictionary, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the words that begin at each character, from the last one on.

    Args:
        dictionary: the words.
        codes: uint32[n], characters; 0 where there is one that no word contains.

    Returns:
        ends: int32[n], the end of the best word.
        furthest: int32[n], the end of the longest word.
    """
    rows, pairs, weights = dictionary.rows, dictionary.pairs, dictionary.weights
    unknown, size = dictionary.unknown, len(codes)
    ends, furthest = np.empty(size, np.int32), np.empty(size, np.int32)
    scores = np.zeros(size + 1, np.float64)
    after = np.uint32(0)
    for first in range(size - 1, -1, -1):
        code = codes[first]
        best, end, longest = -np.inf, first + 1, first + 1
        if 0 < code < HEADS:
            row, place = np.uint64(code), first + 1
            content = rows[row]
            best = weights[content >> _WEIGHT_PLACE & _WEIGHT] + scores[place]
            word, bit = _pair_bit(code, after)
            if pairs[word] & bit:
                while place < size and content & _filter_bit(codes[place]):
                    row = _find_row(rows, row, codes[place])
                    content, place = rows[row], place + 1
                    number = content >> _WEIGHT_PLACE & _WEIGHT
                    score = weights[number] + scores[place]
                    end = place if score >= best else end
                    best = score if score >= best else best
                    longest = place if number else longest
        if best == -np.inf:  # no word begins here
            best, end = unknown + scores[first + 1] if code else 0.0, first + 1
        scores[first], ends[first], furthest[first], after = best, end, longest, code
    return ends, furthest


@njit
def find_remainders(
    dictionary: Dictionary, codes: np.ndarray, ends: np.ndarray, furthest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cut characters into their best words, and find what these leave.

    Args:
        dictionary: the words.
        codes: uint32[n], as for `score_words`.
        ends: int32[n], as it returns them.
        furthest: int32[n], likewise.

    Returns:
        begins: bool[n], where words begin.
        remainders: int32[m, 2], first character and end of each stretch of at least two single
            characters that are not a word together.
    """
    size = len(codes)
    begins, remainders = np.ones(size, np.bool_), np.empty((size // 2 + 1, 2), np.int32)
    rows, count = dictionary.rows, 0
    place = single = 0
    while place <= size:
        is_single = place < size and ends[place] == place + 1
        if is_single and codes[place]:
            place += 1
            continue
        if place - single > 1:
            is_word = furthest[single] == place
            if furthest[single] > place:
                is_word = _is_word(rows, codes, single, place)
            if not is_word:
                remainders[count] = single, place
                count += 1
        if place == size:
            break
        for i in range(place + 1, ends[place]):
            begins[i] = False
        place = single = ends[place]
    return begins, remainders[:count]


@njit(inline="always")
def _is_word(rows: np.ndarray, codes: np.ndarray, start: int, stop: int) -> bool:
    """Whether at least two characters are a word of the dictionary."""
    row, content = np.uint64(codes[start]), np.uint64(0)
    if row < HEADS:
        content, place = rows[row], start + 1
        while place < stop and content & _filter_bit(codes[place]):
            row = _find_row(rows, row, codes[place])
            content, place = rows[row], place + 1
        if place < stop:
            content = np.uint64(0)
    return bool(content >> _WEIGHT_PLACE & _WEIGHT > 0)


# Ideographs that the model knows.
FIRST_KNOWN, LAST_KNOWN = 0x4E00, 0x9FD5
BEGIN, END, MIDDLE, SINGLE = 0, 1, 2, 3
_CONNECTORS, _PERCENT = (0x2D, 0x2E, 0x5F), 0x25  # - . _


class States(NamedTuple):
    """The Markov model; its states are BEGIN, END, MIDDLE and SINGLE.

    Attributes:
        first: float64[4], the logarithms of the probabilities of the first state.
        next: float64[4, 4], of a state (the second index) after another one.
        characters: float64[LAST_KNOWN + 1 - FIRST_KNOWN, 4], of an ideograph in a state.
    """

    first: np.ndarray
    next: np.ndarray
    characters: np.ndarray


@njit
def cut_remainders(
    states: States, codes: np.ndarray, remainders: np.ndarray, begins: np.ndarray
) -> None:
    """Cut stretches by the Markov model, and around ASCII words where it knows no character.

    Args:
        states: the model.
        codes: uint32[n], characters.
        remainders: int32[m, 2], first character and end of each stretch.
        begins: bool[n], where words begin; written.
    """
    longest = 0
    for i in range(len(remainders)):
        longest = max(longest, remainders[i, 1] - remainders[i, 0])
    came_from = np.empty((longest, 4), np.uint8)
    for i in range(len(remainders)):
        first, stop = remainders[i]
        while first < stop:
            is_known, last = _is_known(codes[first]), first + 1
            while last < stop and _is_known(codes[last]) == is_known:
                last += 1
            if last - first > 1 and is_known:
                _cut_ideographs(states, codes, first, last, came_from, begins)
            elif last - first > 1:
                _cut_others(codes, first, last, begins)
            first = last


@njit(inline="always")
def _is_known(code: int) -> bool:
    """Whether a character is an ideograph that the Markov model knows."""
    return FIRST_KNOWN <= code <= LAST_KNOWN


@njit
def _cut_ideographs(
    states: States,
    codes: np.ndarray,
    start: int,
    stop: int,
    came_from: np.ndarray,
    begins: np.ndarray,
) -> None:
    """Find the likeliest states of ideographs (Viterbi); of equal ones the larger wins."""
    first, after, characters = states.first, states.next, states.characters
    here = codes[start] - FIRST_KNOWN
    begin, end = first[BEGIN] + characters[here, BEGIN], first[END] + characters[here, END]
    middle = first[MIDDLE] + characters[here, MIDDLE]
    single = first[SINGLE] + characters[here, SINGLE]
    for place in range(start + 1, stop):
        here, step = codes[place] - FIRST_KNOWN, place - start
        share = characters[here, BEGIN]
        one, other = end + after[END, BEGIN] + share, single + after[SINGLE, BEGIN] + share
        came_from[step, BEGIN] = END if one > other else SINGLE
        new_begin = one if one > other else other
        share = characters[here, END]
        one, other = begin + after[BEGIN, END] + share, middle + after[MIDDLE, END] + share
        came_from[step, END] = BEGIN if one > other else MIDDLE
        new_end = one if one > other else other
        share = characters[here, MIDDLE]
        one, other = begin + after[BEGIN, MIDDLE] + share, middle + after[MIDDLE, MIDDLE] + share
        came_from[step, MIDDLE] = BEGIN if one > other else MIDDLE
        middle = one if one > other else other
        share = characters[here, SINGLE]
        one, other = end + after[END, SINGLE] + share, single + after[SINGLE, SINGLE] + share
        came_from[step, SINGLE] = END if one > other else SINGLE
        single = one if one > other else other
        begin, end = new_begin, new_end
    state = END if end > single else SINGLE
    for place in range(stop - 1, start, -1):
        begins[place] = state in (BEGIN, SINGLE)
        state = came_from[place - start, state]


@njit
def _cut_others(codes: np.ndarray, start: int, stop: int, begins: np.ndarray) -> None:
    """Cut a stretch around ASCII words, such as "v1.2-rc" and "30%"; what is between is a word."""
    place = start
    while place < stop:
        first = place
        if is_alphanumeric(codes[place]):
            while place < stop and is_alphanumeric(codes[place]):
                place += 1
                is_joined = place + 1 < stop and codes[place] in _CONNECTORS
                if is_joined and is_alphanumeric(codes[place + 1]):
                    place += 1
            if place < stop and codes[place] == _PERCENT:
                place += 1
        else:
            while place < stop and not is_alphanumeric(codes[place]):
                place += 1
        begins[first + 1 : place] = False


# Characters, uint32[n], to bool[n], whether a phrase begins at each.
FindPhrases = Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.bool_]]
# Cuts a text into phrases, one after the other.
CutText = Callable[[str], list[str]]

# Of jieba 0.42.1, and the digest of one after the other.
_FILES = ("dict.txt", *(f"finalseg/prob_{table}.py" for table in ("start", "trans", "emit")))
_FILES_SHA256 = "9a119f903359e53c2bc99c64488c9836650ce3912cdadc785eab91e7c8b09884"
_STATES = "BEMS"  # as the kernels number them
_IMPOSSIBLE = -3.14e100
# jieba-rs has them with this many decimals.
_DECIMALS = 6
# One of this many words of the dictionary is in the text that is cut as a proof.
_SHARE_PROVEN = 10


def to_text(codes: npt.NDArray[np.uint32]) -> str:
    """Return the characters of code points."""
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def to_codes(text: str) -> npt.NDArray[np.uint32]:
    """Return the code points of a text's characters."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def cut_phrases(
    dictionary: Dictionary, states: States, codes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """Return whether a phrase begins at each character, by compiled kernels."""
    shown = hide_others(codes)
    ends = score_words(dictionary, shown)
    begins, remainders = find_remainders(dictionary, shown, *ends)
    cut_remainders(states, shown, remainders, begins)
    return cast(npt.NDArray[np.bool_], begins)


def choose_cutter(cut: CutText) -> FindPhrases:
    """Return what finds the phrases of a cut of rjieba's, compiled if it finds the same.

    Args:
        cut: cuts a text as rjieba does, with its own dictionary and the Markov model.
    """

    def find_phrases(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        phrases = cut(to_text(codes))
        begins = np.zeros(len(codes) + 1, np.bool_)
        begins[np.cumsum([0, *map(len, phrases)])] = True
        return begins[:-1]

    data = _read_data()
    if data is None:
        return find_phrases
    content, *tables = data
    # The tables of the Markov model are written as Python writes a dictionary.
    parsed = (orjson.loads(table[table.index(b"{") :].replace(b"'", b'"')) for table in tables)
    cutter = partial(cut_phrases, _read_dictionary(content), _read_states(*parsed))
    words = [line.split(b" ", 1)[0].decode() for line in content.splitlines()[::_SHARE_PROVEN]]
    codes = to_codes("".join([*words, "\n", *reversed(words)]))
    return cutter if np.array_equal(cutter(codes), find_phrases(codes)) else find_phrases


def _read_data() -> list[bytes] | None:
    """Read the files of the package jieba; None unless they are those that are known."""
    spec = find_spec("jieba")
    places = spec.submodule_search_locations if spec else None
    paths = [Path(place, name) for place in list(places or ())[:1] for name in _FILES]
    if not paths or not all(path.is_file() for path in paths):
        return None
    contents = [path.read_bytes() for path in paths]
    is_known = hashlib.sha256(b"".join(contents)).hexdigest() == _FILES_SHA256
    return contents if is_known else None


def _read_dictionary(content: bytes) -> Dictionary:
    """Read the dictionary's words, and weigh them by the logarithms of their shares."""
    rows, pairs, frequencies = read_dictionary(np.frombuffer(content, np.uint8))
    ends = np.flatnonzero(frequencies >= 0)
    distinct, numbers = np.unique(frequencies[ends], return_inverse=True)
    rows[ends] |= (numbers + 1).astype(np.uint64) << _WEIGHT_PLACE
    # The logarithms are those of the C library, and not NumPy's, whose last bit may differ.
    total = math.log(frequencies[ends].sum())
    weights = [math.log(frequency) - total for frequency in distinct.tolist()]
    return Dictionary(rows, pairs, np.array([-np.inf, *weights]), -total)


def _read_states(first: Any, following: Any, characters: Any) -> States:
    """Read the Markov model.

    Args:
        first: the logarithm of the probability of each first state.
        following: by each state, of a state after it.
        characters: by each state, of a character in it.
    """
    codes = range(FIRST_KNOWN, LAST_KNOWN + 1)
    shares = np.full((len(codes), len(_STATES)), _IMPOSSIBLE)
    for number, state in enumerate(_STATES):
        for character, share in characters[state].items():
            if ord(character) in codes:
                shares[ord(character) - codes[0], number] = round(share, _DECIMALS)
    return States(
        np.array([first[state] for state in _STATES]),
        np.array(
            [[following[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES]
        ),
        shares,
    )
