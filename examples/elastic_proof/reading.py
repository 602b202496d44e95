"""The three ways to read, behind one interface, and batches whose rows can be told apart."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from corpusmill import (
    Batches,
    DataSet,
    EpochBatchSampler,
    MapDataset,
    StreamingDataset,
    TensorLoader,
    make_batches,
)
from corpusmill.extending import Batch, Collator, Rows, Samples

_SEED = 1


@dataclass(frozen=True)
class Division:
    """How a batch is divided.

    Attributes:
        ranks: the processes that train.
        workers: DataLoader's processes for each of them; our loader has none.
        batch_size: rows of a rank in a step.
    """

    ranks: int
    workers: int
    batch_size: int


@dataclass(frozen=True)
class NumberedRows(Collator):
    """A collator that also names the rows of a batch, by sample and epoch.

    Attributes:
        collator: the collator of the data set.
    """

    collator: Collator

    def prepare(self, rows: Rows) -> Rows:
        """Mask rows as the collator does."""
        return self.collator.prepare(rows)

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch, with `sample` and `epoch`, int64[rows]."""
        return self.collator(rows) | {"sample": rows.samples, "epoch": rows.epochs}


def is_causal(samples: Samples) -> bool:
    """Return whether a model of these samples predicts the next token, or else masked ones."""
    return samples.manifest.objective.name == "gpt"


def open_batches(folder: Path, cache_folder: Path, batch_size: int) -> Batches:
    """Return the batches of a data set.

    All rows have one width, so that a row is the same tensor in any batch.
    """
    samples = DataSet(folder, cache_folder=cache_folder)
    options: dict[str, Any] = {"predicted": "targets"} if is_causal(samples) else {}
    batches = make_batches(samples, batch_size, seed=_SEED, padding="max_length", **options)
    numbered = NumberedRows(batches.collator)
    return Batches(samples, batches.order, batches.batching, numbered)


def warm_up(batches: Batches) -> None:
    """Unpack shards and load compiled kernels, so that forks of this process need not."""
    numbers = np.arange(len(batches.order))
    batches.collator(batches.collator.prepare(batches.take(numbers)))


class OpenReader(NamedTuple):
    """A reader of one rank.

    Attributes:
        batches: each iteration is an epoch, or the rest of one.
        state_after: returns the state after a number of batches of the present iteration.
        load_state_dict: resumes from a state.
    """

    batches: Iterable[Mapping[str, Tensor]]
    state_after: Callable[[int], dict[str, Any]]
    load_state_dict: Callable[[Mapping[str, Any]], None]


def open_map(batches: Batches, rank: int, division: Division) -> OpenReader:
    """Map style: rows by number, through DataLoader, in the order of our sampler."""
    dataset = MapDataset(batches.samples, batches.collator)
    sampler = EpochBatchSampler(batches, rank, division.ranks)
    loader = DataLoader(
        dataset,
        batch_sampler=sampler,
        collate_fn=dataset.collate,
        **_workers(division),
    )
    return OpenReader(loader, sampler.state_after, sampler.load_state_dict)


def open_streaming(batches: Batches, rank: int, division: Division) -> OpenReader:
    """Streaming: finished batches through DataLoader."""
    dataset = StreamingDataset(batches, rank, division.ranks)
    loader = DataLoader(dataset, batch_size=None, **_workers(division))
    return OpenReader(loader, dataset.state_after, dataset.load_state_dict)


def open_loader(batches: Batches, rank: int, division: Division) -> OpenReader:
    """Our own loader, in place of DataLoader; its state needs no count."""
    loader = TensorLoader(batches, rank, division.ranks)
    return OpenReader(loader, lambda _: loader.state_dict(), loader.load_state_dict)


READERS: Mapping[str, Callable[[Batches, int, Division], OpenReader]] = {
    "map": open_map,
    "streaming": open_streaming,
    "loader": open_loader,
}


def _workers(division: Division) -> dict[str, Any]:
    context = "fork" if division.workers else None
    return {"num_workers": division.workers, "multiprocessing_context": context}


def split_rows(batch: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield the rows of a batch as the model takes them.

    A piece of a packed row begins where `position_ids` are 0. Otherwise the row is one piece, and
    its padding another.
    """
    ids = batch["input_ids"]
    if "position_ids" in batch:
        places = batch["position_ids"]
        pieces = (places == 0).long().cumsum(1)
    else:
        places = torch.arange(ids.shape[1]).expand_as(ids)
        pieces = batch["attention_mask"]
    targets = batch["targets"] if "targets" in batch else batch["labels"]
    for row in zip(ids, places, pieces, targets, strict=True):
        yield dict(zip(("input_ids", "position_ids", "pieces", "targets"), row, strict=True))
