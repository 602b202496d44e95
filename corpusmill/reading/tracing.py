"""Which samples a step of training reads, in which steps samples are read, and of which rows.

Both follow from the order alone: nothing is recorded while training.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from corpusmill.errors import UserError, count_things
from corpusmill.knobs import knob
from corpusmill.provenance.store import RowOrigin, Span
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.schedule import Batching, FixedBatches, Pool, Position, list_pools
from corpusmill.reading.rows import Integers, check_epoch, check_minimum, group
from corpusmill.reading.token_packs import TokenPacks
from corpusmill.reading.token_windows import TokenWindows


class StoredRow(NamedTuple):
    """A row of a split, or some tokens of it.

    Attributes:
        data_set: the data set.
        row: number of the row in its split.
        first: place of the first token in the row.
        tokens: their number; None for the whole row.
    """

    data_set: DataSet
    row: int
    first: int = 0
    tokens: int | None = None

    def cut(self, origin: RowOrigin) -> RowOrigin:
        """Return the origin of a row of a stream with the spans that a sample holds of it.

        Where other tokens stand within rows, as with middles that were moved and records that were
        joined, it is not known where; then the whole row is returned.
        """
        manifest = self.data_set.manifest
        objective, is_joined = manifest.objective, manifest.corpus.documents.grouping is not None
        if self.tokens is None or objective.options.get("fim_rate") or is_joined:
            return origin
        before, _ = objective.bounds_of_text or ((), ())
        spans, place, end = [], len(before), self.first + self.tokens
        for span in origin.spans:
            first, stop = max(self.first, place), min(end, place + span.tokens)
            if first < stop:
                spans.append(Span(span.document, span.first_token + first - place, stop - first))
            place += span.tokens
        return replace(origin, spans=tuple(spans))


def stored_rows(samples: Samples, numbers: Integers) -> list[list[StoredRow]]:
    """Return the rows of which samples are made, in their order.

    Each shard is looked at once for all samples.

    Args:
        samples: a data set, windows or packed rows of one, or several data sets read as one.
        numbers: int64[n], those of the samples.
    """
    if isinstance(samples, JoinedSamples):
        rows: dict[int, list[StoredRow]] = {}
        for source, inner, places in group(numbers, np.cumsum([0, *map(len, samples.sources)])):
            rows |= zip(places.tolist(), stored_rows(samples.sources[source], inner), strict=True)
        return [rows[place] for place in range(len(numbers))]
    if isinstance(samples, TokenWindows):
        return _rows_of_windows(samples, numbers)
    if isinstance(samples, TokenPacks):
        return _rows_of_packs(samples, numbers)
    if isinstance(samples, DataSet):
        return [[StoredRow(samples, row)] for row in samples.rows_in_split(numbers).tolist()]
    raise TypeError(f"the rows of {type(samples).__name__} are not known")


def _rows_of_windows(samples: TokenWindows, numbers: Integers) -> list[list[StoredRow]]:
    data_set = samples.data_set
    starts = np.cumsum([0, *(shard.tokens for shard in data_set.shards)], dtype=np.int64)
    firsts = np.cumsum([0, *data_set.shard_sizes], dtype=np.int64)
    begins = samples.find_begins(numbers)
    stops = begins + samples.context_len + 1
    rows_of_windows: list[list[StoredRow]] = [[] for _ in numbers]
    holds = [np.searchsorted(starts, places, side="right") - 1 for places in (begins, stops - 1)]
    held = (range(first, last + 1) for first, last in np.transpose(holds).tolist())
    for shard in sorted(set(chain.from_iterable(held))):
        rows = np.arange(firsts[shard], firsts[shard + 1])
        ends = starts[shard] + np.cumsum([0, *data_set.lengths(rows)], dtype=np.int64)
        first_row = int(data_set.rows_in_split(rows[:1])[0])
        for window in np.flatnonzero((begins < ends[-1]) & (stops > ends[0])).tolist():
            begin, stop = max(begins[window], ends[0]), min(stops[window], ends[-1])
            for row, first, tokens in _cut(ends, int(begin), int(stop)):
                rows_of_windows[window].append(StoredRow(data_set, first_row + row, first, tokens))
    return rows_of_windows


def _rows_of_packs(samples: TokenPacks, numbers: Integers) -> list[list[StoredRow]]:
    data_set = samples.data_set
    return [
        [
            StoredRow(data_set, row, first, tokens)
            for row, (first, tokens) in zip(
                data_set.rows_in_split(pieces[:, 0]).tolist(), pieces[:, 1:].tolist(), strict=True
            )
        ]
        for pieces in samples.find_pieces(numbers)
    ]


def _cut(ends: Integers, begin: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of a stretch of tokens: the row, its first token there, and their number.

    Args:
        ends: int64[rows + 1], where the rows begin, and the last one ends.
        begin: where the stretch begins.
        stop: where it ends.
    """
    while begin < stop:
        row = int(np.searchsorted(ends, begin, side="right")) - 1
        first, end = int(ends[row]), min(stop, int(ends[row + 1]))
        yield row, begin - first, end - begin
        begin = end


_ORDER_VALUES = ("seed", "shuffle", "window", "lanes")


@dataclass(frozen=True)
class Step:
    """A step of training: one batch of each rank.

    Attributes:
        epoch: the epoch.
        number: the number of the step in the epoch, from 0.
        batches: the samples of each rank, int64[n].
    """

    epoch: int
    number: int
    batches: tuple[Integers, ...]


