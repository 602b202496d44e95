"""A shard written again with some of its rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import tokens_of
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import Counts, add_all, recount
from corpusmill.dataset.shards import open_groups, read_shard
from corpusmill.formats.shard_format import Group, ShardWriter, Sinks
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.location import Location

_BATCH_ROWS = 8192


def rewrite_shard(
    folder: Location,
    manifest: Manifest,
    shard: str,
    kept: npt.NDArray[np.bool_],
    sinks: Sinks,
) -> dict[str, Counts]:
    """Write the rows of a shard that are kept, in their order.

    Where the format allows it, groups that lose nothing are copied as they stand, and only those
    between them are decoded and encoded, in groups as a build would have written them.

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
    removed: dict[str, Counts] = {}
    writer = shard_format.open_writer(sinks, manifest.columns, options)
    with open_groups(folder, manifest, shard) as groups:
        places = _place(groups or [_AllRows(folder, manifest, shard, len(kept))], kept)
        for is_copied, run in groupby(places, lambda place: place.is_copied(writer)):
            if is_copied:
                for place in run:
                    place.group.copy_to(writer)
                continue
            rows = _choose(run, manifest, removed)
            for batch in _cut(rows, manifest, shard_format.group_rows):
                writer.write(batch)
    writer.close()
    return removed


class _Place(NamedTuple):
    """A group of a shard.

    Attributes:
        group: the rows.
        kept: bool[rows], which of them are kept.
    """

    group: Group
    kept: npt.NDArray[np.bool_]

    def is_copied(self, writer: ShardWriter) -> bool:
        """Whether a writer takes it as it stands."""
        return bool(self.kept.all()) and self.group.fits(writer)


def _place(groups: Sequence[Group], kept: npt.NDArray[np.bool_]) -> list[_Place]:
    """Return the groups with the flags of their rows."""
    ends = list(accumulate(group.rows for group in groups))
    return [
        _Place(group, kept[end - group.rows : end]) for group, end in zip(groups, ends, strict=True)
    ]


@dataclass(frozen=True)
class _AllRows:
    """The rows of a shard whose format has no groups that can be copied."""

    folder: Location
    manifest: Manifest
    shard: str
    rows: int

    def read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        return read_shard(self.folder, self.manifest, self.shard, batch_rows)

    def fits(self, _: ShardWriter) -> bool:
        return False

    def copy_to(self, _: ShardWriter) -> None:
        raise TypeError("the rows are not encoded in groups")


def _choose(
    places: Iterable[_Place],
    manifest: Manifest,
    removed: dict[str, Counts],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are kept, and add the distributions of the others to `removed`."""
    for group, kept in places:
        begin = 0
        for batch in group.read(_BATCH_ROWS):
            is_kept = kept[begin : begin + batch.num_rows]
            begin += batch.num_rows
            add_all(removed, recount(_filter(batch, ~is_kept), manifest.columns, manifest.longest))
            yield _filter(batch, is_kept)


def _filter(batch: pa.RecordBatch, kept: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    if kept.all():
        return batch
    if any(pa.types.is_fixed_size_list(column.type) for column in batch.columns):
        return batch.filter(pa.array(kept))
    return ragged.take_rows(batch, np.flatnonzero(kept))


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
