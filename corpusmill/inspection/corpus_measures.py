"""Text, tokens and lengths of a corpus, counted batch by batch.

Measures of several batches add up, in any order. Lengths are counted in bins that grow with them,
as in HdrHistogram (Tene, 2012): each length below 128 has its own bin, and above that each doubling
has 64 bins, so that no bin is wider than 1.6 % of its values.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.corpus.text.line_kernels import count_words
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.tokenizer_file import ids_of

DISTRIBUTIONS = ("tokens_per_document", "sentences_per_document", "tokens_per_sentence")

_BITS = 6

Int64s = npt.NDArray[np.int64]


def assign_bins(values: Int64s) -> Int64s:
    """The bin of each value.

    Args:
        values: int64[n], not negative.

    Returns:
        int64[n]: [0, 127, 128, 129, 130] gives [0, 127, 128, 128, 129].
    """
    shifts = np.maximum(np.frexp(values)[1] - (_BITS + 1), 0)
    bins: Int64s = (shifts << _BITS) + (values >> shifts)
    return bins


def bin_edge(number: int) -> int:
    """The smallest value of a bin: 127 for bin 127, 128 for bin 128, 130 for bin 129."""
    shift = max(0, (number >> _BITS) - 1)
    return (number - (shift << _BITS)) << shift


@dataclass
class Measures:
    """Counts of a batch; those of several batches add up.

    Attributes:
        counts: by name; "<distribution>.<bin>.number" and "<distribution>.<bin>.sum" hold a
            distribution.
        largest: largest value of each distribution.
    """

    counts: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Measures") -> None:
        """Add the counts of another batch."""
        self.counts.update(other.counts)
        for name, value in other.largest.items():
            self.largest[name] = max(value, self.largest.get(name, 0))


class Bin(NamedTuple):
    """The values of one bin.

    Attributes:
        first: the smallest value that belongs to it.
        last: the largest value that belongs to it.
        number: how many values it holds.
        sum: of these values.
    """

    first: int
    last: int
    number: int
    sum: int


def quantile(bins: Sequence[Bin], share: float) -> int:
    """The value that `share` of the values do not exceed, as the mean of its bin.

    It is exact below 128, and off by less than 1.6 % above; 0 without values.
    """
    reached, total = 0, sum(part.number for part in bins)
    for part in bins:
        reached += part.number
        if reached >= share * total:
            return round(part.sum / part.number)
    return 0


def measure_text(
    documents: pa.RecordBatch, tokenized: pa.RecordBatch, sources: Sequence[str] = ()
) -> Measures:
    """Count the bytes, characters and words of documents, and their tokens by script and source.

    Args:
        documents: `corpusmill.corpus.batches.TEXT_SCHEMA`.
        tokenized: those of them that have tokens, as `measure_tokens` takes them.
        sources: the name of each document's source, empty for one without a name; none where they
            are not told apart.

    Returns:
        The counts "bytes", "characters" and "words"; "script.<name>.<bytes, words or tokens>" of
        the documents in whose middle most letters are of a script; and likewise
        "source.<name>.<bytes, words or tokens>".
    """
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    text, offsets = ragged.from_arrow(sentences)
    offsets, counts = offsets.astype(np.int64), Counter[str]()
    pieces, rows = ragged.from_arrow(tokenized.column("sentences"))
    sizes = np.diff(ragged.from_arrow(pieces)[1][rows]).tolist()
    tokens = dict(zip(tokenized.column("document").to_pylist(), sizes, strict=True))
    ids, spans = documents.column("document").to_pylist(), pairwise(document_offsets.tolist())
    names = sources or [""] * len(ids)
    for number, source, (first, end) in zip(ids, names, spans, strict=True):
        characters, words = count_words(text, offsets[first : end + 1])
        size = int(offsets[end] - offsets[first])
        begin = offsets[first] + max(0, size - _MIDDLE) // 2
        middle = text[begin : min(begin + _MIDDLE, offsets[end])].tobytes().decode(errors="ignore")
        letters = Counter(map(_name_script, filter(str.isalpha, middle)))
        script = max(letters, key=letters.__getitem__, default="no letters")
        counts["characters"] += characters
        for name, value in (("bytes", size), ("words", words), ("tokens", tokens.get(number, 0))):
            counts[f"script.{script}.{name}"] += value
            counts[name] += value
            if source:
                counts[f"source.{source}.{name}"] += value
    del counts["tokens"]  # counted by `measure_tokens`
    return Measures(counts)


# Bytes in the middle of a document that say which script it is in.
_MIDDLE = 120


@cache
def _name_script(letter: str) -> str:
    """Return the first word of a letter's name in Unicode, which is that of its script."""
    plain = unicodedata.normalize("NFKC", letter)  # of a full-width or a bold one
    return unicodedata.name(plain[0], "other").split()[0].replace("CJK", "Han").capitalize()


