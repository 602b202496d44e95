"""The result of counting: files of words, of which the most frequent are loaded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    WordChoice,
    WordLimits,
    WordTotals,
    choose_words,
)
from transforms.collected import read_collected
from transforms.elements import Segment
from transforms.spill import load_segment

SCHEMA = pa.schema([("word", pa.large_binary()), ("count", pa.int64())])


def classify_counts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the class of each count: 1 for 1, 2 for 2 and 3, 3 for 4 to 7, and so on."""
    classes: npt.NDArray[np.int64] = np.frexp(counts.astype(np.float64))[1].astype(np.int64)
    return classes


def read_result(path: str) -> tuple[dict[str, int], list[Segment]]:
    """Read the counts of all stages, and the references to all words.

    Raises:
        DamagedFileError: the file is damaged.
    """
    counts, words = read_collected(path)
    return counts, [Segment(*segment) for segment in words]


def check_counts(counts: Mapping[str, int], ranges: int, read_bytes: int, share: float) -> None:
    """Check that nothing was lost between reading and counting.

    Args:
        counts: the counts of all stages.
        ranges: number of planned ranges.
        read_bytes: the size of what is read; -1 if it is unknown.
        share: the share of the documents that are counted.

    Raises:
        RuntimeError: something was lost.
    """
    expected = {"total.words": counts.get("count.words", 0), "read.ranges": ranges}
    if read_bytes >= 0:
        expected["read.bytes"] = read_bytes
    if share >= 1:
        expected["count.documents"] = counts.get("read.documents", 0)
    problems = [
        f"{name} is {counts.get(name, 0):,} in place of {number:,}"
        for name, number in expected.items()
        if counts.get(name, 0) != number
    ]
    if problems:
        raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))


def load_words(segments: Sequence[Segment], limits: WordLimits) -> CountedWords:
    """Load the most frequent words, as `CountedWords.keep_most_frequent` chooses them.

    Only classes of counts with words that are kept are read, one segment after another.

    Args:
        segments: of all partitions.
        limits: which words are loaded.
    """
    choice = _choose_words(segments, limits)
    least_class = classify_counts(np.array([choice.least_count]))[0]
    kept = [
        _load(segment).keep(choice) for segment in sorted(segments) if segment.bucket >= least_class
    ]
    if not kept:
        return CountedWords(pa.array([], pa.large_binary()), np.zeros(0, np.int64))
    words = pa.concat_arrays([part.words for part in kept])
    return CountedWords(words, np.concatenate([part.counts for part in kept]))


def _load(segment: Segment) -> CountedWords:
    rows = load_segment(segment, SCHEMA)
    return CountedWords(rows.column("word"), rows.column("count").to_numpy())


def _choose_words(segments: Sequence[Segment], limits: WordLimits) -> WordChoice:
    """Choose words of all segments; those of counts that are certainly left out are not read."""
    words, sizes = Counter[int](), Counter[int]()
    # A segment is larger than its words.
    if (
        sum(segment.rows for segment in segments) <= limits.words
        and sum(segment.length for segment in segments) <= limits.bytes
    ):
        return WordChoice(1)
    descending = sorted(segments, key=attrgetter("bucket"), reverse=True)
    for _, same_class in groupby(descending, key=attrgetter("bucket")):
        for segment in same_class:
            totals = _load(segment).totals()
            words.update(dict(zip(totals.counts.tolist(), totals.words.tolist(), strict=True)))
            sizes.update(dict(zip(totals.counts.tolist(), totals.bytes.tolist(), strict=True)))
        if words.total() > limits.words or sizes.total() > limits.bytes:
            break
    counts = sorted(words)
    columns = (counts, [words[one] for one in counts], [sizes[one] for one in counts])
    return choose_words(WordTotals(*(np.array(column, np.int64) for column in columns)), limits)
