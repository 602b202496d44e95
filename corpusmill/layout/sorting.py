"""Rows grouped by bucket, sorted by key, and cut into groups of equal size."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, arrow_schema
from corpusmill.layout.placement import draw_keys, sort_order

KEY = pa.field("key", pa.uint64(), nullable=False)


def keyed_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of rows while they are sorted: the key, the identity, and the columns."""
    return pa.schema([KEY, *IDENTITY_SCHEMA, *arrow_schema(columns)])


def add_keys(examples: pa.RecordBatch, seed: int) -> pa.RecordBatch:
    """Prepend the column of keys to examples.

    Args:
        examples: their first columns are the identity.
        seed: the data set's seed.
    """
    identity = (examples.column(name).to_numpy() for name in IDENTITY_SCHEMA.names)
    keys = draw_keys(*identity, seed=seed)
    schema = pa.schema([KEY, *examples.schema])
    return pa.RecordBatch.from_arrays([pa.array(keys), *examples.columns], schema=schema)


def order_by_bucket(
    batches: list[pa.RecordBatch], buckets: list[np.ndarray]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, its rows) for all buckets of the batches, in ascending order.

    Args:
        batches: of the same schema; the list is emptied, so that the rows are not kept twice.
        buckets: uint32[rows] of each batch.
    """
    row_buckets = np.concatenate(buckets)
    rows = _join(batches)
    batches.clear()
    # NumPy sorts 16-bit integers by radix, which is ten times as fast.
    narrow = row_buckets.astype(np.uint16) if row_buckets.max() < 65536 else row_buckets
    order = np.argsort(narrow, kind="stable")
    starts = np.flatnonzero(np.diff(row_buckets[order].astype(np.int64), prepend=-1))
    stops = np.append(starts[1:], len(row_buckets))
    # One bucket at a time: the copies then share a little memory in place of doubling it.
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield int(row_buckets[order[start]]), ragged.take_rows(rows, order[start:stop])


def sort_rows(batches: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order in which they are written, `rows` at a time.

    Args:
        batches: of `keyed_schema`; the list is emptied, so that the rows are not kept twice.
        rows: of each batch but the last, which may have fewer.
    """
    joined = _join(batches)
    batches.clear()
    names = ("key", *IDENTITY_SCHEMA.names)
    order = sort_order(*(joined.column(name).to_numpy() for name in names))
    for start in range(0, len(order), rows):
        yield ragged.take_rows(joined, order[start : start + rows])


def cut_into_groups(
    batches: Iterable[pa.RecordBatch], column: str, rows: int, tokens: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in groups that depend on the rows alone, not on the batches.

    Args:
        batches: rows.
        column: the name of the column of their tokens: lists, or lists of lists.
        rows: of each group but the last and those that reach `tokens` before.
        tokens: a group ends with the row that makes it reach this number of tokens.
    """
    waiting: list[pa.RecordBatch] = []
    missing_rows, missing_tokens = rows, tokens
    for batch in batches:
        offsets = token_offsets(batch.column(column))
        begin = 0
        while begin < batch.num_rows:
            enough = int(np.searchsorted(offsets, int(offsets[begin]) + missing_tokens))
            end = min(begin + missing_rows, enough, batch.num_rows)
            waiting.append(batch.slice(begin, end - begin))
            missing_rows -= end - begin
            missing_tokens -= int(offsets[end] - offsets[begin])
            begin = end
            if missing_rows <= 0 or missing_tokens <= 0:
                yield _join(waiting)
                waiting, missing_rows, missing_tokens = [], rows, tokens
    if waiting:
        yield _join(waiting)


def join_small(batches: Iterable[pa.RecordBatch], small: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, with small batches joined into larger ones.

    Args:
        batches: batches of one schema.
        small: size in bytes from which a batch is left as it is.
    """
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in batches:
        waiting.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= small:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield _join(waiting)


def token_offsets(column: pa.Array) -> np.ndarray:
    """Return integers[rows + 1], where the tokens of each row begin."""
    values, offsets = ragged.from_arrow(column)
    if pa.types.is_list(column.type.value_type):
        _, inner_offsets = ragged.from_arrow(values)
        offsets = inner_offsets[offsets]
    return offsets


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches as one; a batch that is no part of a larger one as it is."""
    if len(batches) > 1:
        return pa.concat_batches(batches)
    lists = [column for column in batches[0].columns if pa.types.is_list(column.type)]
    is_whole = all(column.offset == 0 for column in batches[0].columns) and all(
        column.offsets[-1].as_py() == len(column.values) for column in lists
    )
    return batches[0] if is_whole else pa.concat_batches(batches)
