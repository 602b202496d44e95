"""The share of padding in the batches of a data set: as they come, and by length.

    python -m benchmarks.readers.padding FOLDER [FOLDER ...] [--batch-size 32] [--ranks 8]
        [--cache FOLDER]

Only lengths are read. "whole" pads every example to the longest of the data set, for a trainer that
needs one shape; "longest" pads to the longest of the batch; the others put samples of similar
lengths together. Shards of one range of lengths (`--bin-size`) can be read bin by bin through a
small window; pools sort them anyway.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.console import make_parser, print_table
from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.padding_share import padding_share
from corpusmill.reading.rows import Batch, Rows


class _NoCollator:
    """A collator that does not need the rows."""

    def prepare(self, rows: Rows) -> Rows:
        """Return the rows."""
        return rows

    def __call__(self, rows: Rows) -> Batch:
        """Return the numbers of the samples."""
        return {"samples": rows.samples}


class Way(NamedTuple):
    """A way of forming batches.

    Attributes:
        name: of the row.
        order: of the samples.
        padding: of the batches.
        options: of batches by length; empty for batches as they come.
    """

    name: str
    order: Order
    padding: Padding
    options: dict[str, Any]


def list_ways(data: DataSet, size: int) -> Iterator[Way]:
    """Yield the ways that are compared."""
    order, narrow = Order(data.shard_sizes), Order(data.shard_sizes, window=1024)
    whole = Padding(padding="max_length", max_length=data.longest)
    tokens = size * data.longest
    yield Way("whole", order, whole, {})
    yield Way("longest", order, Padding(), {})
    yield Way("longest, window 1,024", narrow, Padding(), {})
    for pool in (2**12, 2**14, 2**16):
        options = {"batch_size": size, "pool_size": pool}
        yield Way(f"by length, pool {pool:,}", order, Padding(), options)
    yield Way(f"{tokens:,} tokens", order, Padding(), {"max_tokens": tokens})
    for multiple in (8, 64):
        options = {"max_tokens": tokens, "pad_to_multiple_of": multiple}
        rounded = Padding(pad_to_multiple_of=multiple)
        yield Way(f"the same, multiples of {multiple}", order, rounded, options)


def measure(data: DataSet, batch_size: int, ranks: int) -> Iterator[list[str]]:
    """Yield a row of the table for each way."""
    for name, order, padding, options in list_ways(data, batch_size):
        batching = LengthBatches(data, order, **options) if options else FixedBatches(batch_size)
        batches = Batches(data, order, batching, _NoCollator())
        began = time.perf_counter()
        alone = padding_share(batches, padding)
        seconds = time.perf_counter() - began
        together = padding_share(batches, padding, world_size=ranks)
        steps = sum(pool.steps for pool in batches.pools(Position(0), ranks))
        yield [name, f"{alone:.2%}", f"{together:.2%}", f"{steps:,}", f"{seconds:.2f}"]


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, batch_size=32, ranks=8)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", help="a folder for unpacked shards")
    options = parser.parse_args()
    headings = ("batches", "padding", f"of {options.ranks} ranks", "steps of a rank",
                "seconds")  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        for folder in options.folders:
            data = DataSet(folder, cache_folder=options.cache or scratch)
            rows = measure(data, options.batch_size, options.ranks)
            print_table(headings, rows, folder.name)


if __name__ == "__main__":
    main()
