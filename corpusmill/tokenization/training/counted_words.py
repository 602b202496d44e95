"""Distinct words with their counts: cut down to the most frequent, sorted, and their characters.

Where words have no spaces between them, as in Chinese, a word is a clause, and most clauses occur
once: the distinct words grow with the text. `WordLimits` bounds their number and their bytes, so
that training takes bounded memory. `keep_alphabet` keeps the words of the most frequent characters
alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusmill.arrays import ragged
from corpusmill.arrays.randomness import SAMPLE, derive_keys
from corpusmill.errors import UserError, option
from corpusmill.tokenization.training.word_counters import WordCounter
from corpusmill.tokenization.training.word_table import hash_words


def draw_pieces(
    sizes: npt.NDArray[np.int64], wanted: float, seed: int
) -> tuple[npt.NDArray[np.int64], float]:
    """Draw pieces of a corpus, each with the same chance, until they have a size together.

    Args:
        sizes: int64[pieces], their sizes.
        wanted: the size of the sample.
        seed: the sample's seed.

    Returns:
        int64[drawn], the numbers of the drawn pieces in ascending order; and the share of their
        documents that gives the wanted size.

    Example:
        of pieces with the sizes [10, 10, 10, 10], two are drawn for a wanted size of 15, with a
        share of 0.75.
    """
    numbers = np.arange(len(sizes), dtype=np.uint64)
    order = np.argsort(derive_keys(np.uint64(seed), numbers, 0, SAMPLE), kind="stable")
    totals = np.cumsum(sizes[order])
    drawn = order[: int(np.searchsorted(totals, wanted)) + 1]
    return np.sort(drawn), min(1.0, wanted / max(1, int(sizes[drawn].sum())))


def draw_documents(
    documents: npt.NDArray[np.uint64], share: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Draw documents by their ids alone, each with the same chance.

    Args:
        documents: uint64[documents], their ids.
        share: the chance of each; the documents of a smaller share are among those of a larger one.
        seed: the sample's seed.

    Returns:
        bool[documents], True for those of the sample.
    """
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, SAMPLE)
    return np.asarray((keys >> np.uint64(11)) * 2.0**-53 < share)


_HASHES = 2**32


class WordLimits(NamedTuple):
    """How many distinct words are trained with.

    Attributes:
        words: the most words.
        bytes: the most bytes of all words together.
    """

    words: int
    bytes: int


class WordTotals(NamedTuple):
    """The number and the size of words, by how often each of them occurs.

    Attributes:
        counts: int64[n], the counts that occur, in ascending order.
        words: int64[n], the number of words of each.
        bytes: int64[n], the bytes of these words.
    """

    counts: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]


class WordChoice(NamedTuple):
    """Which words are trained with: a set that does not depend on their order.

    Attributes:
        least_count: words that occur more often are kept.
        share: the share of the words that occur exactly so often which is kept, by their hashes.
    """

    least_count: int
    share: float = 1.0

    def select(
        self, counts: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64] | None
    ) -> npt.NDArray[np.bool_]:
        """Select words.

        Args:
            counts: int64[n], how often each occurs.
            hashes: uint64[n], as of `hash_words`; None with a share of 1.

        Returns:
            bool[n], True for the chosen words.
        """
        is_chosen: npt.NDArray[np.bool_] = counts >= self.least_count
        if hashes is not None:
            is_chosen &= (counts > self.least_count) | (hashes < self.share * _HASHES)
        return is_chosen


def add_up(counts: npt.NDArray[np.int64], sizes: npt.NDArray[np.integer]) -> WordTotals:
    """Return the number and the size of words by their counts.

    Args:
        counts: int64[n], how often each occurs.
        sizes: integers[n], the bytes of each.
    """
    distinct = np.unique(counts)
    groups = np.searchsorted(distinct, counts)
    bytes_ = np.bincount(groups, sizes, len(distinct)).astype(np.int64)
    return WordTotals(distinct, np.bincount(groups, minlength=len(distinct)), bytes_)


class CountedWords(NamedTuple):
    """Distinct words in any order.

    Attributes:
        words: the words, as bytes of UTF-8.
        counts: int64[n], how often each occurs.
    """

    words: pa.LargeBinaryArray
    counts: npt.NDArray[np.int64]

    def in_order(self) -> "CountedWords":
        """Return the words in the order of their bytes, which is that of their code points."""
        order = pc.array_sort_indices(self.words)
        return CountedWords(self.words.take(order), self.counts[order.to_numpy()])

    @property
    def text_bytes(self) -> int:
        """The size of all words together."""
        _, offsets = ragged.from_arrow(self.words)
        return int(offsets[-1] - offsets[0])

    @property
    def copied_bytes(self) -> int:
        """The size of all words together, each as often as it occurs."""
        return int(np.dot(pc.binary_length(self.words).to_numpy().astype(np.int64), self.counts))

    def totals(self) -> WordTotals:
        """Return the number and the size of the words by their counts."""
        return add_up(self.counts, pc.binary_length(self.words).to_numpy())

    def keep(self, choice: WordChoice) -> "CountedWords":
        """Return the chosen words."""
        hashes = hash_words(*ragged.from_arrow(self.words)) if choice.share < 1 else None
        is_chosen = choice.select(self.counts, hashes)
        if is_chosen.all():
            return self
        return CountedWords(self.words.filter(pa.array(is_chosen)), self.counts[is_chosen])

    def batches(self, size: int) -> Iterator[tuple[list[str], npt.NDArray[np.int64]]]:
        """Yield words as Python's strings, and their counts, so many at a time."""
        for first in range(0, len(self.counts), size):
            words = self.words.slice(first, size).cast(pa.large_string())
            yield words.to_pylist(), self.counts[first : first + size]


