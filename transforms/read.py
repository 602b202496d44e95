"""Ranges of files to batches of documents."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import BinaryIO
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.documents import DocumentBatch
from corpusmill.corpus.formats import read_corpus
from corpusmill.corpus.hub_files import is_hub_path, open_hub_file
from corpusmill.corpus.options import DocumentOptions
from corpusmill.faults import Reject
from transforms.elements import FileRange, NamedOutputs, RejectsFile
from transforms.tally import COUNTS, Count, Tally

DOCUMENTS, REJECTS = "documents", "rejects"


def open_file(path: str) -> BinaryIO:
    """Open a file of any of Beam's filesystems or the hub for reading, compressed bytes as is."""
    if is_hub_path(path):
        return open_hub_file(path)
    stream: BinaryIO = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


def create_file(path: str) -> BinaryIO:
    """Create a file on any of Beam's filesystems, to be written as it is."""
    stream: BinaryIO = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


class _ReadRange(beam.DoFn):
    """A range to its documents; rejects go to a file of the range's own, counts to COUNTS."""

    def __init__(self, options: DocumentOptions, temp_folder: str) -> None:
        self._options, self._temp_folder = options, temp_folder

    def setup(self) -> None:
        self._tally = Tally("read", live=("bytes",))

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: FileRange) -> Iterator[pa.RecordBatch]:
        self._tally.add("ranges", 1)
        rejects: list[Reject] = []
        for batch in self._read(element):
            for name, number in asdict(batch.counts).items():
                self._tally.add(name, number)
            rejects += batch.rejects
            if batch.documents.num_rows:
                yield batch.documents
        if rejects:
            yield TaggedOutput(REJECTS, self._write(element, rejects))

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()

    def _read(self, element: FileRange) -> Iterator[DocumentBatch]:
        end = None if element.end < 0 else element.end
        with ExitStack() as stack:
            raw = stack.enter_context(open_file(element.file))
            stream = open_decompressed(raw, element.file)
            yield from read_corpus(
                stream, element.name, element.file_index, element.start, end, self._options
            )

    def _write(self, element: FileRange, rejects: list[Reject]) -> RejectsFile:
        path = FileSystems.join(self._temp_folder, f"rejects-{element.number}-{uuid4().hex}.jsonl")
        with create_file(path) as stream:
            for reject in rejects:
                stream.write((json.dumps(asdict(reject), ensure_ascii=False) + "\n").encode())
        self._tally.add("rejects", len(rejects))
        for reason, number in Counter(reject.reason for reject in rejects).items():
            self._tally.add(f"rejects.{reason}", number)
        return RejectsFile(element.number, path, len(rejects))


class ReadDocuments(beam.PTransform):
    """Read ranges as batches of documents (`corpusmill.corpus.documents.TEXT_SCHEMA`).

    Gives a tuple of the collections DOCUMENTS, REJECTS and COUNTS.

    Args:
        options: the corpus' rules.
        temp_folder: where rejects wait for the commit.
    """

    def __init__(self, options: DocumentOptions, temp_folder: str) -> None:
        super().__init__()
        self._options, self._temp_folder = options, temp_folder

    def expand(self, ranges: beam.PCollection[FileRange]) -> NamedOutputs:
        """One DoFn; its output goes on in the same stage."""
        read = beam.ParDo(_ReadRange(self._options, self._temp_folder)).with_output_types(
            pa.RecordBatch, **{REJECTS: RejectsFile, COUNTS: Count}
        )
        return ranges | "ReadRange" >> read.with_outputs(REJECTS, COUNTS, main=DOCUMENTS)

    def display_data(self) -> dict[str, str | int]:
        """The corpus' rules, as far as they are given."""
        given = {name: of for name, of in asdict(self._options).items() if of is not None}
        return given | {"suffixes": " ".join(self._options.suffixes)}
