"""Documents that share a run of words with an evaluation set are dropped.

A run is 13 words, as in GPT-3's decontamination (Brown et al. 2020, appendix C), where words are
what white space separates, in lower case and without punctuation. Here all of Unicode's letters,
marks and digits are parts of words, case is folded, and in scripts without spaces each character is
a word. A passage of 8 to 12 words is compared as a whole; 8 is the least that GPT-3 compares.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import sort_distinct
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import mix
from corpusmill.corpus.filters.functions import Step, join_sentences
from corpusmill.errors import UserError, option

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


REASON = "overlap"
RUN_WORDS, FEWEST_WORDS = 13, HEAD_WORDS
# Their table takes 128 MiB in each process.
MOST_RUNS = 10**7

_OF_WORDS = r"[\p{L}\p{M}\p{N}]"
_SPACES = r"\s"
_WITHOUT_SPACES = (
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}"
    r"\p{Script=Khmer}\p{Script=Myanmar}]"
)


@dataclass(frozen=True)
class Passages:
    """The runs of words in the passages of an evaluation set.

    Attributes:
        runs: uint64[runs], their hashes, ascending.
        heads: uint64[n], the hashes of the first HEAD_WORDS words of the runs, ascending.
        lengths: int64[n], the numbers of words that a run has, ascending.
        characters: uint32[2**20 + 2**16], what each character is to words.
        compared: number of passages with enough words.
        ignored: number of passages with fewer.
    """

    runs: npt.NDArray[np.uint64]
    heads: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int64]
    characters: npt.NDArray[np.uint32]
    compared: int
    ignored: int

    @classmethod
    def from_texts(cls, texts: Iterable[str], most: int = MOST_RUNS) -> Self:
        """Find the runs of words in some texts.

        Args:
            texts: the passages.
            most: the largest number of runs.

        Raises:
            UserError: there are more, or there is none.
        """
        characters, lengths = list_characters(), set[int]()
        runs: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        heads = runs[:]
        compared = ignored = waiting = 0
        for text in texts:
            words = hash_words(np.frombuffer(text.encode(), np.uint8), characters)
            if len(words) < FEWEST_WORDS:
                ignored += 1
                continue
            compared += 1
            length = min(RUN_WORDS, len(words))
            lengths.add(length)
            runs.append(hash_runs(words, length))
            heads.append(hash_runs(words, HEAD_WORDS)[: len(runs[-1])])
            waiting += len(runs[-1])
            if waiting > most:
                runs, heads = [_join(runs, most)], [_join(heads, most)]
                waiting = 0
        joined = _join(runs, most)
        if not len(joined):
            cause = f"none of its {ignored:,} passages has {FEWEST_WORDS} words"
            raise UserError(option("drop_overlap_with"), cause, "Name files with longer passages")
        starts = _join(heads, most)
        return cls(joined, starts, np.array(sorted(lengths)), characters, compared, ignored)

    def encode(self) -> bytes:
        """Return the bytes from which `load_overlaps` makes a step."""
        slots = np.zeros(2 ** (1 + (len(self.runs) * 3 // 2)).bit_length(), np.uint64)
        fill_slots(self.runs, slots)
        # One of 16 bits or fewer is set.
        bits = np.zeros(2 ** (16 * len(self.heads)).bit_length(), np.bool_)
        bits[self.heads & np.uint64(len(bits) - 1)] = True
        stream = io.BytesIO()
        for array in (
            self.characters, self.lengths, np.packbits(bits, bitorder="little"), slots,
        ):  # fmt: skip
            np.save(stream, array)
        return stream.getvalue()


def _join(runs: list[npt.NDArray[np.uint64]], most: int) -> npt.NDArray[np.uint64]:
    joined = sort_distinct(np.concatenate(runs))
    if len(joined) > most:
        cause = f"it has more than {most:,} different runs of {RUN_WORDS} words"
        cure = "Name fewer or smaller files: all workers hold them in memory"
        raise UserError(option("drop_overlap_with"), cause, cure)
    return joined


@cache
def list_characters() -> npt.NDArray[np.uint32]:
    """Return what each character is to words, uint32[2**20 + 2**16], by code point."""
    import regex  # noqa: PLC0415  a hundredth of a second, and few builds compare with passages

    kinds = np.zeros(2**20 + 2**16, np.uint32)
    codes = np.delete(np.arange(len(kinds), dtype="<u4"), slice(0xD800, 0xE000))
    text = codes.tobytes().decode("utf-32-le")
    # Many characters at once; one of whose folds has two stands alone: the German sharp s.
    for match in regex.finditer(f"{_OF_WORDS}+", text):
        parts = [match[0]] if len(match[0].casefold()) == len(match[0]) else match[0]
        place = ord(match[0][0])
        for part in parts:
            folds = (part.casefold(), part.lower(), part)
            folded = next(fold for fold in folds if len(fold) == len(part))
            kinds[place : place + len(part)] = np.frombuffer(folded.encode("utf-32-le"), "<u4")
            place += len(part)
    for match in regex.finditer(f"{_WITHOUT_SPACES}+", text):
        run = kinds[ord(match[0][0]) : ord(match[0][-1]) + 1]
        run[run > 0] |= np.uint32(ALONE)
    for match in regex.finditer(_SPACES, text):
        kinds[ord(match[0])] = SPACE
    kinds.setflags(write=False)
    return kinds


def load_overlaps(content: bytes) -> Step:
    """Make the step that drops documents with a run of words of some passages.

    Args:
        content: what `Passages.encode` returned.
    """
    stream = io.BytesIO(content)
    characters, lengths, heads, slots = (np.load(stream) for _ in range(4))
    # As in `list_characters`: a kernel is compiled for each kind of array.
    characters.setflags(write=False)

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        text, offsets = ragged.from_arrow(join_sentences(documents))
        found = find_overlaps(text, offsets, characters, lengths, heads, slots)
        return [REASON if is_found else "" for is_found in found.tolist()]

    return drop
