"""One call from a data set to batches gives the same as its parts."""

from pathlib import Path

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.mixture import mix
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches
from corpusmill.reading.rows import Batch


@pytest.fixture
def data(bert_dynamic: Path, cache_folder: Path) -> DataSet:
    return DataSet(bert_dynamic, cache_folder=cache_folder)


def read(batches: Batches) -> list[Batch]:
    return list(Loader(batches))


def assert_same(actual: Batches, expected: Batches) -> None:
    ours, theirs = read(actual), read(expected)
    assert len(ours) == len(theirs)
    for batch, other in zip(ours, theirs, strict=True):
        assert batch.keys() == other.keys()
        for name, array in batch.items():
            np.testing.assert_array_equal(array, other[name])


def test_batches_of_one_size(data: DataSet) -> None:
    order = Order(data.shard_sizes, 3)
    expected = Batches(data, order, FixedBatches(4), collator_for(data, seed=3))
    assert_same(make_batches(data, 4, seed=3), expected)


def test_batches_by_tokens_are_cut_and_padded_for_the_same_multiple(data: DataSet) -> None:
    order = Order(data.shard_sizes, 3)
    collator = collator_for(data, seed=3, pad_to_multiple_of=8)
    batching = LengthBatches(data, order, None, 1024, 8)
    actual = make_batches(data, max_tokens=1024, seed=3, pad_to_multiple_of=8)
    assert_same(actual, Batches(data, order, batching, collator))
    assert max(batch["input_ids"].size for batch in read(actual)) <= 1024


def test_a_mixture_is_read_in_its_order(data: DataSet) -> None:
    samples, order = mix([data, data], [1, 2])
    with pytest.raises(UserError, match="proportions"):
        make_batches(samples, 4)
    batches = read(make_batches(samples, 4, order=order))
    assert sum(len(batch["input_ids"]) for batch in batches) == len(order)


def test_contradictory_options_are_refused(data: DataSet) -> None:
    with pytest.raises(UserError, match="the size of batches is unknown"):
        make_batches(data)
    with pytest.raises(UserError, match="leave no samples out"):
        make_batches(data, 4, by_length=True, drop_last=True)