def classify_tokens(tokenizer_json: str, vocab_size: int) -> npt.NDArray[np.uint8]:
    """Return uint8[ids]: 2 for parts of a character, 1 for single characters, 0 for others."""
    tokenizer, ids = load_tokenizer(tokenizer_json), [[number] for number in range(vocab_size)]
    texts = tokenizer.decode_batch(ids, skip_special_tokens=False)
    kinds = [2 if "\ufffd" in text else int(len(text.strip()) == 1) for text in texts]
    return np.array(kinds, np.uint8)


def measure_tokens(
    documents: pa.RecordBatch,
    unknown: int | None,
    marked: bool = False,
    cut: bool = False,
    kinds: npt.NDArray[np.uint8] | None = None,
) -> Measures:
    """Count the tokens of documents, by kind, and the lengths of documents and sentences.

    Args:
        documents: tokenized, `corpusmill.tokenization.encoding.tokenized_schema`.
        unknown: the id of the unknown token; None if the tokenizer has none.
        marked: whether ids are marked (`corpusmill.tokenization.tokenizer_file`).
        cut: whether documents, each of one sentence, were cut into pieces
            (`corpusmill.tokenization.text_cuts`).
        kinds: as of `classify_tokens`; None if they are not counted.

    Returns:
        The counts "documents", "sentences", "tokens" and "unknown_tokens", perhaps "part_tokens"
        and "character_tokens", and DISTRIBUTIONS.
    """
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    token_ids, sentence_offsets = ragged.from_arrow(sentences)
    sentence_offsets = sentence_offsets[document_offsets[0] : document_offsets[-1] + 1]
    document_offsets = document_offsets.astype(np.int64) - document_offsets[0]
    if cut:
        sentence_offsets = sentence_offsets[document_offsets]
        document_offsets = np.arange(len(document_offsets))
    per_sentence = np.diff(sentence_offsets.astype(np.int64))
    token_ids = token_ids[sentence_offsets[0] : sentence_offsets[-1]]
    if marked:
        token_ids = ids_of(token_ids)
    measures = Measures(
        Counter(
            documents=len(document_offsets) - 1,
            sentences=len(per_sentence),
            tokens=len(token_ids),
            unknown_tokens=int(np.count_nonzero(token_ids == (-1 if unknown is None else unknown))),
        )
    )
    if kinds is not None:
        _, characters, parts = np.bincount(kinds[token_ids], minlength=3).tolist()
        measures.counts.update(part_tokens=parts, character_tokens=characters)
    values = (
        np.diff(sentence_offsets[document_offsets].astype(np.int64)),
        np.diff(document_offsets),
        per_sentence,
    )
    for name, numbers in zip(DISTRIBUTIONS, values, strict=True):
        measures.add(count_values(name, numbers))
    return measures


def count_values(name: str, values: Int64s) -> Measures:
    """Count values into the bins of a distribution.

    Args:
        name: of the distribution.
        values: int64[n], not negative.
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


def read_bins(name: str, counts: Mapping[str, int]) -> list[Bin]:
    """The bins of a distribution that are not empty, ascending, from its counts; see `Measures`."""
    places = sorted(
        int(key.split(".")[1])
        for key in counts
        if key.startswith(f"{name}.") and key.endswith(".number")
    )
    bins = []
    for place in places:
        number, total = counts[f"{name}.{place}.number"], counts[f"{name}.{place}.sum"]
        bins.append(Bin(bin_edge(place), bin_edge(place + 1) - 1, number, total))
    return bins
