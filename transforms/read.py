"""Read ranges of files as batches of documents."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa

from corpusmill.corpus.batches import Reject
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
        self._rejects: list[Reject] = []

    def read(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        """Return the task's documents in batches, none of them empty; small files share one."""
        return join_small(self._read_all(ranges), _SMALL_BYTES)

    def _read_all(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        for planned in ranges:
            self._tally.add("read.ranges", 1)
            path, name, index, start, end = planned
            file_range = FileRange(name, index, self._options, start, end)
            with open_file(path) as raw:
                for batch in read_corpus(open_decompressed(raw, path), file_range):
                    for count, number in vars(batch.counts).items():
                        self._tally.add(f"read.{count}", number)
                    self._rejects += batch.rejects
                    if batch.documents.num_rows:
                        yield batch.documents

    def write_rejects(self, number: int) -> Iterator[RejectsFile]:
        """Write the rejects of the task; yield nothing if there are none.

        Args:
            number: number of the task.
        """
        if not self._rejects:
            return
        path = new_path(self._temp_folder, f"rejects-{number}", ".jsonl")
        with create_file(path) as stream:
            sink = HashingWriter(stream)
            for reject in self._rejects:
                sink.write((json.dumps(asdict(reject), ensure_ascii=False) + "\n").encode())
        self._tally.add("read.rejects", len(self._rejects))
        for reason, rejects in Counter(reject.reason for reject in self._rejects).items():
            self._tally.add(f"read.rejects.{reason}", rejects)
        yield RejectsFile(number, path, len(self._rejects), sink.bytes, sink.sha256)
