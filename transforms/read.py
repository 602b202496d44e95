"""Read ranges of files as batches of documents."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from uuid import uuid4

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.batches import DocumentBatch, Reject
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from transforms.elements import RejectsFile
from transforms.plan import PlannedRange
from transforms.storage.files import create_file, open_file
from transforms.tally import Tally

REJECTS = "rejects"

# Each batch costs every following step as much time as about 100 kB of text.
_SMALL_BYTES = 2**19


def join_small(
    batches: Iterable[pa.RecordBatch], small: int = _SMALL_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, with small batches joined into larger ones.

    Args:
        batches: batches of one schema.
        small: size in bytes from which a batch is left as it is.
    """
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in batches:
        waiting.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= small:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


class TaskReader:
    """Reads the documents of tasks, and writes the rejects of each task to a file of its own.

    Args:
        options: how the corpus is read.
        temp_folder: folder of the files of rejects.
        tally: counts of the stage "read".
    """

    def __init__(self, options: DocumentOptions, temp_folder: str, tally: Tally) -> None:
        self._options, self._temp_folder, self._tally = options, temp_folder, tally
        self._rejects: list[Reject] = []

    def read(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a task in batches, none of them empty; small files share one."""
        self._rejects = []
        yield from join_small(self._read_all(ranges))

    def _read_all(self, ranges: Iterable[PlannedRange]) -> Iterator[pa.RecordBatch]:
        for planned in ranges:
            self._tally.add("ranges", 1)
            for batch in self._read_range(planned):
                for name, number in vars(batch.counts).items():
                    self._tally.add(name, number)
                self._rejects += batch.rejects
                if batch.documents.num_rows:
                    yield batch.documents

    def _read_range(self, planned: PlannedRange) -> Iterator[DocumentBatch]:
        path, name, index, start = planned[1:5]
        end = None if planned.end < 0 else planned.end
        with open_file(path) as raw:
            stream = open_decompressed(raw, path)
            yield from read_corpus(stream, FileRange(name, index, self._options, start, end))

    def write_rejects(self, number: int) -> Iterator[RejectsFile]:
        """Write the rejects of the task that was read last; yield nothing if there are none.

        Args:
            number: number of the task.
        """
        if not self._rejects:
            return
        path = FileSystems.join(self._temp_folder, f"rejects-{number}-{uuid4().hex}.jsonl")
        with create_file(path) as stream:
            for reject in self._rejects:
                stream.write((json.dumps(asdict(reject), ensure_ascii=False) + "\n").encode())
        self._tally.add("rejects", len(self._rejects))
        for reason, rejects in Counter(reject.reason for reject in self._rejects).items():
            self._tally.add(f"rejects.{reason}", rejects)
        yield RejectsFile(number, path, len(self._rejects))