@dataclass(frozen=True)
class Reading:
    """Where and when a sample is read.

    Attributes:
        sample: its number.
        epoch: the epoch.
        step: the number of the step in the epoch, from 0.
        rank: the rank whose batch holds it.
    """

    sample: int
    epoch: int
    step: int
    rank: int


TRACED_NUMBERS = knob("traced_numbers", 2**20, test=30)
"""The numbers of a mixture's order that are looked up at once, to find where samples are."""


@dataclass(frozen=True)
class Run:
    """How a run of training reads its samples.

    Attributes:
        order: the order of the samples.
        batching: how they are divided into batches.
        world_size: the number of ranks.
    """

    order: Ordering
    batching: Batching
    world_size: int = 1

    def __post_init__(self) -> None:
        """Check the number of ranks.

        Raises:
            UserError: it is not positive.
        """
        check_minimum("world_size", self.world_size, 1)

    def step(self, epoch: int, number: int) -> Step:
        """Return a step of an epoch that is read from its beginning with these batches.

        Raises:
            UserError: the epoch has fewer steps.
        """
        check_epoch("epoch", epoch, len(self.order))
        check_minimum("step", number, 0)
        before = 0
        for pool in self._pools(epoch):
            if number < before + pool.steps:
                return self._read(pool, epoch, number - before, number)
            before += pool.steps
        cause = f"epoch {epoch} has {count_things(before, 'step')}"
        raise UserError(f"step={number}", cause, "Give a smaller number; steps count from 0")

    def step_before(self, state: Mapping[str, Any]) -> Step:
        """Return the step that was read last when a loader saved its state.

        Args:
            state: what `state_dict` returned.

        Raises:
            UserError: the state was saved before the first step, or where no step ends, or its
                batches are by length.
        """
        number = Position.from_state(state, len(self.order)).number
        if state.get("taken"):
            cause = "it was saved within a pool of batches by length"
            raise UserError("state", cause, "Give seed, epoch and step instead")
        if not number:
            raise UserError("state", "it was saved before the first step", "Give a later state")
        epoch = (number - 1) // len(self.order)
        before = 0
        for pool in self._pools(epoch):
            if pool.position_after(pool.steps).number >= number:
                for step in range(pool.steps):
                    if pool.position_after(step + 1).number == number:
                        return self._read(pool, epoch, step, before + step)
            before += pool.steps
        raise UserError(
            "state", "no step ends where it was saved", "Give the batch size of the run"
        )

    def readings(self, samples: Integers, epochs: range) -> Iterator[Reading]:
        """Yield when samples are read, by epoch and step.

        Args:
            samples: int64[n], their numbers.
            epochs: the epochs.

        Raises:
            UserError: an epoch is too large, or the batches are by length, whose steps depend on
                all samples around them.
        """
        if not isinstance(self.batching, FixedBatches):
            cause = "a batch by length depends on all samples around it"
            raise UserError("batching", cause, "Give the number of a step instead")
        size = self.world_size * self.batching.batch_size
        steps = self.batching.count_steps(len(self.order), self.world_size)
        for epoch in epochs:
            check_epoch("epoch", epoch, len(self.order))
            numbers = self._numbers_of(samples, epoch)
            located = self.order.locate(numbers).tolist()
            for number, sample in zip(numbers.tolist(), located, strict=True):
                step = (number - epoch * len(self.order)) // size
                if step < steps or not self.batching.drop_last:
                    yield Reading(sample, epoch, min(step, steps - 1), number % self.world_size)

    def _numbers_of(self, samples: Integers, epoch: int) -> Integers:
        """Return the numbers in an epoch at which samples are read, ascending."""
        size = len(self.order)
        if isinstance(self.order, Order):
            return np.sort(epoch * size + self.order.find(samples, epoch))
        parts, end = [], (epoch + 1) * size
        for begin in range(epoch * size, end, TRACED_NUMBERS):
            numbers = np.arange(begin, min(begin + TRACED_NUMBERS, end))
            parts.append(numbers[np.isin(self.order.locate(numbers), samples)])
        return np.concatenate(parts)

    def _pools(self, epoch: int) -> Iterator[Pool]:
        begin, end = epoch * len(self.order), (epoch + 1) * len(self.order)
        return list_pools(self.batching, Position(begin), end, self.world_size)

    def _read(self, pool: Pool, epoch: int, step: int, number: int) -> Step:
        batches = (pool.batch(step, rank) for rank in range(self.world_size))
        return Step(epoch, number, tuple(map(self.order.locate, batches)))


def run_of(
    samples: Samples,
    state: Mapping[str, Any],
    batch_size: int,
    world_size: int = 1,
    drop_last: bool = False,
) -> Run:
    """Return how a run read its samples, from the state that its loader saved.

    Args:
        samples: what it read.
        state: what `state_dict` returned.
        batch_size: samples of a rank in a step.
        world_size: the number of ranks.
        drop_last: whether it left out samples that did not fill a whole step at an epoch's end.

    Raises:
        UserError: the state belongs to other samples, or to an order of another kind.
    """
    if state.get("samples") != samples.digest:
        cause = f"it belongs to the samples {state.get('samples')}, these are {samples.digest}"
        raise UserError("state", cause, "Give the data set that was read")
    described = state.get("order")
    known = described if isinstance(described, Mapping) else {}
    values = {name: known[name] for name in _ORDER_VALUES if isinstance(known.get(name), int)}
    for order in (samples.order(**values), Order(samples.shard_sizes, **values)):
        if order.describe() == described:
            return Run(order, FixedBatches(batch_size, drop_last), world_size)
    cause = f"its order is {described}"
    cure = "Only the usual order of a single data set can be told from a state"
    raise UserError("state", cause, cure)
