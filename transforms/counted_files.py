"""The result of counting: files of words, of which the most frequent are loaded."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.tokenization.training.counted_words import CountedWords, choose_least_count
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


def load_words(segments: Sequence[Segment], most: int) -> CountedWords:
    """Load the most frequent words, as `CountedWords.keep_most_frequent` chooses them.

    Only classes of counts with words that are kept are read, one segment after another.

    Args:
        segments: of all partitions.
        most: most words.
    """
    least = _find_least_count(segments, most)
    kept = [
        _load_frequent(segment, least)
        for segment in sorted(segments)
        if segment.bucket >= classify_counts(np.array([least]))[0]
    ]
    if not kept:
        return CountedWords(pa.array([], pa.large_binary()), np.zeros(0, np.int64))
    words = pa.concat_arrays([rows.column("word") for rows in kept])
    return CountedWords(words, np.concatenate([rows.column("count").to_numpy() for rows in kept]))


def _load_frequent(segment: Segment, least: int) -> pa.RecordBatch:
    rows = load_segment(segment, SCHEMA)
    is_kept = rows.column("count").to_numpy() >= least
    return rows if is_kept.all() else rows.filter(pa.array(is_kept))


def _find_least_count(segments: Sequence[Segment], most: int) -> int:
    """Return the smallest count that is kept (`choose_least_count`)."""
    if sum(segment.rows for segment in segments) <= most:
        return 1
    sizes: dict[int, int] = {}
    for segment in segments:
        sizes[segment.bucket] = sizes.get(segment.bucket, 0) + segment.rows
    above, border = 0, max(sizes)
    for border in sorted(sizes, reverse=True):
        if above + sizes[border] > most:
            break
        above += sizes[border]
    totals: Counter[int] = Counter({2**border: above} if above else {})
    for segment in segments:
        if segment.bucket == border:
            totals.update(load_segment(segment, SCHEMA).column("count").to_pylist())
    counts = sorted(totals)
    words = [totals[count] for count in counts]
    return choose_least_count(np.array(counts, np.int64), np.array(words, np.int64), most)
