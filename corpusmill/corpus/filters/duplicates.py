"""Exact duplicates among documents: all but the first one with a text, by id, are dropped."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import hash_lines
from corpusmill.corpus.filters.dropping import Step

REASON = "duplicate"

# The hash of a document's text, its id, and the number of the task that reads it.
HASH_SCHEMA = pa.schema(
    [("first", pa.uint64()), ("second", pa.uint64()), ("document", pa.uint64()),
     ("task", pa.uint32())]
)  # fmt: skip
REPEAT_SCHEMA = pa.schema([HASH_SCHEMA.field(name) for name in ("document", "task")])
ROW_BYTES = 28


def hash_documents(documents: pa.RecordBatch, task: int) -> pa.RecordBatch:
    """Hash the text of each document, its sentences joined with line breaks.

    Args:
        documents: rows of `corpusmill.corpus.batches.TEXT_SCHEMA`.
        task: number of the task that reads them.

    Returns:
        Rows of HASH_SCHEMA.
    """
    sentences, offsets = ragged.from_arrow(documents.column("sentences"))
    text, line_offsets = ragged.from_arrow(sentences)
    hashes = hash_lines(text, offsets, line_offsets)
    columns = [
        pa.array(hashes[:, 0]),
        pa.array(hashes[:, 1]),
        documents.column("document"),
        pa.array(np.full(len(hashes), task, np.uint32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=HASH_SCHEMA)


def split_repeats(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Split documents into the first one by id with each hash, and the others.

    Args:
        rows: of HASH_SCHEMA, in any order.

    Returns:
        The rows of the first documents, ordered by hash, and the others as rows of REPEAT_SCHEMA.
    """
    first, second, ids = (rows.column(place).to_numpy() for place in range(3))
    order = np.lexsort((ids, second, first))
    first, second = first[order], second[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    kept = rows.take(pa.array(order[is_first]))
    return kept, rows.take(pa.array(order[~is_first])).select(REPEAT_SCHEMA.names)


def drop_listed(repeats: Sequence[pa.RecordBatch]) -> Step:
    """Make the step that drops documents by their ids.

    Args:
        repeats: the ids, as rows of REPEAT_SCHEMA.
    """
    arrays = [np.empty(0, np.uint64), *(rows.column("document").to_numpy() for rows in repeats)]
    listed: npt.NDArray[np.uint64] = np.sort(np.concatenate(arrays))

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        ids = documents.column("document").to_numpy()
        # The ids of a batch ascend, so that few of the listed ones need to be compared.
        near = listed[np.searchsorted(listed, ids.min(initial=2**64 - 1)) :]
        near = near[: np.searchsorted(near, ids.max(initial=0), "right")]
        return [REASON if is_listed else "" for is_listed in np.isin(ids, near).tolist()]

    return drop
