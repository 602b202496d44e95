"""Samples in memory that say which they are, and a run that is stopped and goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column
from corpusmill.dataset.manifest import Manifest
from corpusmill.reading.load.batches import Batch, Batches, Reader
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.schedule import Batching, Position
from corpusmill.reading.rows import Integers, Lists, Rows
from tests.tools.manifests import INPUT_IDS, small_manifest


@dataclass
class NumberedSamples:
    """Samples whose tokens are their own numbers; see Samples."""

    shard_sizes: tuple[int, ...]
    longest: int = 12
    seed: int = 0
    digest: str = "numbers"
    manifest: Manifest = field(
        default_factory=lambda: small_manifest(
            columns=(INPUT_IDS, Column("label", "int64", "the number's last bit"))
        )
    )

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.seed)
        self.all_lengths = generator.integers(1, self.longest + 1, len(self))

    def __len__(self) -> int:
        return sum(self.shard_sizes)

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        lengths = self.lengths(samples)
        ids = Lists(np.repeat(samples, lengths), np.concatenate([[0], np.cumsum(lengths)]))
        if epochs is None:
            epochs = np.zeros(len(samples), np.int64)
        return Rows({"input_ids": ids, "label": samples % 2}, samples, epochs)

    def lengths(self, samples: Integers) -> Integers:
        return self.all_lengths[samples]


class AsTheyAre:
    """A collator that gives each row's sample and epoch."""

    def prepare(self, rows: Rows) -> Rows:
        return rows

    def __call__(self, rows: Rows) -> Batch:
        return {
            "samples": rows.samples,
            "epochs": rows.epochs,
            "lengths": rows.lists("input_ids").lengths,
        }


def read_by(
    batching: Callable[[Any, Ordering], Batching],
    samples: NumberedSamples,
    order: Ordering | None = None,
) -> Batches:
    """A reader of samples."""
    order = order or Order(samples.shard_sizes)
    return Batches(samples, order, batching(samples, order), AsTheyAre())


@dataclass(frozen=True)
class Step:
    """What all ranks read in a step, and how far everybody has read then."""

    batches: tuple[Batch, ...]
    position: Position

    @property
    def samples(self) -> tuple[list[int], ...]:
        """Of each rank."""
        return tuple(batch["samples"].tolist() for batch in self.batches)

    @property
    def reads(self) -> list[tuple[int, int]]:
        """Epoch and sample of each row, of all ranks."""
        return [
            pair
            for batch in self.batches
            for pair in zip(batch["epochs"].tolist(), batch["samples"].tolist(), strict=True)
        ]


def read_epoch(
    batches: Batches, position: Position, world_size: int = 1, workers: Sequence[int] = (1,)
) -> list[Step]:
    """All steps from a position to the end of its epoch, each rank read by workers of its own.

    Args:
        batches: what is read.
        position: where to begin.
        world_size: ranks.
        workers: of each rank in turn, over and over.
    """
    of_ranks = [
        _read_rank(batches, position, rank, world_size, workers[rank % len(workers)])
        for rank in range(world_size)
    ]
    assert len({len(of) for of in of_ranks}) == 1  # each rank has the same number of batches
    steps = []
    for of_step in zip(*of_ranks, strict=True):
        positions = {position for _, position in of_step}
        assert len(positions) == 1  # and they agree on how far they are
        steps.append(Step(tuple(batch for batch, _ in of_step), positions.pop()))
    return steps


def _read_rank(
    batches: Batches, position: Position, rank: int, world_size: int, workers: int
) -> list[tuple[Batch, Position]]:
    """The batches of a rank, taken from its workers in turn as DataLoader does."""
    of_workers = [
        [
            found
            for block in batches.blocks(position, Reader(rank, world_size, worker, workers))
            for found in batches.collate(block)
        ]
        for worker in range(workers)
    ]
    return [
        of_workers[turn % workers][turn // workers] for turn in range(sum(map(len, of_workers)))
    ]
