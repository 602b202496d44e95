"""Words counted for `train-tokenizer`, in this process or by a job.

A corpus that is too small for worker processes is counted here, because Beam takes a second to
import; `counting_job` counts all others.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.document_options import CorpusReading, DocumentOptions, read_by_source
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.input_formats import measure_rest, open_range, read_corpus
from corpusmill.dataset.accounting import (
    count_dropped,
    count_reasons,
    count_unread,
    describe_unfinished,
    split_files,
)
from corpusmill.dataset.manifest_entries import Evaluation, SourceFile
from corpusmill.errors import RefusedError, count_things, option
from corpusmill.layout.placement import Layout
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    draw_documents,
    draw_pieces,
    read_words,
)
from corpusmill.tokenization.training.training_options import TrainingOptions
from pipeline.commands.train_tokenizer import SampleOptions
from pipeline.console.progress import Counters
from pipeline.recipe.inputs import InputFile, cut_files, estimate_text_bytes, sum_costs
from pipeline.recipe.sources import NamedSource, spread_sources
from transforms.corpus.listed import as_listed, open_ranges
from transforms.elements import PlannedRange
from transforms.storage.files import map_ahead

# A sample consists of about this many pieces, because neighboring documents resemble each other. A
# smaller piece would take longer to open than to read.
_PIECES = 256
_SMALLEST_PIECE, _LARGEST_PIECE = 2**16, 2**24


class Drawn(NamedTuple):
    """What is read of a corpus.

    Attributes:
        ranges: ranges of its files.
        share: the share of their documents that is counted.
    """

    ranges: Sequence[PlannedRange]
    share: float


@dataclass(frozen=True)
class SampledCorpus:
    """A corpus, or a sample of it.

    Attributes:
        files: the input.
        documents: the rules of documents, with a format.
        sample: which part of it is counted.
        sources: the parts of it that have names; empty where none has.
        filters: which documents are left out.
        evaluation: as of a `Recipe`.
    """

    files: Sequence[InputFile]
    documents: DocumentOptions
    sample: SampleOptions
    sources: Sequence[NamedSource] = ()
    filters: FilterOptions = field(default_factory=FilterOptions)
    evaluation: tuple[Passages, Evaluation] | None = None

    @cached_property
    def reading(self) -> CorpusReading:
        """How each file is read."""
        parts = [(source.first_file, source.documents) for source in self.sources]
        return read_by_source(self.documents, parts)

    @property
    def layout(self) -> Layout:
        """How often each document is counted, which is as often as a build takes it."""
        layout, sizes = Layout(self.sample.seed, 1, 0), [1.0] * len(self.sources)
        return spread_sources(self.sources, sizes, layout, 0) if sizes else layout

    @property
    def bytes(self) -> int:
        """The size of the input; an estimate if files are compressed."""
        return sum_costs(self.files)

    @property
    def is_in_pieces(self) -> bool:
        """Whether only pieces of it are read."""
        return (self.sample.bytes or sys.maxsize) < self._whole_text_bytes

    @property
    def read_bytes(self) -> int:
        """The size of what is read; an estimate if files are compressed."""
        if not self.is_in_pieces:
            return self.bytes
        return sum(self._measure(piece) for piece in self._pieces.ranges)

    @property
    def text_bytes(self) -> int:
        """The bytes of text that are read; exact for plain files."""
        return round(self._whole_text_bytes * self.read_bytes / max(1, self.bytes))

    def draw(self, range_bytes: int = sys.maxsize) -> Drawn:
        """Return what is read.

        Args:
            range_bytes: the longest range of a corpus that is read whole.
        """
        if self.is_in_pieces:
            return self._pieces
        share = self.sample.sample
        ranges = list(cut_files(self.files, self.reading, range_bytes))
        return Drawn(ranges, 1.0 if share is None else share)

    @property
    def _whole_text_bytes(self) -> int:
        if not self.sources:
            return estimate_text_bytes(self.files, self.documents)
        return sum(estimate_text_bytes(source.files, source.documents) for source in self.sources)

    @cached_property
    def _pieces(self) -> Drawn:
        wanted = (self.sample.bytes or 0) * self.bytes / self._whole_text_bytes
        piece_bytes = min(max(round(wanted / _PIECES), _SMALLEST_PIECE), _LARGEST_PIECE)
        pieces = list(cut_files(self.files, self.reading, piece_bytes))
        sizes = np.array([self._measure(piece) for piece in pieces], np.int64)
        numbers, share = draw_pieces(sizes, wanted, self.sample.seed)
        return Drawn([pieces[number] for number in numbers.tolist()], share)

    def _measure(self, part: PlannedRange) -> int:
        return self.files[part.file_index].cost if part.end is None else part.end - part.start


class Counted(NamedTuple):
    """What was counted.

    Attributes:
        counts: the counts of all stages.
        words: the words.
    """

    counts: Mapping[str, int]
    words: CountedWords


def count_here(corpus: SampledCorpus, options: TrainingOptions, shown: Counters) -> Counted:
    """Count the words of a corpus in this process.

    Args:
        corpus: the corpus.
        options: of the model that is trained.
        shown: gets the bytes that are read.
    """
    counter, counts = options.make_counter(), Counter[str]()
    # A thread counts the words of a batch while this one reads the next.
    read = _read_documents(corpus, shown, counts)
    for _ in map_ahead(lambda part: counter.add_copies(*part), read, ahead=1):
        pass
    words = read_words(counter, options.word_limits)
    counts["total.distinct_words"] = len(counter.table)
    return Counted(counts, words)


def _read_documents(
    corpus: SampledCorpus, shown: Counters, counts: Counter[str]
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
    """Yield documents and how often each is counted, and add to the counts what is read."""
    (ranges, share), layout = corpus.draw(), corpus.layout
    for planned, opened in open_ranges(ranges):
        with as_listed(planned, opened) as raw:
            stream, part = open_range(raw, planned.read_as(corpus.reading))
            for batch in read_corpus(stream, part):
                ids = batch.documents.column("document").to_numpy()
                copies = layout.count_copies(ids) * draw_documents(ids, share, corpus.sample.seed)
                counts.update({f"read.{name}": n for name, n in vars(batch.counts).items()})
                shown.update("here", {"read.bytes": counts["read.bytes"]})
                refused = batch.count_rejects().items()
                counts.update({f"read.rejects.{reason}": n for reason, n in refused})
                if batch.counts.unfinished_files:
                    unread = measure_rest(batch, stream, raw, planned.bytes or 0)
                    counts[count_unread(planned.file_index)] += unread
                counts["count.documents"] += int(np.count_nonzero(copies))
                counts["filter.dropped"] += sum(batch.dropped.values())
                counts.update({f"filter.dropped.{why}": n for why, n in batch.dropped.items()})
                yield batch.documents, copies


def check_sample(counted: Counted, corpus: SampledCorpus) -> None:
    """Refuse a corpus, or a sample, without documents.

    Raises:
        RefusedError: it has none.
    """
    documents = counted.counts.get("read.documents", 0)
    dropped = counted.counts.get("filter.dropped", 0)
    if not documents:
        raise _refuse_all(counted.counts)
    if dropped == documents:
        where, listed = corpus.documents.where, _list_reasons(count_dropped(counted.counts))
        cause = f"none of the {documents:,} documents is left ({listed})"
        cure = f"Correct the condition, or the filters ({option('filter')})"
        raise RefusedError(option("where", where) if where else option("input"), cause, cure)
    if not counted.counts.get("count.documents"):
        sample, taken = corpus.sample, [f"{one.name}@{one.repeat:g}" for one in corpus.sources]
        given = {"sample": sample.sample, "sample_bytes": sample.sample_bytes, "source": taken}
        name, value = next((name, value) for name, value in given.items() if value is not None)
        cause = f"the sample has none of the {documents - dropped:,} documents"
        if dropped:
            cause += f" ({dropped:,} of {documents:,} are left out)"
        raise RefusedError(option(name, value), cause, "Give a larger value")


def describe_sample(counted: Counted, corpus: SampledCorpus) -> Iterator[str]:
    """Describe the parts of a corpus that are not counted, and the words that are not kept."""
    counts = counted.counts
    sampled, documents = counts["count.documents"], counts["read.documents"]
    if corpus.is_in_pieces:
        read, whole = counts["read.bytes"] / 1e6, corpus.bytes / 1e6
        yield f"a sample: {count_things(sampled, 'document')}, from {read:,.1f} of {whole:,.1f} MB"
    elif corpus.sample.sample is not None or any(part.repeat < 1 for part in corpus.sources):
        yield f"a sample: {sampled:,} of {documents:,} documents"
    if dropped := counts.get("filter.dropped", 0):
        listed = _list_reasons(count_dropped(counts))
        yield f"left out: {dropped:,} of {documents:,} documents ({listed})"
    trained, distinct = len(counted.words.counts), counts.get("total.distinct_words", 0)
    if trained < distinct:
        limits = "--max-distinct-words and --max-distinct-bytes"
        yield f"trained on {trained:,} of {distinct:,} distinct words, the most frequent ({limits})"
    if rejects := _list_reasons(count_reasons(counts)):
        yield f"left out because they cannot be read: {rejects}"
    if unread := split_files(counts)[1]:
        files = [
            SourceFile(file.name, file.bytes, unread=unread.get(number))
            for number, file in enumerate(corpus.files)
        ]
        unfinished = describe_unfinished(files)
        yield f"warning: {unfinished[0].lower()}{unfinished[1:]}"


def _list_reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())


def _refuse_all(counts: Mapping[str, int]) -> RefusedError:
    units = counts.get("read.lines", 0) + counts.get("read.rows", 0)
    listed = _list_reasons(count_reasons(counts))
    rejects = f", of which these cannot be read: {listed}" if listed else ""
    cure = f"check {option('input')} and {option('document_rule')}"
    cure = f"The input holds only blank lines and titles: {cure}"
    if listed:
        cure = f"Repair the input, or check {option('input_format')} and {option('text_field')}"
    cause = f"it has no text to train with: {units:,} lines and rows were read{rejects}"
    return RefusedError(option("input"), cause, cure)
