"""Map style: a `torch.utils.data.Dataset` of examples by number, and a sampler of batches."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils.data import Dataset, Sampler, get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.load.loader import BaseLoader, Progress, Resumable
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Batch, Collator, Lists, Rows, Shares, Values, check_epoch

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
        if not isinstance(examples, Rows):
            # Their numbers are unknown here, and nothing needs them.
            unknown = np.zeros(len(examples), np.int64)
            names = examples[0]
            columns = {name: _column([example[name] for example in examples]) for name in names}
            examples = Rows(columns, unknown, unknown)
        return to_tensors(self._collator(examples))


def _column(values: Sequence[Any]) -> Values:
    if not isinstance(values[0], np.ndarray):
        return np.array(values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return Lists(np.concatenate(values), offsets)


def load_state(path: str) -> Any:
    """Load a file, which may come from anywhere, without running code that is in it.

    Raises:
        UserError: torch does not load it.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        cause = f"it is neither JSON nor a file that torch loads safely ({type(error).__name__})"
        raise UserError(path, cause, "Save what state_dict() returns by itself") from None


class WorkerError(UserError):
    """A user's mistake that a worker of DataLoader found.

    DataLoader recreates the error in its own process from a single string.

    Args:
        message: the whole message.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, "", "")
        self.args = (message,)

    def __str__(self) -> str:
        return self.value


@contextmanager
def raised_in_worker() -> Iterator[None]:
    """Convert a user's mistake in a worker into an error that DataLoader can raise again."""
    try:
        yield
    except UserError as error:
        raise (WorkerError(str(error)) if get_worker_info() else error) from error


class PreparedExample(Mapping[str, Any]):
    """An example that a collator has prepared.

    It is not a `dict`: before collating, transformers' Trainer removes from dictionaries all that
    is not an argument of the model, such as the positions of masks.

    Args:
        columns: its numbers and arrays.
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class _PreparedRows(Rows):
    """Rows that yield prepared examples."""

    def __iter__(self) -> Iterator[Any]:
        return map(PreparedExample, super().__iter__())


class MapDataset(Dataset[Mapping[str, Any]]):
    """Examples by number, for DataLoader, and for trainers that create their own from a dataset.

    Whole batches are looked up at once (`__getitems__`). With a collator they are prepared, which
    includes masking, and `collate` pads them. Without one they are dictionaries of the stored
    values, which collators of other libraries take.

    Masks are drawn by example and epoch. An `EpochBatchSampler` passes the epoch with each batch.
    With another sampler it is the epoch of `set_epoch`, which also reaches running workers; call it
    before each epoch. (Accelerate and transformers' Trainer do so in some settings only.)

    Args:
        samples: a data set, windows of one, or a mixture.
        collator: turns rows into a model's arguments.
        epoch: the epoch whose masks are always drawn, as validation needs it; None for that of the
            sampler or of `set_epoch`.

    Raises:
        UserError: the epoch is negative, or too large.

    Example:
        DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, collate_fn=dataset.collate)
    """

    def __init__(
        self, samples: Samples, collator: Collator | None = None, epoch: int | None = None
    ) -> None:
        check_epoch("epoch", epoch or 0, len(samples))
        self.samples, self._collator, self._is_fixed = samples, collator, epoch is not None
        self._epoch = torch.tensor([epoch or 0]).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has its own epoch; a worker shares that of the process that started it.
        self.__dict__.update(state)
        self._epoch.share_memory_()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return one example, as numbers and arrays.

        Raises:
            IndexError: the index is out of range.
        """
        return next(iter(self.__getitems__([range(len(self))[index]])))

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Mapping[str, Any]]:
        """Return the examples of a batch.

        Args:
            indices: the numbers of the examples; an `EpochBatch` also has their epochs.

        Returns:
            `Rows` with a collator, a list without one.
        """
        epochs: Sequence[int] = [self.epoch] * len(indices)
        shares = indices.mask_shares if isinstance(indices, EpochBatch) else None
        if isinstance(indices, EpochBatch) and not self._is_fixed:
            epochs = indices.epochs
        with raised_in_worker():
            rows = self.samples.take(np.asarray(indices, np.int64), np.asarray(epochs, np.int64))
            if self._collator is None:
                return list(rows)
            rows = self._collator.prepare(Rows(rows.columns, rows.samples, rows.epochs, shares))
        return _PreparedRows(rows.columns, rows.samples, rows.epochs)

    @property
    def epoch(self) -> int:
        """The epoch in which examples are read if their sampler does not pass one."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw the masks of another epoch, also in running workers, unless the epoch is fixed."""
        if not self._is_fixed:
            self._epoch.fill_(epoch)

    @property
    def collate(self) -> TensorCollator:
        """The collate function for these examples.

        Raises:
            UserError: there is no collator.
        """
        if self._collator is None:
            cause = "only a collator can pad examples"
            raise UserError("collator=None", cause, "Give the dataset a collator")
        return TensorCollator(self._collator)


