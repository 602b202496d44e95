"""Batches that name their samples, for tests of what transports batches."""

from collections.abc import Callable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from corpusmill.reading.collate.collators import pad
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Batch, Rows

# (epoch, sample) of each row.
Key = list[tuple[int, int]]


class TracedCollator:
    """Pads input_ids, and adds the numbers and epochs of the samples."""

    def prepare(self, rows: Rows) -> Rows:
        keys = {"sample": rows.samples.copy(), "epoch": rows.epochs.copy()}
        return Rows({**rows.columns, **keys}, rows.samples, rows.epochs)

    def __call__(self, rows: Rows) -> Batch:
        ids = rows.lists("input_ids")
        matrix = pad(*ids, int(ids.lengths.max()), 0)
        keys = {name: np.array(rows.columns[name]) for name in ("sample", "epoch")}
        return {"input_ids": matrix, **keys}


def traced_batches(data_set: Path, cache_folder: Path) -> Batches:
    """Return shuffled batches of 4."""
    samples = DataSet(data_set, cache_folder=cache_folder)
    order = Order(samples.shard_sizes, seed=3)
    return Batches(samples, order, FixedBatches(4), TracedCollator())


def forked(num_workers: int) -> dict[str, Any]:
    """Return the options of a DataLoader whose workers are forks."""
    context = "fork" if num_workers else None
    return {"num_workers": num_workers, "multiprocessing_context": context}


def key(batch: Mapping[str, Any]) -> Key:
    """Return the epochs and samples of a batch of arrays or tensors."""
    return list(zip(batch["epoch"].tolist(), batch["sample"].tolist(), strict=True))


def read_plainly(batches: Batches, epoch: int, rank: int = 0, world_size: int = 1) -> list[Key]:
    """Return the keys of the batches of an epoch, read without a loader."""
    blocks = batches.blocks(Position(epoch * len(batches.order)), Reader(rank, world_size))
    return [key(batch) for block in blocks for batch, _ in batches.collate(block)]


def run_two_ranks(function: Callable[..., object], *arguments: Any) -> None:
    """Call a function as `function(rank, *arguments)` in a process for each of two ranks."""
    fork = get_context("fork")
    ranks = [fork.Process(target=function, args=(rank, *arguments)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
