"""Batches of samples of about the same length, so that little of them is padding.

Samples are taken in pools of many consecutive ones, sorted by their lengths within the pool, and
cut into batches of one size or of so many tokens (`corpusmill.reading.order.length_arrangement`).
The larger the pool, the less padding; from some hundred batches on there is little left to gain.
"""

from dataclasses import dataclass, field

import numpy as np

from corpusmill.arrays.randomness import POOLED, derive_key
from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.length_arrangement import Arrangement, Rules, arrange
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Integers


@dataclass(frozen=True)
class LengthBatches:
    """Batches by length, of `batch_size` samples or of up to `max_tokens` tokens.

    Each rank has the same number of batches, all samples are read once an epoch, and a batch
    depends on the seed, the epoch and the samples' numbers alone. A run may stop within a pool and
    go on with other ranks, batch sizes and budgets: what is left of the pool is arranged anew.

    The lengths of all ranks' samples are looked up by each of them: with data elsewhere each
    machine unpacks all shards, not only those of its own lanes.

    Attributes:
        samples: what is read.
        order: of the samples; also the seed of what is drawn.
        batch_size: samples of a rank in a step; with `max_tokens` the most of them. Without
            `max_tokens` one step of what is left of a pool, or of an epoch, has fewer or more, as
            the last one of FixedBatches.
        max_tokens: most tokens of a batch, padding included: its rows times its longest row. Below
            twice the longest sample, or with a batch_size of 1, where nearly all batches have one
            sample, up to world_size - 1 samples at an epoch's end may fit in no step; they are left
            out.
        pad_to_multiple_of: what the collator pads lengths to.
        pool_size: samples of a pool, made a multiple of what all ranks read in a step. With a
            larger one there is less padding, and samples of one length come together more often.
    """

    samples: Samples = field(repr=False)
    order: Ordering
    batch_size: int | None = None
    max_tokens: int | None = None
    pad_to_multiple_of: int = 1
    pool_size: int = 2**14

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: no batch can be made, or the longest sample fits in none.
        """
        if self.batch_size is None and self.max_tokens is None:
            cause = "nothing says how large batches are"
            raise UserError("batch_size=None", cause, "Give batch_size or max_tokens")
        for name in ("batch_size", "pad_to_multiple_of", "pool_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name}={value}", "the value is out of range", "Give 1 or more")
        multiple = self.pad_to_multiple_of
        longest = -(-self.samples.longest // multiple) * multiple
        if self.max_tokens is not None and longest > self.max_tokens:
            cause = f"the longest sample has {longest} tokens when it is padded"
            raise UserError(f"max_tokens={self.max_tokens}", cause, f"Give {longest} or more")

    def next_pool(self, position: Position, end: int, world_size: int) -> "LengthPool | None":
        """See Batching.

        Raises:
            UserError: the position is of other samples or of another order, or a sample is longer
                than the data set says.
        """
        rules = Rules(
            self.batch_size or 0, self.max_tokens or 0, self.pad_to_multiple_of, world_size
        )
        waiting, behind = np.empty(0, np.int64), position.number
        for turn, (added, *before, steps, read) in enumerate(position.taken):
            waiting = np.concatenate([waiting, np.arange(behind, behind + added)])
            behind += added
            arrangement = self._arrange(waiting, Rules(*before), position.number, turn)
            if not steps <= arrangement.steps or arrangement.read(steps) != read:
                cause = "it is within a pool of other samples, or of another order"
                raise UserError("load_state_dict", cause, "Read the data that it was made with")
            last = turn == len(position.taken) - 1
            if last and Rules(*before) == rules and steps < arrangement.steps:
                earlier = Position(position.number, position.taken[:turn])
                return LengthPool(arrangement, rules, earlier, added, behind, end, steps)
            waiting = arrangement.left(steps)
        added = self._add(len(waiting), end - behind, world_size)
        if len(waiting) + added < world_size:
            return None
        waiting = np.concatenate([waiting, np.arange(behind, behind + added)])
        arrangement = self._arrange(waiting, rules, position.number, len(position.taken))
        return LengthPool(arrangement, rules, position, added, behind + added, end)

    def _add(self, waiting: int, unread: int, world_size: int) -> int:
        """How many of the unread samples join those that wait since their pool was arranged."""
        if waiting >= world_size:
            # Too few to be read on their own are read now.
            return unread if unread < world_size else 0
        step = world_size * (1 if self.max_tokens else self.batch_size or 1)
        size = max(1, self.pool_size // step) * step
        # So does less than half a pool at the end.
        last = waiting + unread < size + max(size // 2, world_size)
        return unread if last else size - waiting

    def _arrange(self, numbers: Integers, rules: Rules, first: int, turn: int) -> Arrangement:
        lengths = self.samples.lengths(self.order.locate(numbers))
        if lengths.max() > self.samples.longest:
            cause = (
                f"a sample has {lengths.max()} tokens, and {self.samples.longest} are said to be"
            )
            cause += " the most"
            raise UserError("samples", cause, "Copy or build the data set again")
        key = derive_key(np.uint64(self.order.seed), first, turn, POOLED)
        return arrange(numbers, lengths, rules, np.uint64(key))


@dataclass(frozen=True)
class LengthPool:
    """What is left of a pool; see Pool.

    Attributes:
        arrangement: of all of its steps.
        rules: that it was made by.
        begun: where it was arranged.
        added: samples that were not in the pool before.
        behind: the number behind its last sample.
        end: the number behind the epoch's last sample.
        done: steps that were done before.
    """

    arrangement: Arrangement
    rules: Rules
    begun: Position
    added: int
    behind: int
    end: int
    done: int = 0

    @property
    def steps(self) -> int:
        """See Pool."""
        return self.arrangement.steps - self.done

    def batch(self, step: int, rank: int) -> Integers:
        """See Pool."""
        return self.arrangement.batch(self.done + step, rank)

    def position_after(self, steps: int) -> Position:
        """See Pool."""
        done = self.done + steps
        if not done:
            return self.begun
        read = self.arrangement.read(done)
        ends = done == self.arrangement.steps and self.behind == self.end
        if ends or read == len(self.arrangement.numbers):
            return Position(self.behind)
        taken = (self.added, *self.rules, done, read)
        return Position(self.begun.number, (*self.begun.taken, taken))
