"""The characters of counted words: which there are, and words of the most frequent alone."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusmill.arrays import ragged
from corpusmill.errors import UserError, option
from corpusmill.tokenization.training.counted_words import CountedWords

_CODES = 0x110000


def find_characters(words: CountedWords) -> tuple[list[str], list[str]]:
    """Return the characters with which words begin, and those after the first one in a word."""
    codes, begins = _read_codes(words)
    is_first, is_inner = np.zeros(_CODES, np.bool_), np.zeros(_CODES, np.bool_)
    is_first[codes[begins]] = True
    is_begin = np.zeros(len(codes), np.bool_)
    is_begin[begins] = True
    is_inner[codes[~is_begin]] = True
    return _write(is_first), _write(is_inner)


def keep_alphabet(words: CountedWords, most: int) -> CountedWords:
    """Keep the words of the most frequent characters; of equally frequent ones, the lowest.

    Args:
        words: not empty.
        most: most characters.

    Raises:
        UserError: no word is left.
    """
    codes, begins = _read_codes(words)
    lengths = np.diff(begins, append=len(codes))
    totals = np.zeros(_CODES, np.int64)
    np.add.at(totals, codes, np.repeat(words.counts, lengths))
    present = np.flatnonzero(totals)
    kept = present[np.lexsort((present, -totals[present]))[:most]]
    is_kept = np.zeros(_CODES, np.bool_)
    is_kept[kept] = True
    is_known = np.logical_and.reduceat(is_kept[codes], begins)
    if not is_known.any():
        cause = "every word has a character beside these"
        raise UserError(option("limit_alphabet", most), cause, "Give more")
    return CountedWords(words.words.filter(pa.array(is_known)), words.counts[is_known])


def _read_codes(words: CountedWords) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the code points of all words one after the other, and where each word begins."""
    text = words.words.cast(pa.large_string())
    joined, offsets = ragged.from_arrow(words.words)
    encoded = joined[offsets[0] : offsets[-1]].tobytes().decode().encode("utf-32-le")
    codes = np.frombuffer(encoded, np.uint32)
    lengths = pc.utf8_length(text).to_numpy().astype(np.int64)
    return codes, np.cumsum(lengths) - lengths


def _write(is_there: npt.NDArray[np.bool_]) -> list[str]:
    return list(map(chr, np.flatnonzero(is_there).tolist()))
