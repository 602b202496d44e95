"""What jieba's dictionary leaves of a text, cut by a Markov model in compiled loops.

Source: `jieba.finalseg` by Sun Junyi (https://github.com/fxsjy/jieba), as jieba-rs does it
(https://github.com/messense/jieba-rs), with floating-point numbers added in the same order.

Each ideograph begins a word, ends one, is in the middle of one, or is one; the likeliest sequence
of these states wins.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
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
