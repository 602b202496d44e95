"""Provenance copied without what is removed."""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.objectives.columns import SPANS
from corpusmill.provenance.documents import DocumentsTable, DocumentsWriter
from corpusmill.provenance.rows import RowsFile, RowsWriter
from corpusmill.provenance.selection import Flags, Selection
from corpusmill.provenance.spans import Rows

_SCHEMA = pa.schema([*IDENTITY_SCHEMA, *arrow_schema([SPANS])])


def copy_rows(file: RowsFile, writer: RowsWriter, kept: Flags) -> None:
    """Write the provenance of the rows of a shard that are kept.

    Args:
        file: the provenance of the shard.
        writer: takes that of the new shard; it is not closed.
        kept: bool[rows], which rows are kept.
    """
    for places, rows in file.groups():
        in_order = np.argsort(places)
        writer.add(ragged.take_rows(_to_batch(rows), in_order[kept[places[in_order]]]))


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
