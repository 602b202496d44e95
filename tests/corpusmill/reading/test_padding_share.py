import numpy as np
import pytest
import torch

from corpusmill.reading.collate.collators import Padding
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches, PaddingShare, padding_share
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

SAMPLES = NumberedSamples((100, 57), longest=30)
ORDER = Order(SAMPLES.shard_sizes)


def test_the_share_counted_in_training_is_that_of_all_masks() -> None:
    counted = PaddingShare()
    assert counted.share == 0
    counted.add(np.array([[1, 1, 0, 0], [1, 1, 1, 1]]))
    assert counted.share == 0.25
    counted.add(torch.ones(4, 2, dtype=torch.int64))
    assert counted.share == pytest.approx(2 / 16)


@pytest.mark.parametrize("multiple", [None, 8])
@pytest.mark.parametrize("batching", [FixedBatches(9), LengthBatches(SAMPLES, ORDER, 9)])
def test_the_expected_share_is_that_of_the_batches_that_are_read(
    batching: FixedBatches | LengthBatches, multiple: int | None
) -> None:
    batches = Batches(SAMPLES, ORDER, batching, AsTheyAre())
    padding = Padding(pad_to_multiple_of=multiple)
    counted = PaddingShare()
    for step in read_epoch(batches, Position(157), 3):
        for batch in step.batches:
            width = padding.width(batch["lengths"])
            counted.add(np.arange(width) < batch["lengths"][:, None])
    share = padding_share(batches, padding, world_size=3, begin=Position(157))
    assert share == pytest.approx(counted.share)


def test_a_part_of_an_epoch_tells_about_the_whole() -> None:
    samples = NumberedSamples((200_000,), longest=30)
    order = Order((200_000,))
    batches = Batches(samples, order, FixedBatches(32), AsTheyAre())
    part = padding_share(batches, most_samples=20_000)
    assert part == pytest.approx(padding_share(batches), abs=0.01)
    assert part != padding_share(batches)
