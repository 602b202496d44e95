"""Read ranges of files as batches of documents."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, cast

import pyarrow as pa

from corpusmill.arrays.text_hashes import field_column
from corpusmill.corpus.batches import DocumentBatch, FileRange, ReadCounts, conform_fields
from corpusmill.corpus.document_options import CorpusReading, OptionsBySource
from corpusmill.corpus.filters.functions import Step, drop_documents
from corpusmill.corpus.filters.near_duplicates import NEAR
from corpusmill.corpus.hub_data_sets import is_hub_path
from corpusmill.corpus.input_formats import measure_rest, open_range, read_corpus
from corpusmill.corpus.reject_lines import RejectWriter
from corpusmill.dataset.accounting import TEXT_DOCUMENTS, count_lost, count_unread
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.knobs import knob
from corpusmill.layout.sorting import join_small
from corpusmill.location import scheme_of
from transforms.corpus.listed import as_listed, open_ranges
from transforms.elements import LinesFile, PlannedRange, ReadRange
from transforms.recovery import Workplace
from transforms.storage.checksums import ChecksumReader
from transforms.storage.files import create_file, new_path
from transforms.tally import SourceTally, Tally

REJECTS, READ_RANGES = "rejects", "read_ranges"

SMALL_BATCH_BYTES = knob("small_batch_bytes", 2**19, test=1)
"""Batches of text below this size are joined before they are tokenized."""
MOST_FETCHED_BYTES = knob("most_fetched_bytes", 2**20, test=100)
"""What is fetched from elsewhere of what a table's reader left out, for its checksum alone."""


