"""Our readers, for `benchmarks.readers`."""

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch.utils.data import DataLoader

from benchmarks.readers.data_sets import Source
from benchmarks.readers.peers import Reader, TensorBatch
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.torch.dataset import MapDataset, TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset


def _batches(source: Source) -> Batches:
    samples = source.samples
    order = Order(samples.shard_sizes, seed=1)
    return Batches(samples, order, FixedBatches(source.batch_size), source.collator)


def map_style(source: Source, workers: int) -> Iterable[TensorBatch]:
    """A map-style dataset in the order of DataLoader's own sampler."""
    dataset = MapDataset(source.samples, source.collator)
    return DataLoader(
        dataset,
        source.batch_size,
        shuffle=True,
        num_workers=workers,
        collate_fn=dataset.collate,
    )


def streaming(source: Source, workers: int) -> Iterable[TensorBatch]:
    """A stream of complete batches through DataLoader."""
    return DataLoader(StreamingDataset(_batches(source)), batch_size=None, num_workers=workers)


def loader(source: Source, _workers: int = 0) -> TensorLoader:
    """TensorLoader, which replaces DataLoader, and reads in a thread."""
    return TensorLoader(_batches(source))


def plain_loop(source: Source, _workers: int = 0) -> Iterator[TensorBatch]:
    """The work of every reader in a plain loop, without threads, processes and a state."""
    batches = _batches(source)
    for block in batches.blocks(Position(0)):
        for batch, _ in batches.collate(block):
            yield {name: torch.from_numpy(array) for name, array in batch.items()}


OURS: Mapping[str, Reader] = {
    "ours, map style": map_style,
    "ours, streaming": streaming,
    "ours, loader": loader,
    "ours, plain loop": plain_loop,
}
WITHOUT_WORKERS = {"ours, loader", "ours, plain loop"}