class EpochBatch(list[int]):
    """The numbers of a batch's examples, with their epochs.

    Attributes:
        epochs: how often each example was read before.
        mask_shares: the shares of masks in the stage of each, as `Rows` has them.
    """

    def __init__(
        self, samples: Sequence[int], epochs: Sequence[int], mask_shares: Shares | None = None
    ) -> None:
        super().__init__(samples)
        self.epochs, self.mask_shares = epochs, mask_shares


class EpochBatchSampler(Resumable, Sampler[list[int]]):
    """The batches of one rank, for DataLoader's `batch_sampler`: those of the streaming reader.

    Each iteration resumes where the last one stopped, and ends with the epoch. With workers,
    DataLoader asks for batches ahead of time. So `state_dict` is right without workers, and with
    StatefulDataLoader, which knows how far ahead it is; with workers and a plain DataLoader, use
    `state_after`.

    Args:
        batches: the batches to read.
        rank: the rank of this process; None for that of torch.distributed or torchrun.
        world_size: the number of processes that train together; None likewise.

    Example:
        DataLoader(dataset, batch_sampler=EpochBatchSampler(batches), collate_fn=dataset.collate)
    """

    def __init__(
        self, batches: Batches, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self._batches = batches
        self._reader = Reader(*find_rank(rank, world_size))
        self._progress = Progress(batches, self._reader.world_size)
        # Accelerate, which can shard batches further, asks for these.
        self.batch_size: int | None = getattr(batches.batching, "batch_size", None)
        self.drop_last: bool = getattr(batches.batching, "drop_last", False)

    def __iter__(self) -> Iterator[list[int]]:
        return self._progress.follow(self._read)

    def state_after(self, batches: int) -> dict[str, Any]:
        """Return the state after some batches of the present iteration.

        Raises:
            UserError: the epoch has fewer batches.
        """
        return self._progress.state_after(batches)

    def _read(self, position: Position) -> Iterator[tuple[list[int], Position]]:
        for numbers, positions in self._batches.plan(position, self._reader):
            samples, epochs = self._batches.locate(np.concatenate(numbers))
            begin = 0
            for batch, after in zip(numbers, positions, strict=True):
                end, shares = begin + len(batch), self._batches.mask_shares(batch)
                own = (samples[begin:end].tolist(), epochs[begin:end].tolist(), shares)
                yield EpochBatch(*own), after
                begin = end


class TensorLoader(BaseLoader[TensorBatch]):
    """A `Loader` of tensors: it replaces DataLoader, and is several times as fast.

    Args:
        batches: the batches to read.
        rank: the rank of this process; None for that of torch.distributed or torchrun.
        world_size: the number of processes that train together; None likewise.
        prefetch_factor: batches to read ahead, as in Loader.
        epoch: the epoch that each iteration reads, as in Loader.
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
        epoch: int | None = None,
        pin_memory: bool = False,
    ) -> None:
        ranks = find_rank(rank, world_size)
        super().__init__(batches, *ranks, prefetch_factor=prefetch_factor, epoch=epoch)
        self._pin_memory = pin_memory and torch.cuda.is_available()
        # Otherwise the thread that reads ahead would use the first GPU, and take memory there.
        self._device = torch.cuda.current_device() if self._pin_memory else 0

    def _finish(self, batch: Batch) -> TensorBatch:
        tensors = to_tensors(batch)
        if not self._pin_memory:
            return tensors
        with torch.cuda.device(self._device):
            return {name: tensor.pin_memory() for name, tensor in tensors.items()}
