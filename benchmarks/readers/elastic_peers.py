"""Other libraries' ways to resume within an epoch, each as its documentation shows it.

All of them read the numbers 0 to n - 1, so that what is lost and repeated can be counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import DataLoader, DistributedSampler

from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches
from corpusmill.reading.rows import Batch, Collator, Integers, Rows, Values
from corpusmill.reading.torch.dataset import TensorLoader

SHARDS = 24
_SEED = 1


@dataclass(frozen=True)
class Place:
    """Where a rank stands in a run.

    Attributes:
        samples: the numbers to read.
        work: the folder that the library's own format was written to.
        rank: the rank.
        ranks: the processes that train together.
        workers: the processes that read for each rank.
        batch_size: samples of a rank in a step.
        states: what the ranks of the phase before saved; empty in the first phase.
        read_before: the samples that all ranks together have read in all phases before.
    """

    samples: int
    work: Path
    rank: int
    ranks: int
    workers: int
    batch_size: int
    states: Sequence[Any] = ()
    read_before: int = 0

    @property
    def own_state(self) -> Any:
        """The state that the rank of the same number saved, or if there was none, another's."""
        return self.states[self.rank % len(self.states)] if self.states else None


class OpenPeer(NamedTuple):
    """A reader of one rank, at its place.

    Attributes:
        batches: the rest of the epoch; each batch is a list of numbers.
        state: returns the state after the batches that were taken.
    """

    batches: Iterable[Sequence[int]]
    state: Callable[[], Any]


