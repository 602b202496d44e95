"""The files that tell where the rows of a shard come from, written while the shard is built."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from corpusmill.arrays.ragged import RowBuffer
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.layout.placement import Layout
from corpusmill.provenance.documents import DocumentsWriter
from corpusmill.provenance.rows import RowsWriter
from transforms.elements import DOCUMENTS, ROWS, WrittenFile
from transforms.storage.files import create_file, new_path


@dataclass(frozen=True)
class ProvenanceOptions:
    """How provenance is written.

    Attributes:
        layout: how the data set is spread over shards.
        temp_folder: folder of the files.
        bins: the number of length bins.
        keep_fields: names of the fields of documents that are kept.
    """

    layout: Layout
    temp_folder: str
    bins: int = 1
    keep_fields: Sequence[str] = ()


class ShardProvenance:
    """The provenance of one shard: its rows in a file for each bin, and its documents in another.

    Args:
        options: how it is written; None writes nothing.
        shard: number of the shard.
        unsorted: a buffer for rows that are added in any order, and are those of the shard in the
            order of their keys; None if they are added as they stand in the shard.
    """

    def __init__(
        self, options: ProvenanceOptions | None, shard: int, unsorted: RowBuffer | None = None
    ) -> None:
        self._options, self._shard, self._unsorted = options, shard, unsorted
        self._files, self._sinks = ExitStack(), list[tuple[int, int, str, HashingWriter]]()
        self._rows, self._documents = list[RowsWriter](), list[DocumentsWriter]()

    def __enter__(self) -> Self:
        if options := self._options:
            try:
                self._open_all(options)
            except BaseException:
                self._abandon()
                raise
        return self

    def _open_all(self, options: ProvenanceOptions) -> None:
        for number in range(options.bins):
            sink = self._open(options.temp_folder, ROWS, number)
            by_key, seed = self._unsorted is not None, options.layout.seed
            self._rows.append(RowsWriter(sink, seed, by_key, self._unsorted))
        sink = self._open(options.temp_folder, DOCUMENTS, 0)
        self._documents.append(DocumentsWriter(sink, options.keep_fields))

    def _abandon(self) -> None:
        """Close the files, in which writers would otherwise write when they are deleted."""
        for writer in self._writers:
            writer.abandon()
        self._files.close()

    @property
    def _writers(self) -> Sequence[RowsWriter | DocumentsWriter]:
        return [*self._rows, *self._documents]

    def _open(self, folder: str, part: int, number: int) -> HashingWriter:
        path = new_path(folder, f"provenance-{self._shard}", ".parquet")
        sink = HashingWriter(self._files.enter_context(create_file(path)))
        self._sinks.append((part, number, path, sink))
        return sink

    def add_documents(self, documents: pa.RecordBatch) -> None:
        """Add documents whose home the shard is, with their facts, in the order of the corpus."""
        for writer in self._documents:
            writer.add(documents)

    def add_rows(self, number: int, rows: pa.RecordBatch) -> None:
        """Add the next rows of a bin, with their identity."""
        if self._rows:
            self._rows[number].add(rows)

    def end_group(self) -> None:
        """Write the rows that wait."""
        for writer in self._rows:
            writer.end_group()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for writer in self._writers:
                writer.close()
        self._abandon()

    def written(self) -> Iterator[WrittenFile]:
        """Yield the files, once they are closed."""
        for part, number, path, sink in self._sinks:
            yield WrittenFile(self._shard, part, path, 0, 0, sink.bytes, sink.sha256, number)
