"""From arrays to tensors, and the rank of this process."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils.data import get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.rows import Batch, Lists, Rows, Values

TensorBatch = dict[str, torch.Tensor]

# Tensors of a batch in shared memory begin at multiples of this many bytes.
_ALIGNMENT = 64


def to_tensors(batch: Batch) -> TensorBatch:
    """Return the arrays of a batch as tensors of the same types, which share their memory."""
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    return tensors if get_worker_info() is None else WorkerBatch(tensors)


class WorkerBatch(dict[str, torch.Tensor]):
    """A batch that a worker of DataLoader sends, with all tensors in one piece of shared memory.

    Otherwise each tensor would have its own piece, and the calls that hand over a piece cost more
    than copying it. The receiver gets a plain dictionary.
    """

    def __copy__(self) -> "WorkerBatch":
        # DataLoader sends a copy, which must be of this class.
        return WorkerBatch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        layout, size = [], 0
        for name, tensor in self.items():
            layout.append((name, tensor.dtype, tensor.shape, size, size + tensor.nbytes))
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        memory = torch.empty(max(1, size), dtype=torch.uint8).share_memory_()
        for name, tensor in _unpack(memory, layout).items():
            tensor.copy_(self[name])
        return _unpack, (memory, layout)


def _unpack(
    memory: torch.Tensor, layout: list[tuple[str, torch.dtype, torch.Size, int, int]]
) -> TensorBatch:
    return {
        name: memory[begin:end].view(dtype).view(shape) for name, dtype, shape, begin, end in layout
    }


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank and world size: the arguments, or else those of this process.

    The latter come from torch.distributed if it is initialised, or else from the variables that
    torchrun sets (RANK and WORLD_SIZE). A process that was started alone has rank 0 of 1.

    Raises:
        UserError: only one of the two is given.
    """
    if (rank is None) != (world_size is None):
        value = f"rank={rank}, world_size={world_size}"
        raise UserError(value, "only one of the two is given", "Give both or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class TensorCollator:
    """A collate function for DataLoader, which turns prepared examples into tensors.

    Args:
        collator: turns them into arrays.

    Example:
        DataLoader(dataset, batch_size=32, collate_fn=TensorCollator(collator)) with
        dataset = MapDataset(samples, collator).
    """

    def __init__(self, collator: Collator) -> None:
        self._collator = collator

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> TensorBatch:
        """Return the tensors of `Rows`, or of examples that a wrapped dataset gives one by one."""
        rows = examples if isinstance(examples, Rows) else _gather(examples)
        return to_tensors(self._collator(rows))


def _gather(examples: Sequence[Mapping[str, Any]]) -> Rows:
    """Return examples as rows. Their numbers are unknown here, and nothing needs them."""
    unknown = np.zeros(len(examples), np.int64)
    columns = {name: _column([example[name] for example in examples]) for name in examples[0]}
    return Rows(columns, unknown, unknown)


def _column(values: Sequence[Any]) -> Values:
    if not isinstance(values[0], np.ndarray):
        return np.array(values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return Lists(np.concatenate(values), offsets)
