"""The rows of a shard in several files by their length, so that a batch of one file pads little.

Source: NVIDIA's LDDL (`bin_size`): bin i holds the examples of i * bin_size + 1 up to
(i + 1) * bin_size tokens, in shards of its own. A trainer takes each batch from one bin, drawn by
the bins' numbers of rows, and pads it to that bin's longest example.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.errors import UserError
from corpusmill.layout.sorting import cut_into_groups, order_by_bucket

# A worker has a file of each bin open, and rows of each in memory.
MOST_BINS = 100


@dataclass(frozen=True)
class LengthBin:
    """A range of lengths.

    Attributes:
        bin: its number, from 0 for the shortest.
        min_length: tokens of the shortest example.
        max_length: tokens of the longest example, to which a trainer pads.
    """

    bin: int
    min_length: int
    max_length: int


def cut_lengths(columns: Iterable[Column], bin_size: int | None) -> tuple[LengthBin, ...]:
    """The bins of a data set.

    Args:
        columns: of the data set; the width of `input_ids` is the longest length.
        bin_size: lengths a bin; None for no bins.

    Returns:
        The shortest first; none without `bin_size`.

    Raises:
        UserError: the rows have no length to go by, or the bins are too many or only one.

    Example:
        512 tokens and bin_size 128 give the lengths 1 to 128, 129 to 256, 257 to 384, 385 to 512.
    """
    if bin_size is None:
        return ()
    longest = next((of.width for of in columns if of.name == "input_ids"), 0)
    if not longest:
        raise UserError(
            f"--bin-size {bin_size}",
            "the rows of this data set have no length of their own",
            "Leave it out",
        )
    bins = tuple(
        LengthBin(number, first, min(first + bin_size - 1, longest))
        for number, first in enumerate(range(1, longest + 1, bin_size))
    )
    if not 2 <= len(bins) <= MOST_BINS:
        smallest = -(-longest // MOST_BINS)
        raise UserError(
            f"--bin-size {bin_size}",
            f"it makes {len(bins)} bins of lengths up to {longest}",
            f"Give {smallest} to {longest - 1}",
        )
    return bins


def split_into_bins(
    batches: Iterable[pa.RecordBatch], bins: tuple[LengthBin, ...], rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by bin, in their order, in batches of exactly `rows` but for each bin's last.

    At most `rows` rows of each bin wait, so that memory does not grow with the number of batches.

    Args:
        batches: rows with the column `input_ids`, whose length is the row's.
        bins: from `cut_lengths`; without any all rows are of bin 0.
        rows: of a batch that is given.
    """
    if not bins:
        yield from ((0, group) for group in cut_into_groups(batches, rows))
        return
    waiting: list[list[pa.RecordBatch]] = [[] for _ in bins]
    ends = np.array([of.max_length for of in bins])
    for batch in batches:
        if not batch.num_rows:
            continue
        lengths = np.diff(batch.column("input_ids").offsets.to_numpy())
        of_rows = np.searchsorted(ends, lengths).astype(np.uint32)
        for number, of_bin in order_by_bucket([batch], [of_rows]):
            waiting[number].append(of_bin)
            if sum(part.num_rows for part in waiting[number]) >= rows:
                groups = list(cut_into_groups(waiting[number], rows))
                waiting[number] = groups[-1:] if groups[-1].num_rows < rows else []
                yield from ((number, group) for group in groups if group.num_rows == rows)
    for number, parts in enumerate(waiting):
        yield from ((number, group) for group in cut_into_groups(parts, rows))
