"""The shuffle's files: examples ordered by bucket, each bucket's rows one Arrow IPC message.

A bucket is one slice of one shard: slice k of K holds the keys from k/K to (k+1)/K of their range.
So a shard can be sorted slice by slice, in memory that does not grow with the shard.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill import ragged
from corpusmill.columns import arrow_schema
from corpusmill.objective import IDENTITY_SCHEMA, Objective
from corpusmill.placement import place_examples, sort_order

KEY = pa.field("key", pa.uint64(), nullable=False)

# What one example of a BERT data set takes in a slice, about; only the number of slices depends on
# it.
_SLICE_BYTES = 32 * 2**20
_EXAMPLE_BYTES_PER_TEXT_BYTE = 0.8


@dataclass(frozen=True)
class Layout:
    """How the examples of a data set are spread; the same for every runner and number of workers.

    Attributes:
        seed: the data set's seed.
        train_shards: number of the train split's shards.
        validation_shards: number of the validation split's shards, which follow.
        slices: slices of a shard; they change the memory used, never the bytes written.
    """

    seed: int
    train_shards: int
    validation_shards: int
    slices: int

    @property
    def shards(self) -> int:
        """All shards."""
        return self.train_shards + self.validation_shards

    def buckets(
        self, examples: pa.RecordBatch, splits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bucket of each example and its key.

        Args:
            examples: begins with the identity columns.
            splits: uint8[examples].

        Returns:
            buckets: uint32[examples], shard * slices + slice.
            keys: uint64[examples].
        """
        documents, repeats, indices = (
            examples.column(name).to_numpy() for name in IDENTITY_SCHEMA.names
        )
        shards_of_splits = np.array([self.train_shards, self.validation_shards], np.int64)
        shards, keys = place_examples(
            documents, repeats, indices, splits, shards_of_splits, np.uint64(self.seed)
        )
        # The upper 32 bits times the number of slices stay below 2**64.
        slices = ((keys >> np.uint64(32)) * np.uint64(self.slices)) >> np.uint64(32)
        return shards * np.uint32(self.slices) + slices.astype(np.uint32), keys


def count_slices(corpus_bytes: int, repeats: int, shards: int) -> int:
    """Slices that keep one slice of one shard near 32 MB."""
    shard_bytes = corpus_bytes * repeats * _EXAMPLE_BYTES_PER_TEXT_BYTE / shards
    return max(1, min(4096, round(shard_bytes / _SLICE_BYTES)))


def transit_schema(objective: Objective) -> pa.Schema:
    """What travels: the key, the identity, and the objective's transit columns."""
    return pa.schema([KEY, *IDENTITY_SCHEMA, *arrow_schema(objective.transit_columns)])


def add_keys(examples: pa.RecordBatch, keys: np.ndarray) -> pa.RecordBatch:
    """The examples with their key as the first column."""
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


def sort_rows(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of one bucket in the order in which they are written."""
    rows = pa.concat_batches(batches)
    order = sort_order(*(rows.column(name).to_numpy() for name in ("key", *IDENTITY_SCHEMA.names)))
    return ragged.take_rows(rows, order)


def cut_into_groups(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows`, but for the last: no reader sees the slices."""
    waiting: list[pa.RecordBatch] = []
    number = 0
    for batch in batches:
        waiting.append(batch)
        number += batch.num_rows
        if number < rows:
            continue
        whole = pa.concat_batches(waiting)
        for start in range(0, number - rows + 1, rows):
            yield whole.slice(start, rows)
        rest = number % rows
        waiting, number = ([whole.slice(number - rest)] if rest else []), rest
    if number:
        yield pa.concat_batches(waiting)
