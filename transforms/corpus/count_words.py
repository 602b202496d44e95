"""Count the words of a corpus where its text is, and add up the counts in bounded memory.

    tasks ─ count (read, sample, cut) ─ gather by partition ─ add up ─ collect ─► a list of files

Words go through files, and the engine carries references to them. A task writes its words ordered
by *partition*, which the hash of a word decides; a partition adds up the counts of all tasks, and
writes its words ordered by the size of their counts, so that whoever wants the most frequent words
reads little else.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays import ragged
from corpusmill.corpus.document_options import CorpusReading
from corpusmill.dataset.accounting import compare_documents
from corpusmill.knobs import knob
from corpusmill.layout.placement import Layout
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    WordChoice,
    WordLimits,
    WordTotals,
    choose_words,
    draw_documents,
)
from corpusmill.tokenization.training.training_options import TrainingOptions
from corpusmill.tokenization.training.word_counters import WordCounter
from corpusmill.tokenization.training.word_table import WordTable, hash_words
from transforms.coders import NamedOutputs
from transforms.corpus.duplicates import Screening
from transforms.corpus.plan import read_task
from transforms.corpus.read import TaskReader
from transforms.elements import Segment, Task
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import log_begin, run_once
from transforms.shuffle.segments import KeyedSegment
from transforms.shuffle.spill import load_segment, write_segments
from transforms.shuffle.trees import read_collected
from transforms.storage.files import map_ahead
from transforms.tally import COUNTS, Count, Tally

SCHEMA = pa.schema([("word", pa.large_binary()), ("count", pa.int64())])

PARTITION_BYTES = knob("partition_bytes", 16 * 2**20, test=3000)
"""The text whose words make a partition when words are counted."""
MOST_PARTITIONS = knob("most_partitions", 1024, test=5)
"""The most partitions of words."""
ADDED_BYTES = knob("added_bytes", 96 * 2**20, test=2000)
"""The words of a partition that are added up at once; more are added up in parts."""


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


def check_counts(counts: Mapping[str, int], ranges: int, read_bytes: int) -> None:
    """Check that nothing was lost between reading and counting.

    Args:
        counts: the counts of all stages.
        ranges: number of planned ranges.
        read_bytes: the size of what is read; -1 if it is unknown.

    Raises:
        RuntimeError: something was lost.
    """
    documents = counts.get("count.documents", 0) + counts.get("count.left_out", 0)
    words, counted = counts.get("total.words", 0), counts.get("count.words", 0)
    compared = [
        ("words added up", words, "words counted", counted),
        ("ranges read", counts.get("read.ranges", 0), "ranges planned", ranges),
        *compare_documents({**counts, "tokenize.documents": documents}),
    ]
    if read_bytes >= 0:
        compared.append(("bytes read", counts.get("read.bytes", 0), "bytes of input", read_bytes))
    problems = [
        f"{number:,} {name}, but {other:,} {other_name}"
        for name, number, other_name, other in compared
        if number != other
    ]
    if problems:
        raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))


def load_words(segments: Sequence[Segment], limits: WordLimits) -> CountedWords:
    """Load the most frequent words, as `choose_words` chooses them.

    Only classes of counts with words that are kept are read, one segment after another.

    Args:
        segments: of all partitions.
        limits: which words are loaded.
    """
    choice = _choose_words(segments, limits)
    least_class = classify_counts(np.array([choice.least_count]))[0]
    parts = [
        _load_segment(segment).keep(choice)
        for segment in sorted(segments)
        if segment.bucket >= least_class
    ]
    if not parts:
        return CountedWords(pa.array([], pa.large_binary()), np.zeros(0, np.int64))
    words = pa.concat_arrays([part.words for part in parts])
    return CountedWords(words, np.concatenate([part.counts for part in parts]))


def _load_segment(segment: Segment) -> CountedWords:
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
            totals = _load_segment(segment).totals()
            words.update(dict(zip(totals.counts.tolist(), totals.words.tolist(), strict=True)))
            sizes.update(dict(zip(totals.counts.tolist(), totals.bytes.tolist(), strict=True)))
        if words.total() > limits.words or sizes.total() > limits.bytes:
            break
    counts = sorted(words)
    columns = (counts, [words[count] for count in counts], [sizes[count] for count in counts])
    return choose_words(WordTotals(*(np.array(column, np.int64) for column in columns)), limits)


WORDS = "words"


@dataclass(frozen=True)
class Counting:
    """How words are counted.

    Attributes:
        options: of the model that is trained.
        documents: how the corpus is read.
        place: where the run works.
        partitions: number of partitions.
        share: share of the documents that are counted.
        layout: its seed decides which, and its sources how often.
        screening: which documents are left out.
    """

    options: TrainingOptions
    documents: CorpusReading
    place: Workplace
    partitions: int = 1
    share: float = 1.0
    layout: Layout = field(default_factory=partial(Layout, 0, 1, 0))
    screening: Screening = field(default_factory=Screening)


def count_partitions(text_bytes: int) -> int:
    """Return the number of partitions for a corpus of a size."""
    return min(MOST_PARTITIONS, 1 + text_bytes // PARTITION_BYTES)


def count_task(counting: Counting, task: Task, shared: Shared) -> Iterator[Output]:
    """Count the words of a task, and write them to files.

    Args:
        counting: how words are counted.
        task: the task.
        shared: that of `Screening.list_steps`.

    Yields:
        WORDS: a segment for each partition, in each file.
        COUNTS: what was read and counted.
    """
    ranges, tally = read_task(task), Tally()
    log_begin(f"task-{task.number}", ranges)
    steps = [*counting.screening.list_steps(task, shared)]
    reader = TaskReader(counting.documents, counting.place, tally, steps, keeps_rejects=False)
    counter, layout = counting.options.make_counter(), counting.layout
    for documents in reader.read(ranges):
        ids = documents.column("document").to_numpy()
        copies = layout.count_copies(ids) * draw_documents(ids, counting.share, layout.seed)
        counted = int(np.count_nonzero(copies))
        tally.add("count.documents", counted)
        tally.add("count.left_out", len(copies) - counted)
        counter.add_copies(documents, copies)
        if counter.is_full:
            yield from _write_words(counter, counting)
    yield from _write_words(counter, counting)
    tally.add("count.words", counter.counted)
    yield from tally.outputs()


def _write_words(counter: WordCounter, counting: Counting) -> Iterator[Output]:
    counter.finish()
    numbers = counter.table.numbers()
    if not len(numbers):
        return
    hashes = counter.table.hashes(numbers)
    buckets = (hashes * np.uint64(counting.partitions) >> np.uint64(32)).astype(np.int64)
    rows = _order_by(counter.table, numbers, buckets)
    yield from ((WORDS, part) for part in write_segments(rows, counting.place.temp_folder))
    counter.table.clear()


def _order_by(
    table: WordTable, numbers: npt.NDArray[np.int64], buckets: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, its words) in ascending order."""
    # NumPy sorts 16-bit integers by radix, which is ten times as fast.
    order = np.argsort(buckets.astype(np.uint16), kind="stable")
    sorted_ = buckets[order]
    starts = np.flatnonzero(np.diff(sorted_, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        part = numbers[order[start:stop]]
        counts = pa.array(table.counts(part))
        yield int(sorted_[start]), pa.record_batch([table.words(part), counts], schema=SCHEMA)


def add_partition(counting: Counting, segments: Sequence[Segment]) -> Iterator[Output]:
    """Add up the counts of a partition's words.

    Args:
        counting: how words are counted.
        segments: what tasks have written for it.

    Yields:
        WORDS: a segment for each class of counts (`classify_counts`).
        COUNTS: the number of words, equal ones counted each and once.
    """
    tally, ordered = Tally(), sorted(segments)
    stored_bytes = sum(segment.length for segment in ordered)
    parts = 1 + stored_bytes // ADDED_BYTES
    for part in range(parts):
        table = WordTable()
        load = partial(_load_part, part=part, parts=parts)
        for rows in map_ahead(load, ordered):
            text, offsets = ragged.from_arrow(rows.column("word"))
            table.add_words(text, offsets, rows.column("count").to_numpy())
        numbers = table.numbers()
        if not len(numbers):
            continue
        counts = table.counts(numbers)
        rows_by_class = _order_by(table, numbers, classify_counts(counts))
        folder = counting.place.temp_folder
        yield from ((WORDS, written) for written in write_segments(rows_by_class, folder))
        tally.add("total.words", int(counts.sum()))
        tally.add("total.distinct_words", len(counts))
    yield from tally.outputs()


def _load_part(segment: Segment, part: int, parts: int) -> pa.RecordBatch:
    rows = load_segment(segment, SCHEMA)
    if parts == 1:
        return rows
    hashes = hash_words(*ragged.from_arrow(rows.column("word")))
    return rows.filter(pa.array(hashes % np.uint64(parts) == part))


class _CountTask(beam.DoFn):
    """Count the words of a task, unless the journal says that it is finished."""

    def __init__(self, counting: Counting) -> None:
        self._counting, self._shared = counting, Shared()

    def process(self, element: Task) -> Iterator[KeyedSegment]:
        journal, name = Journal(self._counting.place), f"task-{element.number}"
        counting, shared = self._counting, self._shared
        for tag, value in run_once(journal, name, lambda: count_task(counting, element, shared)):
            yield (value.bucket, value) if tag == WORDS else TaggedOutput(tag, value)


class _AddPartition(beam.DoFn):
    """Add up the counts of a partition, unless the journal says that it is finished."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[Segment]:
        partition, segments = element
        given = [Segment(*segment) for segment in segments]
        journal, name = Journal(self._counting.place), f"partition-{partition}"
        for tag, value in run_once(journal, name, lambda: add_partition(self._counting, given)):
            yield value if tag == WORDS else TaggedOutput(tag, value)


class CountWords(beam.PTransform):
    """Count the words of tasks.

    Returns the collections WORDS, of segments whose bucket is the class of the words' counts, and
    COUNTS.

    Args:
        counting: how words are counted.
    """

    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Apply two DoFns with a grouping between them."""
        counted = tasks | "CountTask" >> beam.ParDo(_CountTask(self._counting)).with_output_types(
            KeyedSegment, **{COUNTS: Count}
        ).with_outputs(COUNTS, main=WORDS)
        added = (
            counted[WORDS]
            | "GatherPartitions" >> beam.GroupByKey()
            | "AddPartition"
            >> beam.ParDo(_AddPartition(self._counting))
            .with_output_types(Segment, **{COUNTS: Count})
            .with_outputs(COUNTS, main=WORDS)
        )
        counts = (counted[COUNTS], added[COUNTS]) | "JoinCounts" >> beam.Flatten()
        return {WORDS: added[WORDS], COUNTS: counts}

    def display_data(self) -> dict[str, str | int]:
        """Show what is counted, and in how many partitions."""
        return {
            "model": type(self._counting.options).__name__,
            "partitions": self._counting.partitions,
        }
