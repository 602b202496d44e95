"""The phrases of jieba for arrays of characters, compiled where that is proven to be the same.

The words, their frequencies and the Markov model are read from the package jieba, whose code is
never run. The package rjieba decides what is right: both cut a text made of the dictionary's own
words, and unless all phrases are the same, or if another version of jieba or none is installed,
rjieba cuts everything, which takes four times as long.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import orjson

from corpusmill.tokenization.words import jieba_states, jieba_words

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
    states: jieba_states.States

    def __call__(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return whether a phrase begins at each character."""
        shown = jieba_words.hide_others(codes)
        ends = jieba_words.score_words(self.dictionary, shown)
        begins, remainders = jieba_words.find_remainders(self.dictionary, shown, *ends)
        jieba_states.cut_remainders(self.states, shown, remainders, begins)
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


def _read_states(first: Any, following: Any, characters: Any) -> jieba_states.States:
    """Read the Markov model.

    Args:
        first: the logarithm of the probability of each first state.
        following: by each state, of a state after it.
        characters: by each state, of a character in it.
    """
    known = range(jieba_states.FIRST_KNOWN, jieba_states.LAST_KNOWN + 1)
    shares = np.full((len(known), len(_STATES)), _IMPOSSIBLE)
    for number, state in enumerate(_STATES):
        for character, share in characters[state].items():
            if ord(character) in known:
                shares[ord(character) - known[0], number] = round(share, _DECIMALS)
    return jieba_states.States(
        np.array([first[state] for state in _STATES]),
        np.array(
            [[following[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES]
        ),
        shares,
    )
