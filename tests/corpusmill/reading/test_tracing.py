"""Steps of training and what they read, compared with what loaders read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.tracing import Reading, Run, run_of
from tests.tools.numbered_samples import NumberedSamples, read_by, read_epoch

shards = st.lists(st.integers(1, 60), min_size=1, max_size=4).map(tuple)


class Backwards(Ordering):
    """An order of another kind."""

    seed = 3

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def locate(self, numbers: Any) -> Any:
        return self._size - 1 - np.asarray(numbers) % self._size

    def epochs(self, numbers: Any) -> Any:
        return np.asarray(numbers) // self._size

    def describe(self, end: int | None = None) -> dict[str, Any]:
        return {"kind": "backwards", "end": end}


@settings(deadline=None)
@given(
    shards, st.integers(1, 9), st.integers(1, 4), st.booleans(), st.integers(0, 3), st.booleans()
)
def test_a_step_is_what_the_ranks_read_and_each_sample_is_read_when_it_says(
    sizes: tuple[int, ...], batch_size: int, world_size: int, drop: bool, epoch: int, other: bool
) -> None:
    samples = NumberedSamples(sizes)
    order: Ordering = Backwards(len(samples)) if other else Order(sizes, 5, window=20, lanes=2)
    run = Run(order, FixedBatches(batch_size, drop), world_size)
    batches = read_by(lambda *_: FixedBatches(batch_size, drop), samples, order)
    if len(samples) < world_size or (drop and len(samples) < world_size * batch_size):
        return
    steps = read_epoch(batches, Position(epoch * len(samples)), world_size)
    expected = []
    for number, step in enumerate(steps):
        traced = run.step(epoch, number)
        assert tuple(batch.tolist() for batch in traced.batches) == step.samples
        expected += [
            Reading(sample, epoch, number, rank)
            for rank, batch in enumerate(step.samples)
            for sample in batch
        ]
    found = list(run.readings(np.arange(len(samples)), range(epoch, epoch + 1)))
    assert sorted(found, key=_by_place) == sorted(expected, key=_by_place)
    with pytest.raises(UserError, match=f"has {len(steps)} steps?"):
        run.step(epoch, len(steps))


def _by_place(reading: Reading) -> tuple[int, int, int]:
    return reading.step, reading.rank, reading.sample


@settings(deadline=None)
@given(
    shards, st.integers(1, 9), st.integers(1, 4), st.integers(0, 2), st.booleans(), st.booleans()
)
def test_the_step_before_a_state_is_the_one_that_was_read_last(
    sizes: tuple[int, ...],
    batch_size: int,
    world_size: int,
    epoch: int,
    is_usual: bool,
    drop_last: bool,
) -> None:
    samples = NumberedSamples(sizes, shard_parts=tuple(place % 2 for place in range(len(sizes))))
    if len(samples) < world_size:
        return
    order = samples.order(9, window=7) if is_usual else Order(sizes, 9, window=7)
    batches = read_by(lambda *_: FixedBatches(batch_size, drop_last), samples, order)
    for step in read_epoch(batches, Position(epoch * len(samples)), world_size):
        read = (batch_size, world_size, drop_last)
        run = run_of(samples, batches.state_dict(step.position), *read)
        traced = run.step_before(batches.state_dict(step.position))
        assert traced.epoch == epoch
        assert tuple(batch.tolist() for batch in traced.batches) == step.samples


def test_batches_by_length_have_steps_too() -> None:
    samples = NumberedSamples((50, 31), longest=9)

    def by_length(samples: NumberedSamples, order: Ordering) -> LengthBatches:
        return LengthBatches(samples, order, 4, pool_size=24)

    batches = read_by(by_length, samples)
    run = Run(batches.order, batches.batching, 2)
    for number, step in enumerate(read_epoch(batches, Position(0), 2)):
        assert tuple(batch.tolist() for batch in run.step(0, number).batches) == step.samples
    with pytest.raises(UserError, match="depends on all samples"):
        next(run.readings(np.array([3]), range(1)))


SAMPLES = NumberedSamples((20,))


def _state(**changes: Any) -> dict[str, Any]:
    state = read_by(lambda *_: FixedBatches(4), SAMPLES).state_dict(Position(8))
    return {**state, **changes}


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: run_of(SAMPLES, _state(samples="x"), 4), "belongs to the samples x"),
    (lambda: run_of(SAMPLES, _state(order={"kind": 1}), 4), "its order is"),
    (lambda: run_of(SAMPLES, _state(order={"window": "7"}), 4), "its order is"),
    (lambda: run_of(SAMPLES, _state(order=None), 4), "its order is None"),
    (lambda: _run().step_before(_state(number=0)), "before the first step"),
    (lambda: _run().step_before(_state(taken=[[1, 2]])), "batches by length"),
    (lambda: _run().step_before(_state(number=7)), "no step ends where it was saved"),
    (lambda: _run().step_before(_state(number="x")), "its number is x"),
    (lambda: _run().step_before(_state(taken=5)), "and taken is 5"),
    (lambda: _run().step_before(_state(number=-4)), "its number is -4"),
    (lambda: _run().step_before(_state(number=2**63 - 1)), "its number is 9223372036854775807"),
    (lambda: _run().step(-1, 0), "epoch"),
    (lambda: _run().step(0, -1), "step"),
    (lambda: Run(Order((4,)), FixedBatches(1), 0), "world_size"),
]


def test_mistakes_are_explained() -> None:
    for call, message in MISTAKES:
        with pytest.raises(UserError, match=message):
            call()


def _run() -> Run:
    return Run(Order((20,)), FixedBatches(4))
