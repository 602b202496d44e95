"""From arrays to tensors, and which of the processes that train together this one is."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils.data import get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batch, Collator
from corpusmill.reading.rows import Lists, Rows, Values

TensorBatch = dict[str, torch.Tensor]


# Arrays that are sent together begin at multiples of this.
_ALIGNMENT = 64


def to_tensors(batch: Batch) -> TensorBatch:
    """The arrays of a batch as tensors of the same types, which share their memory."""
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    return tensors if get_worker_info() is None else WorkerBatch(tensors)


class WorkerBatch(dict[str, torch.Tensor]):
    """A batch that a worker of DataLoader sends: all tensors in one piece of shared memory.

    One by one each would have a piece of its own, and the few calls that hand over a piece cost
    more than to copy it. Where it arrives it is a plain dictionary.
    """

    def __copy__(self) -> "WorkerBatch":
        # DataLoader copies what it converts, and would send the copy.
        return WorkerBatch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = [tensor.numpy() for tensor in self.values()]
        ends = np.cumsum([-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays])
        memory = torch.empty(int(ends[-1]), dtype=torch.uint8).share_memory_()
        layout, begin = [], 0
        for (name, tensor), array, end in zip(self.items(), arrays, ends.tolist(), strict=True):
            place = memory[begin : begin + array.nbytes]
            place.numpy()[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            layout.append((name, tensor.dtype, tensor.shape, begin, array.nbytes))
            begin = end
        return _take_apart, (memory, layout)


def _take_apart(
    memory: torch.Tensor, layout: list[tuple[str, torch.dtype, torch.Size, int, int]]
) -> TensorBatch:
    return {
        name: memory[begin : begin + size].view(dtype).view(shape)
        for name, dtype, shape, begin, size in layout
    }


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
