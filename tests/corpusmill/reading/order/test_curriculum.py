import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.order.curriculum import Curriculum, curriculum
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Integers
from corpusmill.reading.token_windows import TokenWindows
from tests.tools.builders import seeds
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

SAMPLES = NumberedSamples((60, 0, 140, 100), 12)

shards = st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(sum).map(tuple)


def epoch_of(order: Curriculum, epoch: int = 0) -> Integers:
    return order.locate(np.arange(epoch * len(order), (epoch + 1) * len(order)))


def divide_by_hand(values: list[float], stages: int | list[float]) -> list[set[int]]:
    """Return the samples of each stage, in plain Python."""
    if isinstance(stages, int):
        ranked = sorted(range(len(values)), key=lambda sample: (values[sample], sample))
        bounds = [len(values) * stage // stages for stage in range(stages + 1)]
        return [set(ranked[begin:end]) for begin, end in pairwise(bounds)]
    place = [sum(value > bound for bound in stages) for value in values]
    return [
        {sample for sample, own in enumerate(place) if own == stage}
        for stage in range(len(stages) + 1)
    ]


@settings(deadline=None)
@given(shards, seeds, st.integers(1, 400), st.booleans(), st.integers(1, 5), st.data())
def test_each_epoch_has_every_sample_once_stage_by_stage(
    sizes: tuple[int, ...], seed: int, window: int, shuffle: bool, stages: int, data: st.DataObject
) -> None:
    samples = NumberedSamples(sizes)
    numbers = st.floats(-5, 5) | st.integers(-3, 3)
    size = len(samples)
    values = data.draw(st.lists(numbers, min_size=size, max_size=size))
    stages = min(stages, size)
    order = curriculum(samples, values, stages, seed=seed, window=window, shuffle=shuffle)
    expected = divide_by_hand(values, stages)
    for epoch in (0, 1, 2**30):
        read = epoch_of(order, epoch).tolist()
        begin = 0
        for stage in expected:
            own = read[begin : begin + len(stage)]
            assert set(own) == stage
            assert shuffle or own == sorted(stage)
            begin += len(stage)
        assert begin == len(read) == size


@settings(deadline=None)
@given(st.lists(st.integers(0, 1500), max_size=50), st.integers(0, 4))
def test_a_number_is_the_same_sample_in_any_company(numbers: list[int], epochs: int) -> None:
    order = curriculum(SAMPLES, "length", [3, 9], seed=5, window=40, epochs=epochs)
    row = np.concatenate([epoch_of(order, epoch) for epoch in range(6)])
    some = np.array(numbers, np.int64)
    assert np.array_equal(order.locate(some), row[some])
    assert np.array_equal(order.epochs(some), some // len(order))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stages": [4, 8]}, [(1, 4), (5, 8), (9, 12)]),
        ({"stages": [8, 4], "descending": True}, [(8, 12), (4, 7), (1, 3)]),
        ({"stages": 1}, [(1, 12)]),
    ],
)
def test_stages_by_length(options: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    order = curriculum(SAMPLES, **options, seed=2)
    lengths = SAMPLES.lengths(epoch_of(order))
    begin = 0
    for low, high in expected:
        size = int(((SAMPLES.all_lengths >= low) & (SAMPLES.all_lengths <= high)).sum())
        stage = lengths[begin : begin + size]
        assert (stage.min(), stage.max()) == (low, high)
        begin += size
    assert begin == len(SAMPLES)


def test_quantiles_from_the_highest_value() -> None:
    values = np.arange(300, dtype=np.uint16)
    read = epoch_of(curriculum(SAMPLES, values, 3, descending=True, seed=1))
    assert [set(read[begin : begin + 100] // 100) for begin in (0, 100, 200)] == [{2}, {1}, {0}]


def test_one_stage_is_the_usual_order_and_so_are_epochs_after_the_last_in_stages() -> None:
    usual = SAMPLES.order(5, window=40)
    numbers = np.arange(4 * len(usual))
    single = curriculum(SAMPLES, "length", 1, seed=5, window=40)
    assert np.array_equal(single.locate(numbers), usual.locate(numbers))
    first = curriculum(SAMPLES, "length", 3, seed=5, window=40, epochs=2)
    read, expected = first.locate(numbers), usual.locate(numbers)
    assert np.array_equal(read[600:], expected[600:])
    assert not np.array_equal(read[300:600], expected[300:600])


def test_stages_are_shuffled_anew_in_each_epoch() -> None:
    order = curriculum(SAMPLES, "length", 3, seed=5, window=1)
    for stage in range(3):
        epochs = [epoch_of(order, epoch)[100 * stage : 100 * (stage + 1)] for epoch in range(4)]
        assert len({epoch.tobytes() for epoch in epochs}) == 4


def test_a_table_has_four_bytes_for_each_sample() -> None:
    order = curriculum(SAMPLES, "length", 3)
    assert order.members.nbytes == 4 * len(SAMPLES)
    copied = pickle.loads(pickle.dumps(order))  # noqa: S301  our own
    assert np.array_equal(epoch_of(copied, 1), epoch_of(order, 1))
    assert copied == order


def batches(**options: Any) -> Batches:
    order = curriculum(SAMPLES, **{"by": "length", "stages": 3, "seed": 1, **options})
    return Batches(SAMPLES, order, FixedBatches(8), AsTheyAre())


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2},
        {"stages": 4},
        {"stages": [4, 8]},
        {"by": np.arange(300)},
        {"descending": True},
        {"window": 7},
        {"epochs": 0},
    ],
)
def test_a_state_belongs_to_its_curriculum(other: dict[str, Any]) -> None:
    state = json.loads(json.dumps(batches().state_dict(Position(44))))
    assert batches().load_state_dict(state) == Position(44)
    with pytest.raises(UserError, match="its order is"):
        batches(**other).load_state_dict(state)


