"""How evenly the usual order reads a data set of several parts, in every reader.

    python -m benchmarks.readers.proportions DATA_SET [--seed 1] [--batch-size 256]

For each reader: the batches of one part alone, and by how much the share of a part in any tenth of
an epoch differs from its share of all samples. A part is a source, a generation or a length bin, or
with --order corpus a sixteenth of the corpus.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from benchmarks.console import CONSOLE, make_parser, print_table
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader
from corpusmill.reading.make_batches import make_batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Batch, Integers, Rows
from corpusmill.reading.torch.dataset import EpochBatchSampler, MapDataset, TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset


class Numbers:
    """A collator that returns the numbers of a batch's samples."""

    def prepare(self, rows: Rows) -> Rows:
        """Return the rows as they are."""
        return rows

    def __call__(self, rows: Rows) -> Batch:
        """Return the numbers, int64[n]."""
        return {"samples": rows.samples}


def by_reader(batches: Batches) -> dict[str, Callable[[], Iterator[Any]]]:
    """Return how each reader iterates over an epoch."""
    dataset = MapDataset(batches.samples, batches.collator)
    sampler = EpochBatchSampler(batches, 0, 1)
    return {
        "Loader": lambda: iter(Loader(batches)),
        "TensorLoader": lambda: iter(TensorLoader(batches, rank=0, world_size=1)),
        "StreamingDataset": lambda: iter(
            DataLoader(StreamingDataset(batches, 0, 1), batch_size=None)
        ),
        "MapDataset": lambda: iter(
            DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate)
        ),
    }


def part_of_samples(data: DataSet) -> Integers:
    """Return the part of each sample, int64[n]."""
    if data.parts:
        return np.repeat(np.array(data.parts), data.shard_sizes)
    return np.arange(len(data)) * 16 // len(data)


def measure(name: str, batches: list[Integers], parts: Integers) -> list[str]:
    """Return a row of the table."""
    alone = sum(len(set(parts[batch].tolist())) == 1 for batch in batches)
    whole = np.bincount(parts) / len(parts)
    tenths = np.array_split(parts[np.concatenate(batches)], 10)
    off = max(
        float(np.abs(np.bincount(tenth, minlength=len(whole)) / len(tenth) - whole).max())
        for tenth in tenths
    )
    return [name, f"{alone:,} of {len(batches):,}", f"{off:.3f}"]


def compare(data: DataSet, seed: int, batch_size: int) -> Iterator[list[str]]:
    """Yield the rows of the table: an order that knows no parts, and the usual one by reader."""
    parts = part_of_samples(data)
    usual = make_batches(data, batch_size, seed=seed)
    batches = Batches(data, usual.order, usual.batching, Numbers())
    plain = Batches(data, Order(data.shard_sizes, seed), usual.batching, Numbers())
    blocks = partial(plain.plan, Position(0))
    read = [plain.locate(numbers)[0] for block, _ in blocks() for numbers in block]
    yield measure("shards of any part, one after another", read, parts)
    for name, iterate in by_reader(batches).items():
        yield measure(name, [np.asarray(batch["samples"]) for batch in iterate()], parts)


def main() -> None:
    """Read an epoch by each reader and print the table."""
    parser = make_parser(__doc__, seed=1, batch_size=256)
    parser.add_argument("data_set")
    options = parser.parse_args()
    data = DataSet(options.data_set)
    sizes = np.bincount(part_of_samples(data)).tolist()
    CONSOLE.print(f"{len(data):,} samples, parts of {sizes}, {len(data.shards)} shards")
    rows = compare(data, options.seed, options.batch_size)
    print_table(["reader", "batches of one part alone", "largest deviation in a tenth"], rows)


if __name__ == "__main__":
    main()
