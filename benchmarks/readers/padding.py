"""How much of the batches of a data set is padding: as they come, and by length.

    python -m benchmarks.readers.padding FOLDER [FOLDER ...] [--batch-size 32] [--ranks 8]
        [--cache FOLDER]

Lengths alone are read. "whole" pads every example to the longest of the data set, as a trainer
does that wants one shape; "longest" pads to the longest of the batch; the others bring samples of
about one length together. Shards of one range of lengths (`--bin-size`) need no more than a small
window to be read bin by bin; pools sort them anyway.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batch, Batches
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.padding_share import padding_share
from corpusmill.reading.rows import Rows


class _NoCollator:
    """Nothing is read here."""

    def prepare(self, rows: Rows) -> Rows:
        """See Collator."""
        return rows

    def __call__(self, rows: Rows) -> Batch:
        """See Collator."""
        return {"samples": rows.samples}


def ways(data: DataSet, size: int) -> Iterator[tuple[str, Order, Mapping[str, Any], Padding]]:
    """What is compared: a name, an order, the options of batches, and how they are padded."""
    order, binned = Order(data.shard_sizes), Order(data.shard_sizes, window=1024)
    whole = Padding(padding="max_length", max_length=data.longest)
    tokens = {"max_tokens": size * data.longest}
    yield "whole", order, {}, whole
    yield "longest", order, {}, Padding()
    yield "longest, window 1,024", binned, {}, Padding()
    for pool in (2**12, 2**14, 2**16):
        yield f"by length, pool {pool:,}", order, {"batch_size": size, "pool_size": pool}, Padding()
    yield f"{size * data.longest:,} tokens", order, tokens, Padding()
    for multiple in (8, 64):
        rounded = Padding(pad_to_multiple_of=multiple)
        more = {**tokens, "pad_to_multiple_of": multiple}
        yield f"the same, multiples of {multiple}", order, more, rounded


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--cache")
    chosen = parser.parse_args()
    table = Table("data", "batches", "padding", f"of {chosen.ranks} ranks")
    table.add_column("steps of a rank", justify="right")
    table.add_column("seconds", justify="right")
    with tempfile.TemporaryDirectory() as scratch:
        for folder in chosen.folders:
            data = DataSet(folder, cache_folder=chosen.cache or scratch)
            for name, order, options, padding in ways(data, chosen.batch_size):
                batching = (
                    LengthBatches(data, order, **options)
                    if options
                    else FixedBatches(chosen.batch_size)
                )
                batches = Batches(data, order, batching, _NoCollator())
                begin = time.perf_counter()
                alone = padding_share(batches, padding)
                seconds = time.perf_counter() - begin
                together = padding_share(batches, padding, world_size=chosen.ranks)
                steps = sum(pool.steps for pool in batches.pools(Position(0), chosen.ranks))
                table.add_row(
                    Path(folder).name,
                    name,
                    f"{alone:.2%}",
                    f"{together:.2%}",
                    f"{steps:,}",
                    f"{seconds:.2f}",
                )
    Console().print(table)


if __name__ == "__main__":
    main()
