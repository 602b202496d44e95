"""What a corpus is like, counted batch by batch: text, tokens, and how long its parts are.

Measures of several batches add up, in any order. Lengths are counted in bins that grow with them,
as in HdrHistogram (Tene, 2012): a length below 128 has a bin of its own, and above that each
doubling has 64 bins, so that no bin is wider than 1.6 % of what it holds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.text.line_kernels import count_words
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.words.word_marks import ids_of

DISTRIBUTIONS = ("tokens_per_document", "sentences_per_document", "tokens_per_sentence")

_BITS = 6
_BINS = 1 << _BITS

Int64s = npt.NDArray[np.int64]


@njit
def assign_bins(values: Int64s) -> Int64s:
    """The bin of each value.

    Args:
        values: int64[n], from 0.

    Returns:
        int64[n]: [0, 127, 128, 129, 130] gives [0, 127, 128, 128, 129].
    """
    bins = np.empty(len(values), np.int64)
    for i in range(len(values)):
        shift = 0
        while values[i] >> shift >= 2 * _BINS:
            shift += 1
        bins[i] = (shift << _BITS) + (values[i] >> shift)
    return bins


def bin_edge(number: int) -> int:
    """The smallest value of a bin: of bin 127 it is 127, of 128 128, of 129 130."""
    shift = max(0, (number >> _BITS) - 1)
    return (number - (shift << _BITS)) << shift


@dataclass
class Measures:
    """What was counted; measures of several batches add up.

    Attributes:
        counts: by name; "<distribution>.<bin>.number" and "<distribution>.<bin>.sum" hold a
            distribution.
        largest: largest value of each distribution.
    """

    counts: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Measures") -> None:
        """Take over what was counted elsewhere."""
        self.counts.update(other.counts)
        for name, value in other.largest.items():
            self.largest[name] = max(value, self.largest.get(name, 0))


class Bin(NamedTuple):
    """The values from `first` to `last`: how many there are, and their sum."""

    first: int
    last: int
    number: int
    sum: int


@dataclass(frozen=True)
class Histogram:
    """How often values occur, in bins.

    Attributes:
        name: what is counted ("tokens_per_document").
        bins: those that hold anything, ascending.
        largest: the largest value.
    """

    name: str
    bins: tuple[Bin, ...]
    largest: int

    @property
    def total(self) -> int:
        """Number of values."""
        return sum(of.number for of in self.bins)

    @property
    def mean(self) -> float:
        """Mean value; 0 where there is none."""
        return sum(of.sum for of in self.bins) / self.total if self.bins else 0.0

    def quantile(self, share: float) -> int:
        """The value that `share` of the values do not exceed; that of its bin's mean.

        It is exact below 128, and off by less than 1.6 % above; 0 where there is no value.
        """
        reached = 0
        for of in self.bins:
            reached += of.number
            if reached >= share * self.total:
                return round(of.sum / of.number)
        return 0


def measure_text(documents: pa.RecordBatch) -> Measures:
    """Count the bytes, characters and words of documents.

    Args:
        documents: `corpusmill.corpus.batches.TEXT_SCHEMA`.

    Returns:
        The counts "bytes", "characters" and "words".
    """
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    text, offsets = ragged.from_arrow(sentences)
    offsets = offsets[document_offsets[0] : document_offsets[-1] + 1].astype(np.int64)
    characters, words = count_words(text, offsets)
    size = int(offsets[-1] - offsets[0])
    return Measures(Counter({"bytes": size, "characters": characters, "words": words}))


def measure_tokens(
    documents: pa.RecordBatch, special: SpecialTokens, vocab_size: int, marked: bool = False
) -> Measures:
    """Count the tokens of documents, by kind, and how they are spread.

    Args:
        documents: tokenized, `corpusmill.tokenization.encoding.tokenized_schema`.
        special: the tokenizer's special tokens.
        vocab_size: its largest id + 1.
        marked: whether ids are marked (`corpusmill.tokenization.words.word_marks`).

    Returns:
        The counts "documents", "sentences", "tokens", "unknown_tokens" and "special_tokens" (those
        that are not the unknown one), and DISTRIBUTIONS.
    """
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    token_ids, sentence_offsets = ragged.from_arrow(sentences)
    sentence_offsets = sentence_offsets[document_offsets[0] : document_offsets[-1] + 1]
    document_offsets = document_offsets.astype(np.int64) - document_offsets[0]
    per_sentence = np.diff(sentence_offsets.astype(np.int64))
    kinds = np.zeros(vocab_size, np.uint8)
    kinds[list(special.all_ids)] = 2
    if special.unk_id is not None:
        kinds[special.unk_id] = 1
    token_ids = token_ids[sentence_offsets[0] : sentence_offsets[-1]]
    if marked:
        token_ids = ids_of(token_ids)
    of_kinds = np.bincount(kinds[token_ids], minlength=3)
    measures = Measures(
        Counter(
            documents=len(document_offsets) - 1,
            sentences=len(per_sentence),
            tokens=len(token_ids),
            unknown_tokens=int(of_kinds[1]),
            special_tokens=int(of_kinds[2]),
        )
    )
    values = (
        np.diff(sentence_offsets[document_offsets].astype(np.int64)),
        np.diff(document_offsets),
        per_sentence,
    )
    for name, of in zip(DISTRIBUTIONS, values, strict=True):
        measures.add(count_values(name, of))
    return measures


def count_values(name: str, values: Int64s) -> Measures:
    """Count values into the bins of a distribution.

    Args:
        name: of the distribution.
        values: int64[n], from 0.
    """
    if not len(values):
        return Measures()
    bins = assign_bins(values)
    numbers, sums = np.bincount(bins), np.bincount(bins, values)
    counts: Counter[str] = Counter()
    for place in np.flatnonzero(numbers).tolist():
        counts[f"{name}.{place}.number"] = int(numbers[place])
        counts[f"{name}.{place}.sum"] = int(sums[place])
    return Measures(counts, {name: int(values.max())})


def read_histogram(name: str, counts: Mapping[str, int], largest: Mapping[str, int]) -> Histogram:
    """A distribution from its counts; see `Measures`."""
    places = sorted(
        int(key.split(".")[1])
        for key in counts
        if key.startswith(f"{name}.") and key.endswith(".number")
    )
    return Histogram(name, tuple(_read_bins(name, places, counts)), largest.get(name, 0))


def _read_bins(name: str, places: Iterable[int], counts: Mapping[str, int]) -> Iterator[Bin]:
    for place in places:
        number, total = counts[f"{name}.{place}.number"], counts[f"{name}.{place}.sum"]
        yield Bin(bin_edge(place), bin_edge(place + 1) - 1, number, total)


def measure_corpus(
    batches: Iterable[pa.RecordBatch],
    tokenizer: SentenceTokenizer,
    special: SpecialTokens,
    vocab_size: int,
) -> Measures:
    """Measure documents of text in one pass; the job `inspect-corpus` counts the same.

    Args:
        batches: of `corpusmill.corpus.batches.TEXT_SCHEMA`, as
            `corpusmill.corpus.input_formats.read_corpus` gives them.
        tokenizer: whose tokens are counted.
        special: its special tokens.
        vocab_size: its largest id + 1.
    """
    measures = Measures()
    for batch in batches:
        measures.add(measure_text(batch))
        encoded = encode_documents(tokenizer, batch)
        measures.add(measure_tokens(encoded.documents, special, vocab_size))
    return measures
