"""Batches of an epoch as NumPy arrays, in an order that any rank, worker or later run can go on in.

`Batches` is what the readers for PyTorch stand on, and what JAX users iterate over themselves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Batching, Pool, Position
from corpusmill.reading.rows import Integers, Rows

Batch = dict[str, npt.NDArray[Any]]

Plan = tuple[list[Integers], list[Position]]

_STATE_VERSION = 1

# Samples that are looked up, copied and masked at once, so that calls cost little and a block of
# rows of 512 tokens stays near a megabyte.
_BLOCK_SAMPLES = 1024


class Collator(Protocol):
    """Makes a model's arguments of rows."""

    def prepare(self, rows: Rows) -> Rows:
        """What is done row by row, for many rows at once: masks."""

    def __call__(self, rows: Rows) -> Batch:
        """The arrays of one batch, from prepared rows."""


@dataclass(frozen=True)
class Reader:
    """One of those who read together.

    Attributes:
        rank: of this process, 0 to world_size - 1.
        world_size: processes that train together.
        worker: of this rank, 0 to workers - 1.
        workers: processes or threads that read for this rank; worker w reads the steps that leave w
            when divided by their number.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: there is no such rank.
        """
        if not 0 <= self.rank < self.world_size:
            cause = f"of {self.world_size} ranks there is none of that number"
            raise UserError(f"rank={self.rank}", cause, "Give 0 to world_size - 1")


@dataclass(frozen=True)
class Block:
    """Consecutive batches of one reader, not yet padded.

    Attributes:
        rows: prepared, those of all batches behind each other.
        bounds: int64[batches + 1], where the batches begin among them.
        positions: how far everybody has read when each of them is done.
    """

    rows: Rows
    bounds: tuple[int, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Batches:
    """Reads the batches of one epoch after another.

    Everything that decides which samples a batch has is a value here, so that copies of it in
    other processes read the same; how far it is read is a `Position`, which is passed in.

    Attributes:
        samples: what is read.
        order: of its samples, in each epoch.
        batching: how they are made into batches.
        collator: how a model's arguments are made of them.
    """

    samples: Samples
    order: Ordering
    batching: Batching
    collator: Collator

    def blocks(self, position: Position, reader: Reader = Reader()) -> Iterator[Block]:
        """The batches of a reader from a position to the end of its epoch.

        Args:
            position: where to begin.
            reader: who reads.
        """
        for numbers, positions in self.plan(position, reader):
            yield self._block(numbers, positions)

    def plan(self, position: Position, reader: Reader = Reader()) -> Iterator[Plan]:
        """What `blocks` reads, without reading it.

        Args:
            position: where to begin.
            reader: who reads.

        Returns:
            For each block the numbers of each of its batches, and how far everybody has read when
            each is done.
        """
        step = 0
        for pool in self.pools(position, reader.world_size):
            own = range((reader.worker - step) % reader.workers, pool.steps, reader.workers)
            yield from _plan_pool(pool, own, reader.rank)
            step += pool.steps

    def pools(self, position: Position, world_size: int) -> Iterator[Pool]:
        """The steps of all ranks from a position to the end of its epoch."""
        end = self.end_of_epoch(position, world_size)
        while pool := self.batching.next_pool(position, end, world_size):
            yield pool
            position = pool.position_after(pool.steps)

    def end_of_epoch(self, position: Position, world_size: int) -> int:
        """The number behind the last sample that a run from a position reads.

        That is the end of the epoch it is in. Where fewer samples than ranks are left of that, as
        after going on with more ranks, the next epoch is read with them.
        """
        size = len(self.order)
        end = (position.number // size + 1) * size
        while end - position.read < world_size:
            end += size
        return end

    def locate(self, numbers: Integers) -> tuple[Integers, Integers]:
        """The samples at places of the endless row, and how often each was read before."""
        return self.order.locate(numbers), self.order.epochs(numbers)

    def _block(self, numbers: list[Integers], positions: list[Position]) -> Block:
        bounds = np.cumsum([0, *map(len, numbers)]).tolist()
        rows = self.samples.take(*self.locate(np.concatenate(numbers)))
        return Block(self.collator.prepare(rows), tuple(bounds), tuple(positions))

    def collate(self, block: Block) -> Iterator[tuple[Batch, Position]]:
        """Each batch of a block, and how far everybody has read when it is done."""
        for place, position in enumerate(block.positions):
            begin, end = block.bounds[place : place + 2]
            yield self.collator(block.rows[begin:end]), position

    def state_dict(self, position: Position) -> dict[str, Any]:
        """A position as JSON's own types, with what it is a position in."""
        return {
            "version": _STATE_VERSION,
            "samples": self.samples.digest,
            "order": self.order.describe(),
            "number": position.number,
            "taken": [list(of) for of in position.taken],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Position:
        """The position that `state_dict` described.

        Ranks, workers, batch size and collator may be others than they were.

        Raises:
            UserError: it is of other data or of another order.
        """
        expected = self.state_dict(Position(0))
        for what, cure in (
            ("version", "Use the version of corpusmill that wrote it"),
            ("samples", "Read the data that it was made with"),
            ("order", "Give the seed, shuffle, window and lanes that it was made with"),
        ):
            if state.get(what) != expected[what]:
                cause = f"its {what} is {state.get(what)}, here it is {expected[what]}"
                raise UserError("load_state_dict", cause, cure)
        return Position(int(state["number"]), tuple(tuple(of) for of in state["taken"]))


def _plan_pool(pool: Pool, steps: range, rank: int) -> Iterator[Plan]:
    numbers: list[Integers] = []
    positions: list[Position] = []
    for step in steps:
        numbers.append(pool.batch(step, rank))
        positions.append(pool.position_after(step + 1))
        if sum(map(len, numbers)) >= _BLOCK_SAMPLES:
            yield numbers, positions
            numbers, positions = [], []
    if numbers:
        yield numbers, positions