def read_words(counter: WordCounter, limits: WordLimits) -> CountedWords:
    """Return what a counter has counted.

    Args:
        counter: its table was never cleared.
        limits: which words are returned.
    """
    counter.finish()
    table = counter.table
    numbers = table.numbers()
    counts = table.counts(numbers)
    if len(table) > limits.words or table.text_bytes > limits.bytes:
        choice = choose_words(add_up(counts, table.sizes(numbers)), limits)
        is_chosen = choice.select(counts, table.other_hashes(numbers))
        numbers, counts = numbers[is_chosen], counts[is_chosen]
    return CountedWords(table.words(numbers), counts)


def check_words(words: CountedWords) -> None:
    """Refuse a corpus without words.

    Raises:
        UserError: there are none.
    """
    if not len(words.counts):
        raise UserError(option("input"), "it holds no words to train with", "Give files with text")


def choose_words(totals: WordTotals, limits: WordLimits) -> WordChoice:
    """Choose the most frequent words.

    Words of equal count are kept together or not at all where they are too many. Where their bytes
    are too many, a sample is kept of those of the smallest count: most words may occur only once.

    Args:
        totals: of all words, or of all that occur at least some number of times and are more than
            the limits allow.
        limits: what is allowed.

    Raises:
        UserError: even of the most frequent words there are more.
    """
    kept = np.cumsum(totals.words[::-1])[::-1]
    fitting = np.flatnonzero(kept <= limits.words)
    if not len(fitting):
        cause = f"{kept[-1]:,} words are equally frequent, and there are no more frequent ones"
        refused = option("max_distinct_words", limits.words)
        raise UserError(refused, cause, f"Give {kept[-1]:,} or more")
    counts, sizes = (column[fitting[0] :][::-1] for column in (totals.counts, totals.bytes))
    above = np.cumsum(sizes) - sizes
    border = int(np.searchsorted(above + sizes, limits.bytes, side="right"))
    if border == len(counts):
        return WordChoice(int(totals.counts[fitting[0]]))
    return WordChoice(int(counts[border]), float((limits.bytes - above[border]) / sizes[border]))


_CODES = 0x110000


def find_characters(words: CountedWords) -> tuple[list[str], list[str]]:
    """Return the characters with which words begin, and those after the first one in a word."""
    codes, begins = _read_codes(words)
    is_inner = np.ones(len(codes), np.bool_)
    is_inner[begins] = False
    return _list_characters(codes[begins]), _list_characters(codes[is_inner])


def keep_alphabet(words: CountedWords, most: int) -> CountedWords:
    """Keep the words of the most frequent characters; of equally frequent ones, the lowest.

    Args:
        words: not empty.
        most: most characters.

    Raises:
        UserError: no word is left.
    """
    codes, begins = _read_codes(words)
    is_kept = np.zeros(_CODES, np.bool_)
    is_kept[_rank_codes(words, codes, begins)[0][:most]] = True
    is_known = np.logical_and.reduceat(is_kept[codes], begins)
    if not is_known.any():
        cause = "every word has a character beside these"
        raise UserError(option("limit_alphabet", most), cause, "Give more")
    return CountedWords(words.words.filter(pa.array(is_known)), words.counts[is_known])


def cover_characters(words: CountedWords, share: float) -> set[str]:
    """Return the most frequent characters, that together are a share of all in the words."""
    ranked, totals = _rank_codes(words, *_read_codes(words))
    most = np.searchsorted(np.cumsum(totals[ranked]), share * totals.sum()) + 1
    return {chr(code) for code in ranked[:most].tolist()}


def _rank_codes(
    words: CountedWords, codes: npt.NDArray[np.uint32], begins: npt.NDArray[np.int64]
) -> tuple[np.ndarray, np.ndarray]:
    """Return all code points, the most frequent first and then the lowest, and how often each is.

    Args:
        words: the words.
        codes: as of `_read_codes`.
        begins: likewise.
    """
    copies = np.repeat(words.counts, np.diff(begins, append=len(codes)))
    totals = np.bincount(codes, copies, _CODES)
    return np.argsort(-totals, kind="stable"), totals


def _read_codes(words: CountedWords) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the code points of all words one after the other, and where each word begins."""
    text = words.words.cast(pa.large_string())
    joined, offsets = ragged.from_arrow(words.words)
    encoded = joined[offsets[0] : offsets[-1]].tobytes().decode().encode("utf-32-le")
    codes = np.frombuffer(encoded, np.uint32)
    lengths = pc.utf8_length(text).to_numpy().astype(np.int64)
    return codes, np.cumsum(lengths) - lengths


def _list_characters(codes: npt.NDArray[np.uint32]) -> list[str]:
    is_there = np.zeros(_CODES, np.bool_)
    is_there[codes] = True
    return list(map(chr, np.flatnonzero(is_there).tolist()))
