"""From arrays to tensors, and which of the processes that train together this one is."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import distributed

from corpusmill.faults import UserError
from corpusmill.reading.batches import Batch, Collator
from corpusmill.reading.rows import Lists, Rows, Values

TensorBatch = dict[str, torch.Tensor]


def to_tensors(batch: Batch) -> TensorBatch:
    """The arrays of a batch as tensors of the same types, which share their memory."""
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """This process's rank, and how many there are, where they are not given.

    They are those of torch.distributed where it is initialised, else those that torchrun has set
    (RANK and WORLD_SIZE); a process that was started alone is 0 of 1.

    Raises:
        UserError: one of the two is given alone.
    """
    if (rank is None) != (world_size is None):
        value = f"rank={rank}, world_size={world_size}"
        raise UserError(value, "one says nothing without the other", "Give both, or none")
    if rank is not None and world_size is not None:
        return rank, world_size
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class TensorCollator:
    """A collate function of DataLoader: tensors of prepared examples.

    Args:
        collator: makes arrays of them.

    Example:
        DataLoader(dataset, batch_size=32, collate_fn=TensorCollator(collator)), where the dataset
        is a MapDataset(samples, collator).
    """

    def __init__(self, collator: Collator) -> None:
        self._collator = collator

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> TensorBatch:
        """Tensors of `Rows`, or of examples that a wrapped dataset gives one by one."""
        rows = examples if isinstance(examples, Rows) else _gather(examples)
        return to_tensors(self._collator(rows))


def _gather(examples: Sequence[Mapping[str, Any]]) -> Rows:
    """Examples as rows; which samples they are is not known any more, as nothing needs it."""
    unknown = np.zeros(len(examples), np.int64)
    columns = {name: _column([of[name] for of in examples]) for name in examples[0]}
    return Rows(columns, unknown, unknown)


def _column(values: Sequence[Any]) -> Values:
    if not isinstance(values[0], np.ndarray):
        return np.array(values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(of) for of in values], out=offsets[1:])
    return Lists(np.concatenate(values), offsets)
