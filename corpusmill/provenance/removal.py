"""The provenance of a data set copied without some documents; all documents that it has or had."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.distinct import are_among
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import list_provenance, removal_name
from corpusmill.location import Location
from corpusmill.provenance.documents_table import DocumentsTable, DocumentsWriter, Ids
from corpusmill.provenance.spans_table import SpansFile, SpansWriter
from corpusmill.provenance.store import open_documents

Flags = npt.NDArray[np.bool_]


def copy_spans(file: SpansFile, writer: SpansWriter, kept: Flags) -> None:
    """Write the spans of some rows, which are numbered anew.

    Args:
        file: the spans of a shard.
        writer: takes those of the new shard; it is not closed.
        kept: bool[rows], whether each row is kept.
    """
    numbers = np.cumsum(kept) - 1
    for spans in file.groups():
        own = spans.take(kept[spans.rows])
        writer.add_lines(own._replace(rows=numbers[own.rows]))


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


def list_removed(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the lists of documents that were removed."""
    for number, removal in enumerate(manifest.removals):
        if removal.is_listed:
            yield manifest.path_of(removal_name(number))


def list_tables(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the tables of all documents that a data set has or had.

    Args:
        manifest: of the data set, which has provenance.
    """
    entries = [entry.file for entry in manifest.files]
    for split in manifest.splits:
        yield from list_provenance(entries, "documents", split)
    # What was removed must not come back with the next crawl.
    yield from list_removed(manifest)


def read_column(folder: Location, names: Iterable[str], column: str) -> Iterator[Ids]:
    """Yield a column of tables of documents, uint64[n], a group of them at a time.

    Args:
        folder: of the data set.
        names: of the tables.
        column: "document" or "digest".
    """
    for name in names:
        with open_documents(folder, name) as documents:
            for table in documents.groups([column]):
                yield table.column(column).combine_chunks().to_numpy()
