"""Words of texts as hashes, and which texts share a run of words with others."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import mix

# What a character is to words, in a table by code point; any other entry is the character itself,
# with its case folded.
REMOVED, SPACE = 0, 1
# Added to a character that is a word of its own.
ALONE = 2**31

# The first words of a run, which are looked up before the whole run.
HEAD_WORDS = 8

_BASE = np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE, _THREE, _SEVEN = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(7)


@njit
def hash_words(text: np.ndarray, characters: np.ndarray) -> np.ndarray:
    """Hash the words of a text.

    Args:
        text: uint8[bytes], valid UTF-8.
        characters: uint32[2**20 + 2**16], what each character is to words.

    Returns:
        uint64[words].
    """
    # A word takes a byte and a separator, or is a character of several bytes.
    words = np.empty(len(text) // 2 + 1, np.uint64)
    number = place = 0
    state = _ZERO
    while place < len(text):
        code = lead = int(text[place])
        place += 1
        if lead >= 0x80:
            length = 2 + (lead >= 0xE0) + (lead >= 0xF0)
            code = lead & (0x7F >> length)
            for byte in range(length - 1):
                code = code << 6 | int(text[place + byte]) & 0x3F
            place += length - 1
        kind = int(characters[code])
        if kind == REMOVED:
            continue
        if (kind == SPACE or kind >= ALONE) and state:
            words[number] = mix(state)
            number, state = number + 1, _ZERO
        if kind >= ALONE:
            words[number] = mix(np.uint64(kind))
            number += 1
        elif kind != SPACE:
            state = (state + np.uint64(kind)) * _BASE
    if state:
        words[number] = mix(state)
        number += 1
    return words[:number]


@njit
def hash_runs(words: np.ndarray, length: int) -> np.ndarray:
    """Hash each run of a number of words.

    Args:
        words: uint64[words], their hashes.
        length: words of a run, 1 to the number of words.

    Returns:
        uint64[words - length + 1], none of them 0.
    """
    power = state = _ONE
    for _ in range(length):
        power *= _BASE
    runs = np.empty(len(words) - length + 1, np.uint64)
    state = _ZERO
    for place in range(len(words)):
        state = state * _BASE + words[place]
        if place >= length:
            state -= words[place - length] * power
        if place >= length - 1:
            run = mix(state + np.uint64(length))
            runs[place - length + 1] = max(run, _ONE)
    return runs


@njit
def fill_slots(runs: np.ndarray, slots: np.ndarray) -> None:
    """Put runs into a hash table.

    Args:
        runs: uint64[runs], distinct and not 0.
        slots: uint64[2**bits], more than runs; 0 where a slot is free. It is changed.
    """
    last = np.uint64(len(slots) - 1)
    for run in runs:
        place = run & last
        while slots[place]:
            place = (place + _ONE) & last
        slots[place] = run


@njit
def find_overlaps(
    text: np.ndarray,
    offsets: np.ndarray,
    characters: np.ndarray,
    lengths: np.ndarray,
    heads: np.ndarray,
    slots: np.ndarray,
) -> np.ndarray:
    """Find the texts that hold one of the runs in a hash table.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: integers[texts + 1] into the bytes.
        characters: uint32[2**20 + 2**16], what each character is to words.
        lengths: integers[n], the numbers of words of the runs, HEAD_WORDS or more.
        heads: uint8[2**bits], a bit for each hash of the first HEAD_WORDS words of a run.
        slots: uint64[2**bits], the table of `fill_slots`.

    Returns:
        bool[texts].
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    power = _ONE
    for _ in range(HEAD_WORDS):
        power *= _BASE
    last = np.uint64(8 * len(heads) - 1)
    for row in range(len(found)):
        words = hash_words(text[offsets[row] : offsets[row + 1]], characters)
        state = _ZERO
        for place in range(len(words)):
            state = state * _BASE + words[place]
            if place >= HEAD_WORDS:
                state -= words[place - HEAD_WORDS] * power
            # Few runs of any text begin like one of the table: the others cost one look at a bit.
            head = mix(state + np.uint64(HEAD_WORDS)) & last
            if heads[head >> _THREE] >> (head & _SEVEN) & 1 and place >= HEAD_WORDS - 1:
                begin = place - HEAD_WORDS + 1
                if _begins_run(words[begin:], lengths, slots):
                    found[row] = True
                    break
    return found


@njit
def _begins_run(words: np.ndarray, lengths: np.ndarray, slots: np.ndarray) -> bool:
    """Return whether words begin with a run in a hash table."""
    last = np.uint64(len(slots) - 1)
    for length in lengths:
        if length > len(words):
            continue
        run = hash_runs(words[:length], length)[0]
        place = run & last
        while slots[place] and slots[place] != run:
            place = (place + _ONE) & last
        if slots[place]:
            return True
    return False
