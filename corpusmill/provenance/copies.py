"""Provenance copied without what is removed."""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.objectives.columns import SPANS
from corpusmill.provenance.documents import DocumentsTable, DocumentsWriter
from corpusmill.provenance.rows import RowsFile, RowsWriter
from corpusmill.provenance.selection import Selection
from corpusmill.provenance.spans import Integers, Rows

_SCHEMA = pa.schema([*IDENTITY_SCHEMA, *arrow_schema([SPANS])])


def copy_rows(file: RowsFile, writer: RowsWriter, removed: Integers) -> None:
    """Write the provenance of a shard without some of its rows.

    Args:
        file: the provenance of the shard.
        writer: takes that of the new shard, by keys if the old one is; it is not closed.
        removed: int64[n], the numbers of these rows (`find_removed`).
    """
    kept = np.ones(len(file), np.bool_)
    kept[removed] = False
    for numbers, rows in file.groups():
        # Where keys tell the places of all rows, they may be added in any order.
        in_order = np.arange(len(numbers))
        if not file.by_key:
            in_order = np.argsort(file.places_of(numbers))
        writer.add(ragged.take_rows(_to_batch(rows), in_order[kept[numbers[in_order]]]))


def _to_batch(rows: Rows) -> pa.RecordBatch:
    """Return rows as `RowsWriter` takes them."""
    numbers = (rows.first_tokens.astype(np.uint64), rows.tokens.astype(np.uint64))
    spans = np.stack([rows.span_documents, *numbers], axis=1)
    identity = [rows.documents, rows.repeats, rows.indices]
    lists = ragged.to_arrow(spans.ravel(), rows.span_offsets * spans.shape[1])
    return ragged.to_batch([*identity, lists], _SCHEMA)


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