def test_it_may_end_after_an_epoch_that_has_not_been_read() -> None:
    for number in (44, 300, 600):
        state = json.loads(json.dumps(batches().state_dict(Position(number))))
        assert batches(epochs=2).load_state_dict(state) == Position(number)
        back = json.loads(json.dumps(batches(epochs=2).state_dict(Position(number))))
        assert batches().load_state_dict(back) == Position(number)
    with pytest.raises(UserError, match="its order is"):
        batches(epochs=2).load_state_dict(batches().state_dict(Position(601)))


def test_a_curriculum_by_length_needs_no_padding_between_stages() -> None:
    steps = read_epoch(batches(stages=[4, 8]), Position(0), 2)
    longest = [max(int(batch["lengths"].max()) for batch in step.batches) for step in steps]
    assert longest == sorted(longest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "label"}, "by=label: the columns with one number per row are: none"),
        ({"by": [1, 2]}, r"by=array\[2\]: there are 300 samples"),
        ({"by": ["a"] * 300}, "not numbers"),
        ({"by": [np.nan] * 300}, "not numbers"),
        ({"stages": 0}, "stages=0: stages must be positive"),
        ({"stages": 301}, "stage 0 of 301 has none of the 300 samples"),
        ({"stages": []}, "they must rise"),
        ({"stages": [4, 4]}, "they must rise"),
        ({"stages": [8, float("nan")]}, "they must rise"),
        ({"stages": [4, 8], "descending": True}, "they must fall"),
        ({"stages": [4, 12]}, "stage 2 of 3 has none of the 300 samples.*values are 1 to 12"),
        ({"stages": [0, 4]}, "stage 0 of 3 has none"),
        ({"epochs": -1}, "epochs=-1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_mistakes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        curriculum(SAMPLES, **options)


def test_a_column_of_a_data_set_orders_its_rows(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    order = curriculum(data, "next_sentence_label", [0], seed=3)
    read = [
        int(label)
        for batch in Loader(make_batches(data, 16, order=order))
        for label in batch["next_sentence_label"]
    ]
    assert read == sorted(read)
    assert 0 < sum(read) < len(read) == len(data)
    with pytest.raises(UserError, match=r"by=labels: .*: next_sentence_label"):
        curriculum(data, "labels")


def test_a_loader_resumes_with_other_ranks_and_batches(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    order = curriculum(data, "length", 4, seed=3)
    lengths = data.lengths(order.locate(np.arange(len(data))))

    def read(loader: Loader, stop: int | None = None) -> list[int]:
        found: list[int] = []
        for number, batch in enumerate(loader, 1):
            found += batch["attention_mask"].sum(axis=1).tolist()
            if number == stop:
                break
        return found

    first = Loader(make_batches(data, 5, order=order))
    begun = read(first, 7)
    assert begun == lengths[:35].tolist()
    state = json.loads(json.dumps(first.state_dict()))
    rest: list[int] = []
    for rank in range(2):
        loader = Loader(make_batches(data, 3, order=order), rank, 2)
        loader.load_state_dict(state)
        rest += read(loader)
    assert sorted(rest) == sorted(lengths[35:].tolist())


def test_windows_are_ordered_by_an_array(gpt_stream: Path, cache_folder: Path) -> None:
    windows = TokenWindows(DataSet(gpt_stream, cache_folder=cache_folder), 16)
    loss = np.random.default_rng(1).random(len(windows))
    read = loss[epoch_of(curriculum(windows, loss, [0.5]))]
    assert np.array_equal(read <= 0.5, np.sort(read <= 0.5)[::-1])