class TaskReader:
    """Reads the documents of a task, and writes its rejects to a file of their own.

    Args:
        options: how the corpus is read.
        place: where the run works.
        tally: counts of the task.
        steps: which documents are dropped.
        keeps_rejects: whether rejects are written.
        keeps_checksums: whether checksums of the ranges are computed.
        sources: counts of each source; None where there is but one.

    Attributes:
        ranges: the ranges that have been read, with their checksums. Ranges of files on the hub are
            not among them, because their names hold the commit, nor are ranges whose reader has
            left out much that is not on this machine.
    """

    def __init__(
        self,
        options: CorpusReading,
        place: Workplace,
        tally: Tally,
        steps: Sequence[Step] = (),
        keeps_rejects: bool = True,
        keeps_checksums: bool = False,
        sources: SourceTally | None = None,
    ) -> None:
        self._options, self._temp_folder, self._tally = options, place.temp_folder, tally
        self._steps, self._keeps_rejects = steps, keeps_rejects
        self._keeps_checksums, self._sources = keeps_checksums, sources
        self.ranges: list[ReadRange] = []
        self._path = ""
        self._writer: RejectWriter | None = None
        self._sink: HashingWriter

    def read(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        """Return the task's documents in batches, none of them empty; small files share one."""
        # Each batch costs every following step as much time as about 100 kB of text.
        return join_small(self._read_all(ranges), SMALL_BATCH_BYTES)

    def _read_all(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as files:
            for planned, raw in open_ranges(ranges):
                self._tally.add("read.ranges", 1)
                for batch in self._read_range(planned, raw):
                    for count, number in vars(batch.counts).items():
                        self._tally.add(f"read.{count}", number)
                    if isinstance(self._options, OptionsBySource) and not batch.counts.records:
                        uncut = batch.counts.documents - batch.counts.cut_documents
                        self._tally.add(TEXT_DOCUMENTS, uncut)
                    rejects = self._count(batch)
                    # Written as they come: a small compressed file may hold any number of them.
                    if rejects and self._keeps_rejects:
                        self._write(batch, files)
                    documents = batch.documents
                    if fields := self._options.keep_fields:
                        documents = conform_fields(documents, fields)
                    documents = self._drop(documents, planned, batch)
                    self._count_kept(documents)
                    if self._sources:
                        counts = {
                            "read.documents": batch.counts.documents,
                            "read.bytes": batch.counts.bytes,
                            "read.rejects": rejects,
                            "filter.dropped": batch.documents.num_rows
                            - documents.num_rows
                            + sum(batch.dropped.values()),
                        }
                        self._sources.add_read(planned.file_index, counts)
                    if documents.num_rows:
                        yield documents
            if self._writer:
                self._writer.close()

    def _read_range(self, planned: PlannedRange, opened: BinaryIO) -> Iterator[DocumentBatch]:
        path, start = planned.file, planned.start
        file_range = planned.read_as(self._options)
        with as_listed(planned, opened) as raw:
            if not self._keeps_checksums or is_hub_path(path):
                yield from self._read_stream(raw, planned, file_range)
                return
            stream = ChecksumReader(raw, start, planned.end)
            yield from self._read_stream(cast(BinaryIO, stream), planned, file_range)
            # A reader of tables leaves out columns. On this machine they are read all the same.
            is_here = scheme_of(path) is None
            most_bytes = None if is_here else MOST_FETCHED_BYTES
            if checked := stream.finish(most_bytes):
                self.ranges.append(ReadRange(planned.file_index, start, *checked))

    def _read_stream(
        self, raw: BinaryIO, planned: PlannedRange, file_range: FileRange
    ) -> Iterator[DocumentBatch]:
        """Yield the batches, and count the stored bytes that are lost by damage, or in rejects."""
        stream, part = open_range(raw, file_range)
        counts = ReadCounts()
        for batch in read_corpus(stream, part):
            counts += batch.counts
            if batch.counts.unfinished_files:
                unread = measure_rest(batch, stream, raw, planned.bytes or 0)
                self._tally.add(count_unread(planned.file_index), unread)
            yield batch
        if counts.are_rejects:
            end = (planned.bytes or 0) if planned.end is None else planned.end
            self._tally.add(count_lost(planned.file_index), end - planned.start)

    def _drop(
        self, documents: pa.RecordBatch, planned: PlannedRange, batch: DocumentBatch
    ) -> pa.RecordBatch:
        """Return the documents that no step drops, and count all that are dropped by reason."""
        if not self._steps and not self._options.describe("where"):
            return documents
        kept, reasons, sentences, sizes = drop_documents(documents, planned.name, self._steps)
        reasons.update(batch.dropped)
        sentences += batch.dropped_sentences
        self._tally.add("filter.documents", batch.counts.documents)
        self._tally.add("filter.dropped", reasons.total())
        self._tally.add("filter.dropped_sentences", sentences)
        for reason, number in reasons.items():
            self._tally.add(f"filter.dropped.{reason}", number)
        if reasons[NEAR]:
            self._tally.add("near.dropped_bytes", sizes[NEAR])
        if self._sources and reasons[NEAR]:
            own = {f"filter.dropped.{NEAR}": reasons[NEAR], "near.dropped_bytes": sizes[NEAR]}
            self._sources.add_read(planned.file_index, own)
        return kept

    def _count_kept(self, documents: pa.RecordBatch) -> None:
        """Count the documents that have a value in each kept field."""
        for number, name in enumerate(self._options.keep_fields):
            values = documents.column(field_column(name).name)
            self._tally.add(f"read.kept_values.{number}", len(values) - values.null_count)

    def _write(self, batch: DocumentBatch, files: ExitStack) -> None:
        if not self._writer:
            self._path = new_path(self._temp_folder, "rejects", ".jsonl")
            self._sink = HashingWriter(files.enter_context(create_file(self._path)))
            self._writer = RejectWriter(self._sink)
        self._writer.add(batch.rejects, batch.more_rejects)

    def _count(self, batch: DocumentBatch) -> int:
        """Count the rejects of a batch by reason, and return their number."""
        reasons = batch.count_rejects()
        if reasons:
            self._tally.add("read.rejects", reasons.total())
        for reason, number in reasons.items():
            self._tally.add(f"read.rejects.{reason}", number)
        return reasons.total()

    def rejects(self, number: int) -> Iterator[LinesFile]:
        """Yield the file of the rejects once all documents are read; nothing without rejects.

        Args:
            number: number of the task.
        """
        if self._writer:
            sink = self._sink
            yield LinesFile(number, self._path, self._writer.number, sink.bytes, sink.sha256)
