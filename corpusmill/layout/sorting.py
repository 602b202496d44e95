"""Rows grouped by bucket, sorted by key, and cut into groups of equal size."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, arrow_schema
from corpusmill.layout.placement import draw_keys, sort_order

# What a group has at most, whatever its rows are: 64 MB, and less than BERT's groups ever reach.
GROUP_TOKENS = 2**24

KEY = pa.field("key", pa.uint64(), nullable=False)


def keyed_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of rows while they are sorted: the key, the identity, and the columns."""
    return pa.schema([KEY, *IDENTITY_SCHEMA, *arrow_schema(columns)])


def add_keys(examples: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    """The examples with their key as the first column.

    Args:
        examples: begins with the identity columns.
        seed: the data set's seed.
    """
    identity = (examples.column(name).to_numpy() for name in IDENTITY_SCHEMA.names)
    keys = draw_keys(*identity, np.uint64(seed))
    schema = pa.schema([KEY, *examples.schema])
    return pa.RecordBatch.from_arrays([pa.array(keys), *examples.columns], schema=schema)


def order_by_bucket(
    batches: list[pa.RecordBatch], buckets: list[np.ndarray]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of all batches, grouped: (bucket, its rows), buckets ascending.

    Args:
        batches: of one schema.
        buckets: uint32[rows] for each batch.
    """
    of_rows = np.concatenate(buckets)
    # NumPy sorts 16-bit integers by radix, ten times as fast.
    narrow = of_rows.astype(np.uint16) if of_rows.max() < 65536 else of_rows
    order = np.argsort(narrow, kind="stable")
    rows = pa.concat_batches(batches)
    starts = np.flatnonzero(np.diff(of_rows[order].astype(np.int64), prepend=-1))
    stops = np.append(starts[1:], len(of_rows))
    # A bucket at a time: the copies then share a little memory instead of filling as much again.
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield int(of_rows[order[start]]), ragged.take_rows(rows, order[start:stop])


def sort_rows(batches: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """All rows in the order in which they are written, `rows` at a time.

    Args:
        batches: of `keyed_schema`. The list is emptied, so that the rows are not kept twice.
        rows: rows of a batch that is given; the last has fewer.
    """
    joined = pa.concat_batches(batches)
    batches.clear()
    names = ("key", *IDENTITY_SCHEMA.names)
    order = sort_order(*(joined.column(name).to_numpy() for name in names))
    for start in range(0, len(order), rows):
        yield ragged.take_rows(joined, order[start : start + rows])


def cut_into_groups(
    batches: Iterable[pa.RecordBatch], rows: int, tokens: int = GROUP_TOKENS
) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that no reader of the slices sees: they follow from the rows alone.

    Args:
        batches: with a list column `input_ids`.
        rows: most of a batch. All have so many but for the last, and those with enough tokens.
        tokens: a batch ends with the row by which it has as many.
    """
    waiting: list[pa.RecordBatch] = []
    missing_rows, missing_tokens = rows, tokens
    for batch in batches:
        _, offsets = ragged.from_arrow(batch.column("input_ids"))
        begin = 0
        while begin < batch.num_rows:
            enough = int(np.searchsorted(offsets, int(offsets[begin]) + missing_tokens))
            end = min(begin + missing_rows, enough, batch.num_rows)
            waiting.append(batch.slice(begin, end - begin))
            missing_rows -= end - begin
            missing_tokens -= int(offsets[end] - offsets[begin])
            begin = end
            if missing_rows <= 0 or missing_tokens <= 0:
                yield pa.concat_batches(waiting)
                waiting, missing_rows, missing_tokens = [], rows, tokens
    if waiting:
        yield pa.concat_batches(waiting)
