"""The phrases of jieba for arrays of characters, compiled where that is proven to be the same.

The words, their frequencies and the Markov model are read from the package jieba, whose code is
never run. The package rjieba decides what is right: both cut a text made of the dictionary's own
words, and unless all phrases are the same, or if another version of jieba or none is installed,
rjieba cuts everything, which takes four times as long.

What jieba's dictionary leaves of a text, cut by a Markov model in compiled loops.

Source: `jieba.finalseg` by Sun Junyi (https://github.com/fxsjy/jieba), as jieba-rs does it
(https://github.com/messense/jieba-rs), with floating-point numbers added in the same order.

Each ideograph begins a word, ends one, is in the middle of one, or is one; the likeliest sequence
of these states wins.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import orjson

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.words import jieba_words
from corpusmill.tokenization.words.jieba_words import is_alphanumeric

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


@dataclass(frozen=True)
class PhraseCutter:
    """Finds phrases with compiled kernels.

    Attributes:
        dictionary: the words.
        states: the Markov model.
    """

    dictionary: jieba_words.Dictionary
    states: States

    def __call__(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return whether a phrase begins at each character."""
        shown = jieba_words.hide_others(codes)
        ends = jieba_words.score_words(self.dictionary, shown)
        begins, remainders = jieba_words.find_remainders(self.dictionary, shown, *ends)
        cut_remainders(self.states, shown, remainders, begins)
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
    cutter = PhraseCutter(_read_dictionary(content), _read_states(*map(_read_table, tables)))
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


def _read_dictionary(content: bytes) -> jieba_words.Dictionary:
    """Read the dictionary's words, and weigh them by the logarithms of their shares."""
    rows, pairs, frequencies = jieba_words.read_dictionary(np.frombuffer(content, np.uint8))
    ends = np.flatnonzero(frequencies >= 0)
    distinct, numbers = np.unique(frequencies[ends], return_inverse=True)
    jieba_words.number_weights(rows, ends, numbers + 1)
    # The logarithms are those of the C library, and not NumPy's, whose last bit may differ.
    total = math.log(frequencies[ends].sum())
    weights = [math.log(frequency) - total for frequency in distinct.tolist()]
    return jieba_words.Dictionary(rows, pairs, np.array([-np.inf, *weights]), -total)


def _read_table(content: bytes) -> Any:
    """Read a table of the Markov model, which is written as Python writes a dictionary."""
    return orjson.loads(content[content.index(b"{") :].replace(b"'", b'"'))


def _read_states(first: Any, following: Any, characters: Any) -> States:
    """Read the Markov model.

    Args:
        first: the logarithm of the probability of each first state.
        following: by each state, of a state after it.
        characters: by each state, of a character in it.
    """
    known = range(FIRST_KNOWN, LAST_KNOWN + 1)
    shares = np.full((len(known), len(_STATES)), _IMPOSSIBLE)
    for number, state in enumerate(_STATES):
        for character, share in characters[state].items():
            if ord(character) in known:
                shares[ord(character) - known[0], number] = round(share, _DECIMALS)
    return States(
        np.array([first[state] for state in _STATES]),
        np.array(
            [[following[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES]
        ),
        shares,
    )
