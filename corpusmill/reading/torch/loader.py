"""A loader of finished batches as tensors."""

import torch

from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import BaseLoader
from corpusmill.reading.rows import Batch
from corpusmill.reading.torch.tensors import TensorBatch, find_rank, to_tensors


class TensorLoader(BaseLoader[TensorBatch]):
    """A `Loader` of tensors: it replaces DataLoader, and is several times as fast.

    Args:
        batches: the batches to read.
        rank: the rank of this process; None for that of torch.distributed or torchrun.
        world_size: the number of processes that train together; None likewise.
        prefetch_factor: batches to read ahead, as in Loader.
        pin_memory: whether to copy batches to pinned memory, from which a GPU copies in the
            background (`tensor.to("cuda", non_blocking=True)`); it has no effect without a GPU.

    Raises:
        UserError: a value is out of range.
    """

    def __init__(
        self,
        batches: Batches,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        prefetch_factor: int = 8,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(batches, *find_rank(rank, world_size), prefetch_factor=prefetch_factor)
        self._pin_memory = pin_memory and torch.cuda.is_available()
        # Otherwise the thread that reads ahead would use the first GPU, and take memory there.
        self._device = torch.cuda.current_device() if self._pin_memory else 0

    def _finish(self, batch: Batch) -> TensorBatch:
        tensors = to_tensors(batch)
        if not self._pin_memory:
            return tensors
        with torch.cuda.device(self._device):
            return {name: tensor.pin_memory() for name, tensor in tensors.items()}
