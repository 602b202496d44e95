"""The rows of a shard in several files by length, so that a batch of one file needs little padding.

Source: NVIDIA's LDDL (`bin_size`): bin i holds the examples of i * bin_size + 1 up to
(i + 1) * bin_size tokens, in shards of its own. A trainer takes each batch from one bin, drawn by
the bins' numbers of rows, and pads it to that bin's longest example.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH, Column, tokens_of
from corpusmill.errors import UserError, option
from corpusmill.layout.sorting import cut_into_groups, is_group, order_by_bucket

# A worker keeps a file of each bin open, and rows of each in memory.
MAX_BINS = 100


@dataclass(frozen=True)
class LengthBin:
    """A range of lengths.

    Attributes:
        bin: its number; 0 has the shortest lengths.
        min_length: the fewest tokens of an example.
        max_length: the most tokens of an example, to which a trainer pads.
    """

    bin: int
    min_length: int
    max_length: int


def cut_lengths(columns: Iterable[Column], bin_size: int | None) -> tuple[LengthBin, ...]:
    """Return the bins of a data set, the shortest lengths first.

    Args:
        columns: of the data set; the width of the tokens is the maximum length.
        bin_size: lengths per bin; None means that there are no bins.

    Raises:
        UserError: the rows have no maximum length, or there are too many bins or only one.

    Example:
        512 tokens and bin_size 128 give the lengths 1 to 128, 129 to 256, 257 to 384, 385 to 512.
    """
    if bin_size is None:
        return ()
    longest = tokens_of(columns).width
    if longest == ANY_LENGTH:
        cause = "the rows of this data set have no maximum length"
        raise UserError(option("bin_size", bin_size), cause, "Leave it out")
    bins = tuple(
        LengthBin(number, first, min(first + bin_size - 1, longest))
        for number, first in enumerate(range(1, longest + 1, bin_size))
    )
    if not 2 <= len(bins) <= MAX_BINS:
        cause = f"it makes {len(bins)} bins of lengths up to {longest}; 2 to {MAX_BINS} are allowed"
        cure = f"Give {-(-longest // MAX_BINS)} to {longest - 1}"
        raise UserError(option("bin_size", bin_size), cause, cure)
    return bins


def split_into_bins(
    batches: Iterable[pa.RecordBatch],
    column: str,
    bins: tuple[LengthBin, ...],
    rows: int,
    tokens: int,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield rows by bin, in their order: the bin's number, and a batch.

    Less than a group of each bin waits, so that memory does not grow with the number of batches.

    Args:
        batches: rows.
        column: the name of the column of their tokens, whose length is the row's.
        bins: from `cut_lengths`; if there are none, all rows are of bin 0.
        rows: of each batch, as in `cut_into_groups`.
        tokens: likewise.
    """
    if not bins:
        yield from ((0, group) for group in cut_into_groups(batches, column, rows, tokens))
        return
    waiting: list[list[pa.RecordBatch]] = [[] for _ in bins]
    max_lengths = np.array([length_bin.max_length for length_bin in bins])
    for batch in batches:
        if not batch.num_rows:
            continue
        lengths = np.diff(batch.column(column).offsets.to_numpy())
        numbers = np.searchsorted(max_lengths, lengths).astype(np.uint32)
        for number, rows_of_bin in order_by_bucket([batch], [numbers]):
            waiting[number].append(rows_of_bin)
            if is_group(waiting[number], column, rows, tokens):
                groups = list(cut_into_groups(waiting[number], column, rows, tokens))
                is_last_full = is_group(groups[-1:], column, rows, tokens)
                waiting[number] = [] if is_last_full else [groups.pop()]
                yield from ((number, group) for group in groups)
    for number, parts in enumerate(waiting):
        yield from ((number, group) for group in cut_into_groups(parts, column, rows, tokens))
