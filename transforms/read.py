"""Ranges of files to batches of documents."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from corpusmill.corpus import file_range
from corpusmill.corpus.batches import DocumentBatch, Reject
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from transforms.elements import NamedOutputs, RejectsFile, Task
from transforms.plan import FileRange, read_task
from transforms.storage.files import create_file, open_file
from transforms.tally import COUNTS, Count, Tally

DOCUMENTS, REJECTS = "documents", "rejects"


# Each batch costs every step behind it as much time as some 100 kB of text.
_SMALL_BYTES = 2**19


def join_small(
    batches: Iterable[pa.RecordBatch], small: int = _SMALL_BYTES
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, with small batches joined until they are not.

    Args:
        batches: of one schema.
        small: bytes from which a batch is large enough.
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
    """Reads the ranges of tasks; rejects go to a file of the task's own.

    Args:
        options: the corpus' rules.
        temp_folder: where rejects wait for the commit.
        tally: of the stage "read".
    """

    def __init__(self, options: DocumentOptions, temp_folder: str, tally: Tally) -> None:
        self._options, self._temp_folder, self._tally = options, temp_folder, tally
        self._rejects: list[Reject] = []

    def read(self, ranges: Iterable[FileRange]) -> Iterator[pa.RecordBatch]:
        """The documents of a task, in batches, none of them empty; small files share one."""
        self._rejects = []
        yield from join_small(self._read_all(ranges))

    def _read_all(self, ranges: Iterable[FileRange]) -> Iterator[pa.RecordBatch]:
        for part in ranges:
            self._tally.add("ranges", 1)
            for batch in self._read_range(part):
                for name, number in vars(batch.counts).items():
                    self._tally.add(name, number)
                self._rejects += batch.rejects
                if batch.documents.num_rows:
                    yield batch.documents

    def write_rejects(self, number: int) -> Iterator[RejectsFile]:
        """Write the rejects of the task that was read last, if there are any.

        Args:
            number: of the task.
        """
        if not self._rejects:
            return
        path = FileSystems.join(self._temp_folder, f"rejects-{number}-{uuid4().hex}.jsonl")
        with create_file(path) as stream:
            for reject in self._rejects:
                stream.write((json.dumps(asdict(reject), ensure_ascii=False) + "\n").encode())
        self._tally.add("rejects", len(self._rejects))
        for reason, of_reason in Counter(reject.reason for reject in self._rejects).items():
            self._tally.add(f"rejects.{reason}", of_reason)
        yield RejectsFile(number, path, len(self._rejects))

    def _read_range(self, part: FileRange) -> Iterator[DocumentBatch]:
        end = None if part.end < 0 else part.end
        with open_file(part.file) as raw:
            stream = open_decompressed(raw, part.file)
            read = file_range.FileRange(part.name, part.file_index, self._options, part.start, end)
            yield from read_corpus(stream, read)


def tally_of_reading() -> Tally:
    """The counts of the stage; its bytes are live."""
    return Tally("read", live=("bytes",))


class _ReadTask(beam.DoFn):
    """A task to its documents; rejects go to REJECTS, counts to COUNTS."""

    def __init__(self, options: DocumentOptions, temp_folder: str) -> None:
        self._options, self._temp_folder = options, temp_folder

    def setup(self) -> None:
        self._tally = tally_of_reading()
        self._reader = TaskReader(self._options, self._temp_folder, self._tally)

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: Task) -> Iterator[pa.RecordBatch]:
        yield from self._reader.read(read_task(element))
        for rejects in self._reader.write_rejects(element.number):
            yield TaggedOutput(REJECTS, rejects)

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()


class ReadDocuments(beam.PTransform):
    """Read tasks as batches of documents (`corpusmill.corpus.batches.TEXT_SCHEMA`).

    Gives a tuple of the collections DOCUMENTS, REJECTS and COUNTS.

    Args:
        options: the corpus' rules.
        temp_folder: where rejects wait for the commit.
    """

    def __init__(self, options: DocumentOptions, temp_folder: str) -> None:
        super().__init__()
        self._options, self._temp_folder = options, temp_folder

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """One DoFn; its output goes on in the same stage."""
        read = beam.ParDo(_ReadTask(self._options, self._temp_folder)).with_output_types(
            pa.RecordBatch, **{REJECTS: RejectsFile, COUNTS: Count}
        )
        return tasks | "ReadTask" >> read.with_outputs(REJECTS, COUNTS, main=DOCUMENTS)

    def display_data(self) -> dict[str, str | int]:
        """The corpus' rules, as far as they are given."""
        given = {name: of for name, of in asdict(self._options).items() if of is not None}
        return given | {"suffixes": " ".join(self._options.suffixes)}
