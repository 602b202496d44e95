"""Batches that say which samples they hold, for tests of what moves them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batch, Batches, Reader
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Integers, Rows, pad_lists

# (epoch, sample) of each row.
Key = list[tuple[int, int]]


class TracedCollator:
    """Pads input_ids, and gives the samples' numbers and epochs with them."""

    def prepare(self, rows: Rows) -> Rows:
        keys = {"sample": rows.samples.copy(), "epoch": rows.epochs.copy()}
        return rows.replace(keys)

    def __call__(self, rows: Rows) -> Batch:
        ids = rows.lists("input_ids")
        matrix = np.empty((len(rows), int(ids.lengths.max())), np.int64)
        pad_lists(ids.values, ids.offsets, 0, matrix)
        keys = {name: np.array(rows.columns[name]) for name in ("sample", "epoch")}
        return {"input_ids": matrix, **keys}


class EndlessOrder(Order):
    """The samples over and over again, so that whoever reads is in the midst of an epoch."""

    def __len__(self) -> int:
        return 10**9

    def locate(self, numbers: Integers) -> Integers:
        return numbers % sum(self.shard_sizes)


def traced_batches(data_set: Path, cache_folder: Path) -> Batches:
    """Batches of 4, shuffled."""
    samples = DataSet(data_set, cache_folder=cache_folder)
    order = Order(samples.shard_sizes, seed=3)
    return Batches(samples, order, FixedBatches(4), TracedCollator())


def key(batch: Mapping[str, Any]) -> Key:
    """What a batch is known by, of arrays or of tensors."""
    return list(zip(batch["epoch"].tolist(), batch["sample"].tolist(), strict=True))


def read_plainly(batches: Batches, epoch: int, rank: int = 0, world_size: int = 1) -> list[Key]:
    """The batches of an epoch."""
    blocks = batches.blocks(Position(epoch * len(batches.order)), Reader(rank, world_size))
    return [key(batch) for block in blocks for batch, _ in batches.collate(block)]
