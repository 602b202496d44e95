"""Map style: a `torch.utils.data.Dataset` of examples by number, and a sampler of batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches, Collator, Reader
from corpusmill.reading.load.progress import Progress, Resumable
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Rows
from corpusmill.reading.torch.tensors import TensorCollator, find_rank


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
    With another sampler it is the epoch of `set_epoch`, which also reaches running workers.
    Accelerate and transformers' Trainer call it; in your own loop, call it before each epoch.

    Args:
        samples: a data set, windows of one, or a mixture.
        collator: turns rows into a model's arguments.

    Example:
        DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, collate_fn=dataset.collate)
    """

    def __init__(self, samples: Samples, collator: Collator | None = None) -> None:
        self.samples, self._collator = samples, collator
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

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
        epochs = indices.epochs if isinstance(indices, EpochBatch) else [self.epoch] * len(indices)
        with raised_in_worker():
            rows = self.samples.take(np.asarray(indices, np.int64), np.asarray(epochs, np.int64))
            if self._collator is None:
                return list(rows)
            rows = self._collator.prepare(rows)
        return _PreparedRows(rows.columns, rows.samples, rows.epochs)

    @property
    def epoch(self) -> int:
        """The epoch in which examples are read if their sampler does not pass one."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw the masks of another epoch, also in running workers."""
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
    """

    def __init__(self, samples: Sequence[int], epochs: Sequence[int]) -> None:
        super().__init__(samples)
        self.epochs = epochs


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
                end = begin + len(batch)
                yield EpochBatch(samples[begin:end].tolist(), epochs[begin:end].tolist()), after
                begin = end
