"""Batches by length and mixtures through PyTorch's DataLoader and our own loader."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from torch.utils.data import DataLoader

from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.mixture import mix
from corpusmill.reading.torch.dataset import TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples

SOURCES = [NumberedSamples((900, 300), 40), NumberedSamples((500,), 40, seed=1, digest="other")]


def mixed(**options: Any) -> Batches:
    """Return batches of 1000 samples of one source and 500 of another per epoch."""
    samples, order = mix(SOURCES, [2, 1], seed=4)
    return Batches(samples, order, LengthBatches(samples, order, **options), AsTheyAre())


def stream(**options: Any) -> StreamingDataset:
    return StreamingDataset(mixed(**options))


def samples_of(batches: Iterable[Any]) -> list[list[int]]:
    return [batch["samples"].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_resumes_within_a_pool(workers: int) -> None:
    whole = samples_of(DataLoader(stream(max_tokens=400), batch_size=None))
    state = json.loads(json.dumps(stream(max_tokens=400).state_after(20)))
    assert state["taken"]
    resumed = stream(max_tokens=400)
    resumed.load_state_dict(state)
    loader = DataLoader(resumed, batch_size=None, num_workers=workers)
    assert samples_of(loader) == whole[20:]


def test_a_loader_resumes_within_a_pool_with_other_batches() -> None:
    first = TensorLoader(mixed(max_tokens=400))
    results = []
    for batch in first:
        results += batch["samples"].tolist()
        if len(results) > 300:
            break
    second = TensorLoader(mixed(batch_size=16))
    second.load_state_dict(first.state_dict())
    for of_batch in samples_of(second):
        results += of_batch
    assert len(results) == 1500
    assert len(set(results)) == 1500
