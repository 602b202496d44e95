"""The table of documents: each document of a data set, where it lies in the input, and what it is.

A Parquet file has the documents of some shards, ascending by id:

    document  uint64, the id: number of the file << 40 | place of the document in the file
    length    uint64, as the fact of that name (`corpusmill.arrays.text_hashes`)
    tokens    uint32, the number of its tokens
    digest    uint64, likewise

and then the kept fields by their own names, as strings. The bytes depend on the documents alone:
not on the batches in which they come, nor on threads.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.text_hashes import DIGEST, DOCUMENT_COLUMNS, LENGTH, field_column
from corpusmill.corpus.batches import document_id
from corpusmill.formats.shard_formats import Sink
from corpusmill.knobs import knob

Ids = npt.NDArray[np.uint64]


def documents_schema(keep_fields: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of the table.

    Args:
        keep_fields: names of the fields that are kept.
    """
    tokens = pa.field("tokens", pa.uint32())
    columns = [pa.field("document", pa.uint64()), LENGTH, tokens, DIGEST]
    return pa.schema([*columns, *(pa.field(name, pa.string()) for name in keep_fields)])


GROUP_DOCUMENTS = knob("group_documents", 2**16)
"""The documents of provenance that are encoded together."""
GROUP_FIELD_BYTES = knob("group_field_bytes", 2**26)
"""A group of documents ends early at this many bytes of kept fields."""


class DocumentsWriter:
    """Writes a table of documents, with a group of them in memory.

    Args:
        sink: receives the file's bytes.
        keep_fields: names of the fields that are kept.
    """

    def __init__(self, sink: Sink, keep_fields: Sequence[str] = ()) -> None:
        self._keep_fields, self._schema = tuple(keep_fields), documents_schema(keep_fields)
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            use_dictionary=list(keep_fields) or False,
            write_statistics=["document"],
            store_schema=False,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._documents = self._bytes = 0
        self._last = -1

    def add(self, documents: pa.RecordBatch) -> None:
        """Add documents.

        Args:
            documents: tokenized, with facts
                (`corpusmill.tokenization.encoding.tokenized_schema`); their ids ascend, also from
                one batch to the next.

        Raises:
            ValueError: the ids do not ascend.
        """
        if documents.num_rows:
            self._add(self._to_rows(documents))

    def add_rows(self, table: pa.Table) -> None:
        """Add rows of another table; columns that this one does not keep are left out.

        Args:
            table: as `DocumentsTable` reads it; its ids ascend, also from one table to the next.

        Raises:
            ValueError: the ids do not ascend.
        """
        own = table.select(self._schema.names).cast(self._schema).combine_chunks()
        for rows in own.to_batches():
            self._add(rows)

    def _add(self, rows: pa.RecordBatch) -> None:
        ids = rows.column("document").to_numpy()
        if int(ids[0]) <= self._last or (ids[1:] <= ids[:-1]).any():
            raise ValueError("the ids of documents must ascend")
        self._last = int(ids[-1])
        sizes = np.zeros(rows.num_rows, np.int64)  # of the kept fields, in bytes
        for column in rows.columns[len(DOCUMENT_COLUMNS) :]:
            if column.buffers()[1] is not None:
                sizes += np.diff(ragged.from_arrow(column)[1])
        while rows.num_rows:
            room = np.searchsorted(np.cumsum(sizes), GROUP_FIELD_BYTES - self._bytes) + 1
            number = min(GROUP_DOCUMENTS - self._documents, int(room), rows.num_rows)
            self._waiting.append(rows.slice(0, number))
            self._documents += number
            self._bytes += int(sizes[:number].sum())
            is_full = self._documents == GROUP_DOCUMENTS
            if is_full or self._bytes >= GROUP_FIELD_BYTES:
                self._write()
            rows, sizes = rows.slice(number), sizes[number:]

    def _to_rows(self, documents: pa.RecordBatch) -> pa.RecordBatch:
        sentences, offsets = ragged.from_arrow(documents.column("sentences"))
        _, sentence_offsets = ragged.from_arrow(sentences)
        columns = {
            "document": documents.column("document"),
            "length": documents.column(LENGTH.name),
            "tokens": pa.array(np.diff(sentence_offsets[offsets]).astype(np.uint32)),
            "digest": documents.column(DIGEST.name),
        }
        fields = [documents.column(field_column(name).name) for name in self._keep_fields]
        return pa.RecordBatch.from_arrays([*columns.values(), *fields], schema=self._schema)

    def _write(self) -> None:
        """Write a group. As one piece, or the pages would depend on the pieces."""
        group = pa.concat_batches(self._waiting)
        self._writer.write_batch(group, row_group_size=GROUP_DOCUMENTS)
        self._waiting, self._documents, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write the last group and the end of the file; the sink stays open."""
        if self._waiting:
            self._write()
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more: the file is of no use."""
        self._writer.is_open = False


