"""A loader of finished batches as tensors."""

from multiprocessing.context import BaseContext

import torch

from corpusmill.reading.load.batches import Batch, Batches
from corpusmill.reading.load.loader import BaseLoader
from corpusmill.reading.torch.tensors import TensorBatch, find_rank, to_tensors


class TensorLoader(BaseLoader[TensorBatch]):
    """`Loader` with tensors in place of arrays: in place of DataLoader, and several times as fast.

    Args:
        batches: what is read.
        rank: of this process; None for that of torch.distributed or torchrun.
        world_size: processes that train together; None likewise.
        num_workers: see Loader.
        prefetch_factor: see Loader.
        multiprocessing_context: see Loader.
        pin_memory: whether batches are copied to pinned memory, which a GPU reads while the
            processor goes on (`tensor.to("cuda", non_blocking=True)`); of no effect without GPU.

    Raises:
        UserError: a value is out of range.
    """

    def __init__(
        self,
        batches: Batches,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        num_workers: int = 0,
        prefetch_factor: int = 8,
        multiprocessing_context: str | BaseContext | None = None,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(
            batches,
            *find_rank(rank, world_size),
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            multiprocessing_context=multiprocessing_context,
        )
        self._pin_memory = pin_memory and torch.cuda.is_available()
        # The thread that reads ahead would take the first GPU, and hold memory of it.
        self._device = torch.cuda.current_device() if self._pin_memory else 0

    def _finish(self, batch: Batch) -> TensorBatch:
        tensors = to_tensors(batch)
        if not self._pin_memory:
            return tensors
        with torch.cuda.device(self._device):
            return {name: tensor.pin_memory() for name, tensor in tensors.items()}
