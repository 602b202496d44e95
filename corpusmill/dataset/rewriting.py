"""A shard written again with some of its rows."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import tokens_of
from corpusmill.dataset.distributions import Counts, add_all, recount
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_shard
from corpusmill.dataset.storage import Folder
from corpusmill.formats.shard_format import Sinks
from corpusmill.layout.sorting import cut_into_groups


def rewrite_shard(
    folder: Folder,
    manifest: Manifest,
    shard: str,
    kept: npt.NDArray[np.bool_],
    sinks: Sinks,
) -> dict[str, Counts]:
    """Write the rows of a shard that are kept, in their order, as a build would have written them.

    Args:
        folder: of the data set.
        manifest: of the data set.
        shard: file name of the shard.
        kept: bool[rows], which rows are kept.
        sinks: one per suffix of the format.

    Returns:
        The distributions of the rows that are not kept, as `recount` returns them.

    Raises:
        ValueError: the shard is damaged.
        OSError: likewise.
    """
    options, shard_format = manifest.output.options, manifest.output.shard_format
    longest = max(split.longest for split in manifest.splits.values())
    removed: dict[str, Counts] = {}

    def choose() -> Iterator[pa.RecordBatch]:
        begin = 0
        for batch in read_shard(folder, manifest, shard):
            is_kept = kept[begin : begin + batch.num_rows]
            begin += batch.num_rows
            add_all(removed, recount(_filter(batch, ~is_kept), manifest.columns, longest))
            yield _filter(batch, is_kept)

    writer = shard_format.open_writer(sinks, manifest.columns, options)
    for group in _cut(choose(), manifest, shard_format.group_rows):
        writer.write(group)
    writer.close()
    return removed


def _filter(batch: pa.RecordBatch, kept: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    return batch.filter(pa.array(kept))


def _cut(
    batches: Iterator[pa.RecordBatch], manifest: Manifest, rows: int
) -> Iterator[pa.RecordBatch]:
    """Cut rows into the groups in which they are encoded."""
    filled = (batch for batch in batches if batch.num_rows)
    if not manifest.output.options.is_padded:
        return cut_into_groups(filled, tokens_of(manifest.columns).name, rows)
    return _cut_padded(filled, rows)


def _cut_padded(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        while sum(one.num_rows for one in waiting) >= rows:
            joined = pa.concat_batches(waiting)
            yield joined.slice(0, rows)
            waiting = [joined.slice(rows)] if joined.num_rows > rows else []
    if waiting:
        yield pa.concat_batches(waiting)