def read_bounds(file: pq.ParquetFile) -> npt.NDArray[np.uint64]:
    """Return the least and the greatest value of the first column in each group, uint64[groups, 2].

    Raises:
        ValueError: the file does not tell them.
    """
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    statistics = [group.column(0).statistics for group in groups]
    if not all(known and known.has_min_max for known in statistics):
        raise ValueError("it does not tell what its groups hold")
    return np.array([(known.min, known.max) for known in statistics], np.uint64).reshape(-1, 2)


class DocumentsTable:
    """A table of documents, of which only what is asked for is read.

    Args:
        source: the file, seekable.

    Attributes:
        schema: its columns.
        documents: the number of documents.

    Raises:
        ValueError: it is not such a table.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._file = pq.ParquetFile(source, pre_buffer=False)
        self.schema: pa.Schema = self._file.schema_arrow
        if not self.schema.equals(documents_schema(self.schema.names[len(DOCUMENT_COLUMNS) :])):
            raise ValueError("it does not hold documents")
        self.documents: int = self._file.metadata.num_rows
        self._bounds_of_groups = read_bounds(self._file)

    def groups(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the documents, group by group.

        Args:
            columns: the columns to read; None for all.
        """
        for group in range(self._file.num_row_groups):
            yield self._read(group, columns)

    def _read(self, group: int, columns: Sequence[str] | None) -> pa.Table:
        names = None if columns is None else list(columns)
        table = self._file.read_row_group(group, names, use_threads=False)
        if names is not None:  # with `meta`, Arrow reads a column `meta.url` as well
            table = table.select(names)
        own = [name for name in table.column_names if name in DOCUMENT_COLUMNS]
        if any(table.column(name).null_count for name in own):
            raise ValueError("a document lacks an entry")
        if "document" in own:
            ids, bounds = table.column("document").to_numpy(), self._bounds_of_groups[group]
            if (ids[1:] <= ids[:-1]).any() or (ids[[0, -1]] != bounds).any():
                raise ValueError("its documents are not those that its groups tell")
        return table

    def find(self, ids: Ids) -> pa.Table:
        """Return the rows of documents; those that the table does not have are left out.

        Args:
            ids: uint64[n], ascending.
        """
        found: list[pa.Table] = []
        for group, (first, last) in enumerate(self._bounds_of_groups):
            begin, end = np.searchsorted(ids, first), np.searchsorted(ids, last, "right")
            if begin < end:
                rows = self._read(group, None)
                known = ragged.to_numpy(rows.column("document").chunk(0))
                places = np.searchsorted(known, ids[begin:end])
                places = places[known[places] == ids[begin:end]]
                # `take` would import much that a few documents do not need.
                runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
                found += [rows.slice(run[0], len(run)) for run in runs if len(run)]
        return pa.concat_tables(found) if found else cast(pa.Table, self.schema.empty_table())

    def find_place(self, file: int, place: int, piece_bits: int = 0) -> pa.Table:
        """Return the row of the document that holds a place of a file, or no row.

        It is the last document that begins there or before and reaches beyond. Of a record that was
        cut into several documents it is the last one.

        Args:
            file: number of the file.
            place: a byte, or the number of a row.
            piece_bits: those of the input format (`corpusmill.corpus.registry.CorpusFormat`).
        """
        wanted = np.uint64(document_id(file, ((place + 1) << piece_bits) - 1))
        group = int(np.searchsorted(self._bounds_of_groups[:, 0], wanted, "right")) - 1
        nothing = cast(pa.Table, self.schema.empty_table())
        if group < 0:
            return nothing
        rows = self._read(group, None)
        ids = rows.column("document").to_numpy()
        row = int(np.searchsorted(ids, wanted, "right")) - 1
        end = (int(ids[row]) >> piece_bits) + max(1, rows.column("length")[row].as_py())
        return rows.slice(row, 1) if int(wanted) >> piece_bits < end else nothing


def copy_documents(table: DocumentsTable, writer: DocumentsWriter, removed: Ids) -> None:
    """Write the documents of a table that are not removed.

    Args:
        table: the documents.
        writer: takes those that are kept; it is not closed.
        removed: uint64[n], ids of documents, ascending.
    """
    for group in table.groups():
        is_gone = are_among(group.column("document").to_numpy(), removed)
        writer.add_rows(group.filter(pa.array(~is_gone)))