def corpusmill_loader(place: Place) -> OpenPeer:
    """Our loader; all ranks load one state."""
    samples = Numbers((place.samples // SHARDS,) * SHARDS + (place.samples % SHARDS,))
    order = Order(samples.shard_sizes, _SEED)
    batches = Batches(samples, order, FixedBatches(place.batch_size), NumbersOfRows())
    loader = TensorLoader(batches, place.rank, place.ranks)
    if place.states:
        loader.load_state_dict(place.states[0])
    return OpenPeer((batch["number"].tolist() for batch in loader), loader.state_dict)


def distributed_sampler(place: Place) -> OpenPeer:
    """PyTorch alone: there is no state, so that steps are skipped, as by `skip_first_batches`."""
    numbers: Any = range(place.samples)
    sampler = DistributedSampler[int](numbers, place.ranks, place.rank, seed=_SEED)
    loader = DataLoader[int](
        numbers,
        place.batch_size,
        sampler=sampler,
        num_workers=place.workers,
        collate_fn=list,
    )
    skipped = place.read_before // (place.ranks * place.batch_size)
    return OpenPeer(islice(loader, skipped, None), lambda: None)


def stateful_data_loader(place: Place) -> OpenPeer:
    """torchdata: StatefulDataLoader with its own sampler; each rank has a state."""
    stateful = import_module("torchdata.stateful_dataloader")
    sampler = import_module("torchdata.stateful_dataloader.sampler")
    loader = stateful.StatefulDataLoader(
        range(place.samples),
        place.batch_size,
        sampler=sampler.StatefulDistributedSampler(
            range(place.samples), place.ranks, place.rank, seed=_SEED
        ),
        num_workers=place.workers,
        collate_fn=list,
    )
    if place.states:
        loader.load_state_dict(place.own_state)
    return OpenPeer(loader, loader.state_dict)


def datasets_streaming(place: Place) -> OpenPeer:
    """datasets: a stream split by nodes, in torchdata's loader; without a buffer to shuffle in."""
    datasets, distributed = import_module("datasets"), import_module("datasets.distributed")
    stateful = import_module("torchdata.stateful_dataloader")
    data = datasets.Dataset.from_dict({"n": list(range(place.samples))})
    stream = distributed.split_dataset_by_node(
        data.to_iterable_dataset(num_shards=SHARDS), place.rank, place.ranks
    )
    loader = stateful.StatefulDataLoader(
        stream, place.batch_size, num_workers=place.workers, collate_fn=_numbers
    )
    if place.states:
        loader.load_state_dict(place.own_state)
    return OpenPeer(loader, loader.state_dict)


def write_mds(samples: int, folder: Path) -> None:
    """Write MosaicML's shards of a thousand bytes."""
    streaming = import_module("streaming")
    with streaming.MDSWriter(out=str(folder), columns={"n": "int"}, size_limit=1024) as out:
        for number in range(samples):
            out.write({"n": number})


def write_chunks(samples: int, folder: Path) -> None:
    """Write LitData's chunks."""
    writer_class = import_module("litdata.streaming.writer").BinaryWriter
    writer = writer_class(str(folder), chunk_size=samples // SHARDS)
    for number in range(samples):
        writer[number] = number
    writer.done()
    writer.merge()


def mosaic(place: Place) -> OpenPeer:
    """MosaicML streaming: StreamingDataLoader; the state of rank 0 is for all ranks."""
    streaming = import_module("streaming")
    loaded = streaming.StreamingDataset(
        local=str(place.work), shuffle=True, shuffle_seed=_SEED, batch_size=place.batch_size
    )
    loader = streaming.StreamingDataLoader(
        loaded, batch_size=place.batch_size, num_workers=place.workers, collate_fn=_as_mapping
    )
    if place.states:
        loader.load_state_dict(place.states[0])
    return OpenPeer((batch["n"] for batch in loader), loader.state_dict)


def lit_data(place: Place) -> OpenPeer:
    """LitData: StreamingDataLoader; the state of rank 0 is for all ranks."""
    litdata = import_module("litdata")
    loaded = litdata.StreamingDataset(str(place.work), shuffle=True, seed=_SEED)
    loader = litdata.StreamingDataLoader(
        loaded, batch_size=place.batch_size, num_workers=place.workers, collate_fn=list
    )
    if place.states:
        loader.load_state_dict(place.states[0])
    return OpenPeer(loader, loader.state_dict)


def grain_shards(place: Place) -> OpenPeer:
    """Grain: a shard of a shuffled MapDataset for each rank; each has a state."""
    grain = import_module("grain")
    numbers = grain.MapDataset.range(place.samples).shuffle(seed=_SEED)
    own = numbers[place.rank :: place.ranks].batch(place.batch_size, batch_fn=list)
    iterator = iter(own.to_iter_dataset())
    if place.states:
        iterator.set_state(place.own_state)
    return OpenPeer(iterator, iterator.get_state)


def grain_elastic(place: Place) -> OpenPeer:
    """Grain's experimental ElasticIterator; the state of any rank is for all ranks."""
    grain = import_module("grain")
    numbers = grain.MapDataset.range(place.samples).shuffle(seed=_SEED)
    elastic = grain.experimental.ElasticIterator(
        numbers,
        place.ranks * place.batch_size,
        grain.sharding.ShardOptions(place.rank, place.ranks),
    )
    iterator = iter(elastic)
    if place.states:
        iterator.set_state(place.states[0])
    return OpenPeer((batch.tolist() for batch in iterator), iterator.get_state)


class Peer(NamedTuple):
    """A way to resume.

    Attributes:
        package: the distribution whose version is shown.
        open: opens a rank's reader.
        write: writes the numbers into an empty folder, where a library reads its own format alone.
        has_workers: whether `workers` are processes; ours and Grain read in threads here.
    """

    package: str
    open: Callable[[Place], OpenPeer]
    write: Callable[[int, Path], None] = lambda _samples, _folder: None
    has_workers: bool = True


PEERS: Mapping[str, Peer] = {
    "ours, TensorLoader": Peer("corpusmill", corpusmill_loader, has_workers=False),
    "DistributedSampler, steps skipped": Peer("torch", distributed_sampler),
    "StatefulDataLoader": Peer("torchdata", stateful_data_loader),
    "datasets, streaming": Peer("datasets", datasets_streaming),
    "MosaicML streaming": Peer("mosaicml-streaming", mosaic, write_mds),
    "LitData": Peer("litdata", lit_data, write_chunks),
    "Grain, a shard for each rank": Peer("grain", grain_shards, has_workers=False),
    "Grain, ElasticIterator": Peer("grain", grain_elastic, has_workers=False),
}


@dataclass(frozen=True)
class Numbers(Samples):
    """Samples that are their own numbers.

    Attributes:
        shard_sizes: as in `Samples`.
        longest: likewise.
        digest: likewise.
    """

    shard_sizes: tuple[int, ...]
    longest: int = 1
    digest: str = "numbers"

    def lengths(self, samples: Integers) -> Integers:
        """Return that all are of one token."""
        return np.ones_like(samples)

    def _read(self, samples: Integers, epochs: Integers) -> Mapping[str, Values]:  # noqa: ARG002
        return {"number": samples}


class NumbersOfRows(Collator):
    """A collator that names the samples."""

    def __call__(self, rows: Rows) -> Batch:
        """Return `number`, int64[rows]."""
        return {"number": rows.samples}


def _numbers(examples: Sequence[Mapping[str, int]]) -> list[int]:
    return [example["n"] for example in examples]


def _as_mapping(examples: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    return {"n": _numbers(examples)}
