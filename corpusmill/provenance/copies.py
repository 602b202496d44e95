"""Provenance copied without what is removed."""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.objectives.columns import SPANS
from corpusmill.provenance.documents import DocumentsTable, DocumentsWriter
from corpusmill.provenance.rows import Origins, RowsFile, RowsWriter
from corpusmill.provenance.selection import Flags, Selection

_SCHEMA = pa.schema([*IDENTITY_SCHEMA, *arrow_schema([SPANS])])


def copy_rows(file: RowsFile, writer: RowsWriter, kept: Flags) -> None:
    """Write the provenance of the rows of a shard that are kept.

    Args:
        file: the provenance of the shard.
        writer: takes that of the new shard; it is not closed.
        kept: bool[rows], which rows are kept.
    """
    for origins in file.groups():
        in_order = np.argsort(origins.places)
        places = origins.places[in_order]
        writer.add(ragged.take_rows(_unpack(origins), in_order[kept[places]]))


def _unpack(origins: Origins) -> pa.RecordBatch:
    """Return rows as `RowsWriter` takes them, in the order of `origins`."""
    spans = np.stack(
        [
            origins.span_documents,
            origins.first_tokens.astype(np.uint64),
            origins.tokens.astype(np.uint64),
        ],
        axis=1,
    )
    identity = [origins.documents, origins.repeats, origins.indices]
    lists = ragged.to_arrow(spans.ravel(), origins.span_offsets * spans.shape[1])
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
