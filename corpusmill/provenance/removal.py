"""Which documents are removed from a data set, and its provenance copied without them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.distinct import are_among
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import removal_name
from corpusmill.location import Location
from corpusmill.provenance.documents_table import DocumentsTable, DocumentsWriter, Ids
from corpusmill.provenance.spans_table import Integers, SpansFile, SpansWriter
from corpusmill.provenance.store import open_documents

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Selection:
    """Documents that are removed.

    Attributes:
        documents: uint64[n], ids of documents, ascending.
        keeps: whether these are the ones that stay, and all others are removed.
    """

    documents: Ids
    keeps: bool = False

    def removes(self, documents: Ids) -> Flags:
        """Return bool[n]: whether each document is removed.

        Args:
            documents: uint64[n], ids of documents.
        """
        return are_among(documents, self.documents) ^ self.keeps

    def within(self, first_document: int) -> "Selection":
        """Return the same for documents whose ids are counted from another one.

        Args:
            first_document: the id that becomes 0.
        """
        own = self.documents[self.documents >= np.uint64(first_document)]
        return Selection(own - np.uint64(first_document), self.keeps)


def find_removed(file: SpansFile, selection: Selection) -> Integers:
    """Return the rows that hold anything that is removed, int64[n]: their numbers, ascending.

    Args:
        file: the spans of a shard.
        selection: what is removed.

    Example:
        Of three rows, of which the second has the tokens of documents 5 and 7, the removal of
        document 7 gives [1].
    """
    if not selection.keeps:
        return file.find_rows(selection.documents)
    found = [spans.rows[selection.removes(spans.documents)] for spans in file.groups()]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))


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


def copy_documents(table: DocumentsTable, writer: DocumentsWriter, selection: Selection) -> int:
    """Write the documents of a table that are not removed, and return how many are.

    Args:
        table: the documents.
        writer: takes those that are kept; it is not closed.
        selection: what is removed.
    """
    removed = 0
    for group in table.groups():
        gone = selection.removes(group.column("document").to_numpy())
        writer.add_rows(group.filter(pa.array(~gone)))
        removed += int(gone.sum())
    return removed


def read_removed(folder: Location, manifest: Manifest, column: str) -> Iterator[pa.UInt64Array]:
    """Yield a column of the lists of documents that were removed, some at a time.

    Args:
        folder: of the data set.
        manifest: of the data set.
        column: "document" or "digest".
    """
    for number, removal in enumerate(manifest.removals):
        if removal.is_listed:
            with open_documents(folder, removal_name(number)) as documents:
                for table in documents.groups([column]):
                    yield table.column(column).combine_chunks()
