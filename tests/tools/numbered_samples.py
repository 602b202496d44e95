"""Samples in memory that are identified by their numbers, and runs that stop and resume."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column
from corpusmill.dataset.manifest import Manifest
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.schedule import Batching, Position
from corpusmill.reading.rows import Batch, Collator, Integers, Lists, Rows, Values
from tests.tools.manifests import INPUT_IDS, small_manifest


@dataclass
class NumberedSamples(Samples):
    """Samples whose tokens are their own numbers."""

    shard_sizes: tuple[int, ...]
    longest: int = 12
    seed: int = 0
    digest: str = "numbers"
    manifest: Manifest = field(
        default_factory=lambda: small_manifest(
            columns=(INPUT_IDS, Column("label", "int64", "the number's last bit"))
        )
    )

    shard_parts: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[int, ...]:
        return self.shard_parts

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.seed)
        self.all_lengths = generator.integers(1, self.longest + 1, len(self))

    def lengths(self, samples: Integers) -> Integers:
        return self.all_lengths[samples]

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:  # noqa: ARG002
        lengths = self.lengths(samples)
        ids = Lists(np.repeat(samples, lengths), np.concatenate([[0], np.cumsum(lengths)]))
        return {"input_ids": ids, "label": samples % 2}


class AsTheyAre(Collator):
    """A collator that returns the sample, the epoch and the length of each row."""

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
    """Return batches of the samples."""
    order = order or Order(samples.shard_sizes)
    return Batches(samples, order, batching(samples, order), AsTheyAre())


@dataclass(frozen=True)
class Step:
    """The batches of all ranks in a step, and the position after it."""

    batches: tuple[Batch, ...]
    position: Position

    @property
    def samples(self) -> tuple[list[int], ...]:
        """The samples of each rank."""
        return tuple(batch["samples"].tolist() for batch in self.batches)

    @property
    def reads(self) -> list[tuple[int, int]]:
        """The epoch and sample of each row, of all ranks."""
        return [
            pair
            for batch in self.batches
            for pair in zip(batch["epochs"].tolist(), batch["samples"].tolist(), strict=True)
        ]


def read_epoch(
    batches: Batches, position: Position, world_size: int = 1, workers: Sequence[int] = (1,)
) -> list[Step]:
    """Return all steps from a position to the end of its epoch; each rank has its own workers.

    Args:
        batches: the batches to read.
        position: where to begin.
        world_size: the number of ranks.
        workers: the numbers of workers, which the ranks take in turn.
    """
    ranks = [
        _read_rank(batches, position, rank, world_size, workers[rank % len(workers)])
        for rank in range(world_size)
    ]
    assert len({len(rank) for rank in ranks}) == 1  # each rank has the same number of batches
    steps = []
    for step in zip(*ranks, strict=True):
        positions = {position for _, position in step}
        assert len(positions) == 1  # and the ranks agree on the position
        steps.append(Step(tuple(batch for batch, _ in step), positions.pop()))
    return steps


def _read_rank(
    batches: Batches, position: Position, rank: int, world_size: int, workers: int
) -> list[tuple[Batch, Position]]:
    """Return the batches of a rank, taken from its workers in turn as DataLoader does."""
    queues = [
        [
            pair
            for block in batches.blocks(position, Reader(rank, world_size, worker, workers))
            for pair in batches.collate(block)
        ]
        for worker in range(workers)
    ]
    return [queues[turn % workers][turn // workers] for turn in range(sum(map(len, queues)))]
