"""The guarantees of a run, however it is stopped and resumed."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.mixture import JoinedSamples, mix
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.schedule import Batching, FixedBatches, Position
from corpusmill.reading.order.stages import Stage
from tests.tools.builders import seeds
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

_LONGEST = 12


@dataclass(frozen=True)
class Leg:
    """An uninterrupted part of a run."""

    world_size: int
    workers: tuple[int, ...]
    batch_size: int | None
    max_tokens: int | None
    pad_to_multiple_of: int
    pool_size: int
    steps: int


@dataclass(frozen=True)
class Data:
    """The samples and their order."""

    samples: NumberedSamples | JoinedSamples
    order: Ordering

    def batches(self, leg: Leg, by_length: bool) -> Batches:
        return Batches(self.samples, self.order, self._batching(leg, by_length), AsTheyAre())

    def _batching(self, leg: Leg, by_length: bool) -> Batching:
        if not by_length:
            return FixedBatches(leg.batch_size or 3)
        rule = (leg.batch_size, leg.max_tokens, leg.pad_to_multiple_of, leg.pool_size)
        return LengthBatches(self.samples, self.order, *rule)


shards = st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(sum).map(tuple)


@st.composite
def single(draw: st.DrawFn) -> Data:
    samples = NumberedSamples(draw(shards), _LONGEST, draw(st.integers(0, 3)))
    rule = draw(st.tuples(seeds, st.booleans(), st.integers(1, 400), st.integers(1, 9)))
    parts = tuple(draw(st.integers(0, 2)) for _ in samples.shard_sizes)
    return Data(samples, Order(samples.shard_sizes, *rule, parts, draw(st.integers(1, 4))))


@st.composite
def mixed(draw: st.DrawFn) -> Data:
    sources = [
        NumberedSamples(sizes, _LONGEST, seed, str(seed))
        for seed, sizes in enumerate(draw(st.lists(shards, min_size=1, max_size=3)))
    ]
    proportions = [2 * len(source) / (1 + place) for place, source in enumerate(sources)]
    sizes = [len(source) for source in sources]
    epoch_sizes: list[Any] = ["first_exhausted", "all_exhausted", 97]
    epoch_size = draw(st.sampled_from(epoch_sizes))
    assume(epoch_size == "all_exhausted" or 2 < min(sizes) > sum(sizes) / 20)
    seed, shuffle = draw(seeds), draw(st.booleans())
    samples, order = mix(sources, proportions, seed=seed, shuffle=shuffle, epoch_size=epoch_size)
    return Data(samples, order)


@st.composite
def legs(draw: st.DrawFn) -> Leg:
    batch_size = draw(st.none() | st.integers(1, 20))
    budget: st.SearchStrategy[int | None] = st.integers(2 * _LONGEST, 100)
    if batch_size is not None:
        budget = st.none() if batch_size == 1 else st.none() | budget
    return Leg(
        draw(st.integers(1, 9)),
        tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))),
        batch_size,
        draw(budget),
        draw(st.sampled_from([1, 4])),
        draw(st.integers(1, 300)),
        draw(st.integers(0, 12)),
    )


@st.composite
def staged(draw: st.DrawFn) -> Data:
    """Return a mixture whose weights change."""
    sources = [NumberedSamples(draw(shards), _LONGEST, seed, str(seed)) for seed in range(3)]
    weights = st.sampled_from([(3, 1, 2), (1, 1, 0), (0, 1, 4)])
    lengths = st.integers(20, 90)
    stages = [
        Stage(draw(weights), draw(lengths), ramp=bool(place) and draw(st.booleans()))
        for place in range(draw(st.integers(1, 4)))
    ]
    epoch_size = draw(st.none() | lengths)
    return Data(*mix(sources, stages, seed=draw(seeds), epoch_size=epoch_size))


kinds = single() | mixed() | staged()
# Where a leg recurs, a run may resume an earlier arrangement.
runs = st.lists(legs(), min_size=1, max_size=3).flatmap(
    lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=6)
)


@settings(max_examples=15, deadline=None)
@given(kinds, runs, st.booleans())
def test_each_sample_is_read_once_per_epoch_whatever_changes(
    data: Data, run: list[Leg], by_length: bool
) -> None:
    position = Position(0)
    reads: list[tuple[int, int]] = []
    for leg in run:
        batches = data.batches(leg, by_length)
        steps = read_epoch(batches, position, leg.world_size, leg.workers)
        for step in steps[: leg.steps]:
            assert min(map(len, step.samples)) >= 1
            reads += step.reads
            position = step.position
        state = json.loads(json.dumps(batches.state_dict(position)))
        assert data.batches(run[0], by_length).load_state_dict(state) == position
        assert position.samples_read == len(reads)
    last = run[-1]
    end = data.batches(last, by_length).end_of_epoch(position, last.world_size)
    for step in read_epoch(data.batches(last, by_length), position, last.world_size):
        reads += step.reads
        position = step.position
    assert position == Position(end)
    numbers = np.arange(end)
    expected = zip(data.order.epochs(numbers), data.order.locate(numbers), strict=True)
    assert sorted(reads) == sorted(expected)


@settings(max_examples=15, deadline=None)
@given(kinds, legs(), st.lists(st.integers(0, 12), max_size=4), st.integers(1, 4), st.booleans())
def test_a_run_resumed_unchanged_reads_the_same(
    data: Data, leg: Leg, stops: list[int], workers: int, by_length: bool
) -> None:
    batches = data.batches(leg, by_length)
    expected = read_epoch(batches, Position(0), leg.world_size)
    position, steps = Position(0), []
    for stop in stops:
        for step in read_epoch(batches, position, leg.world_size, (workers,))[:stop]:
            if step.position.samples_read <= expected[-1].position.samples_read:
                steps.append(step)
            position = step.position
    if position.samples_read < expected[-1].position.samples_read:
        steps += read_epoch(batches, position, leg.world_size, leg.workers)
    for step, of_whole in zip(steps, expected, strict=True):
        assert step.samples == of_whole.samples
        assert step.position == of_whole.position


@settings(max_examples=15, deadline=None)
@given(kinds, legs(), st.integers(_LONGEST, 100))
def test_no_batch_exceeds_its_tokens_or_samples(data: Data, leg: Leg, max_tokens: int) -> None:
    leg = replace(leg, max_tokens=max_tokens)
    for step in read_epoch(data.batches(leg, True), Position(0), leg.world_size):
        for batch in step.batches:
            multiple = leg.pad_to_multiple_of
            width = -(-int(batch["lengths"].max()) // multiple) * multiple
            assert width * len(batch["lengths"]) <= max_tokens
            assert len(batch["lengths"]) <= (leg.batch_size or max_tokens)
