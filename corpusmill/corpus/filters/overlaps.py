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
import regex

from corpusmill.arrays.distinct import sort_distinct
from corpusmill.corpus.filters.dropping import Step, join_sentences, text_arrays
from corpusmill.corpus.filters.overlap_kernels import (
    ALONE,
    HEAD_WORDS,
    SPACE,
    fill_slots,
    find_overlaps,
    hash_runs,
    hash_words,
)
from corpusmill.errors import UserError

REASON = "overlap"
RUN_WORDS, FEWEST_WORDS = 13, HEAD_WORDS
# Their table takes 128 MiB in each process.
MOST_RUNS = 10**7

_OF_WORDS = regex.compile(r"[\p{L}\p{M}\p{N}]")
_SPACES = regex.compile(r"\s")
_WITHOUT_SPACES = regex.compile(
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
            raise UserError("--drop-overlap-with", cause, "Name files with longer passages")
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
        raise UserError("--drop-overlap-with", cause, cure)
    return joined


@cache
def list_characters() -> npt.NDArray[np.uint32]:
    """Return what each character is to words, uint32[2**20 + 2**16], by code point."""
    kinds = np.zeros(2**20 + 2**16, np.uint32)
    codes = (*range(0xD800), *range(0xE000, len(kinds)))
    text = "".join(map(chr, codes))
    for match in _OF_WORDS.finditer(text):
        character = match[0]
        # One character each: the German sharp s stays what it is.
        folded = next(
            (one for one in (character.casefold(), character.lower()) if len(one) == 1), character
        )
        kinds[ord(character)] = ord(folded)
    for match in _WITHOUT_SPACES.finditer(text):
        kinds[ord(match[0])] |= np.uint32(ALONE) if kinds[ord(match[0])] else np.uint32(0)
    for match in _SPACES.finditer(text):
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
        text, offsets = text_arrays(join_sentences(documents))
        found = find_overlaps(text, offsets, characters, lengths, heads, slots)
        return [REASON if is_found else "" for is_found in found.tolist()]

    return drop
