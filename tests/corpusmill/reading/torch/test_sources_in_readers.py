"""Whatever reads a data set of two sources, each batch has rows of both, in proportion."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader
from corpusmill.reading.order.schedule import FixedBatches
from corpusmill.reading.torch.dataset import EpochBatchSampler, MapDataset, TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples

FIRST, SECOND = 140_000, 222_000
SIZES = (FIRST // 4,) * 4 + (SECOND // 6,) * 6


def _map_style(batches: Batches) -> Iterator[Any]:
    dataset = MapDataset(batches.samples, batches.collator)
    sampler = EpochBatchSampler(batches, 0, 1)
    return iter(DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate))


READERS: dict[str, Callable[[Batches], Iterator[Any]]] = {
    "Loader": lambda batches: iter(Loader(batches)),
    "TensorLoader": lambda batches: iter(TensorLoader(batches, rank=0, world_size=1)),
    "StreamingDataset": lambda batches: iter(StreamingDataset(batches, 0, 1)),
    "MapDataset": _map_style,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_batch_has_rows_of_both_sources(reader: Callable[[Batches], Iterator[Any]]) -> None:
    samples = NumberedSamples(SIZES, shard_parts=(0,) * 4 + (1,) * 6)
    batches = Batches(samples, samples.order(seed=3), FixedBatches(256), AsTheyAre())
    read = [np.asarray(batch["samples"]) for batch in islice(reader(batches), 140)]
    shares = [(batch < FIRST).mean() for batch in read]
    assert 0.2 < min(shares) < max(shares) < 0.6
    # A tenth of the epoch.
    assert abs(np.mean(shares) - FIRST / (FIRST + SECOND)) < 0.01
