"""Read ranges of files as batches of documents."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from corpusmill.corpus.batches import DocumentBatch, Reject
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.checksums import HashingWriter
from transforms.elements import RejectsFile
from transforms.plan import PlannedRange
from transforms.spill import join_small
from transforms.storage.files import create_file, new_path, open_file
from transforms.tally import Tally

REJECTS = "rejects"

# Each batch costs every following step as much time as about 100 kB of text.
_SMALL_BYTES = 2**19


class TaskReader:
    """Reads the documents of a task, and writes its rejects to a file of their own.

    Args:
        options: how the corpus is read.
        temp_folder: folder of the file of rejects.
        tally: counts of the task.
    """

    def __init__(self, options: DocumentOptions, temp_folder: str, tally: Tally) -> None:
        self._options, self._temp_folder, self._tally = options, temp_folder, tally
        self._rejects, self._path = 0, ""
        self._sink: HashingWriter

    def read(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        """Return the task's documents in batches, none of them empty; small files share one."""
        return join_small(self._read_all(ranges), _SMALL_BYTES)

    def _read_all(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as files:
            for planned in ranges:
                self._tally.add("read.ranges", 1)
                for batch in self._read_range(planned):
                    for count, number in vars(batch.counts).items():
                        self._tally.add(f"read.{count}", number)
                    # Written as they come: a small compressed file may hold any number of them.
                    if batch.rejects:
                        self._write(batch.rejects, files)
                    if batch.documents.num_rows:
                        yield batch.documents

    def _read_range(self, planned: PlannedRange) -> Iterator[DocumentBatch]:
        path, name, index, start, end = planned
        with open_file(path) as raw:
            file_range = FileRange(name, index, self._options, start, end)
            yield from read_corpus(open_decompressed(raw, path), file_range)

    def _write(self, rejects: Sequence[Reject], files: ExitStack) -> None:
        if not self._rejects:
            self._path = new_path(self._temp_folder, "rejects", ".jsonl")
            self._sink = HashingWriter(files.enter_context(create_file(self._path)))
        for reject in rejects:
            self._sink.write((json.dumps(vars(reject), ensure_ascii=False) + "\n").encode())
        self._rejects += len(rejects)
        self._tally.add("read.rejects", len(rejects))
        for reason, number in Counter(reject.reason for reject in rejects).items():
            self._tally.add(f"read.rejects.{reason}", number)

    def rejects(self, number: int) -> Iterator[RejectsFile]:
        """Yield the file of the rejects once all documents are read; nothing without rejects.

        Args:
            number: number of the task.
        """
        if self._rejects:
            sink = self._sink
            yield RejectsFile(number, self._path, self._rejects, sink.bytes, sink.sha256)
