"""Map style: a `torch.utils.data.Dataset` of examples by number, and a sampler of its batches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches, Collator, Reader
from corpusmill.reading.load.progress import Progress
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Rows
from corpusmill.reading.torch.tensors import TensorCollator, find_rank


class WorkerError(UserError):
    """A user's mistake that a worker of DataLoader found.

    DataLoader makes such errors again in its own process, from one string.

    Args:
        message: the whole of it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, "", "")
        self.args = (message,)

    def __str__(self) -> str:
        return self.value


class PreparedExample(Mapping[str, Any]):
    """An example that a collator has prepared.

    It is no `dict`, since transformers' Trainer takes out of those what is no argument of the
    model, such as the places of masks, before they are collated.

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
    """Rows for which iterating gives prepared examples."""

    def __iter__(self) -> Iterator[Any]:
        return map(PreparedExample, super().__iter__())


class MapDataset(Dataset[Mapping[str, Any]]):
    """Examples by number, for DataLoader, and for trainers that make their own of a dataset.

    Whole batches are looked up at once (`__getitems__`). With a collator they are prepared, which
    is where masks are drawn, and `collate` pads them; without one they are as they are stored, in
    dictionaries, as collators of other libraries take them.

    Masks are drawn by example and epoch. The epoch comes with each batch of an
    `EpochBatchSampler`; with another sampler it is what `set_epoch` was given, which reaches
    workers that are running, too (accelerate and transformers' Trainer call it; in a loop of your
    own, do so before each epoch).

    Args:
        samples: a data set, windows of one, or a mixture.
        collator: makes a model's arguments of rows.

    Example:
        DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, collate_fn=dataset.collate)
    """

    def __init__(self, samples: Samples, collator: Collator | None = None) -> None:
        self.samples, self._collator = samples, collator
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has an epoch of its own; a worker's stays the one of whoever started it.
        self.__dict__.update(state)
        self._epoch.share_memory_()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """One example, as numbers and arrays.

        Raises:
            IndexError: there is no such example.
        """
        return next(iter(self.__getitems__([range(len(self))[index]])))

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Mapping[str, Any]]:
        """The examples of a batch.

        Args:
            indices: of the examples; an `EpochBatch` says which epoch each is read in.

        Returns:
            `Rows` with a collator, a list without.
        """
        epochs = indices.epochs if isinstance(indices, EpochBatch) else [self.epoch] * len(indices)
        try:
            rows = self.samples.take(np.asarray(indices, np.int64), np.asarray(epochs, np.int64))
            if self._collator is None:
                return list(rows)
            rows = self._collator.prepare(rows)
        except UserError as error:
            raise (WorkerError(str(error)) if get_worker_info() else error) from error
        return _PreparedRows(rows.columns, rows.samples, rows.epochs)

    @property
    def epoch(self) -> int:
        """The epoch that examples are read in, where their sampler says none."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw the masks of another epoch, in running workers, too."""
        self._epoch.fill_(epoch)

    @property
    def collate(self) -> TensorCollator:
        """The collate function of these examples.

        Raises:
            UserError: there is no collator.
        """
        if self._collator is None:
            cause = "examples as they are stored are not padded"
            raise UserError("collator=None", cause, "Give the dataset a collator")
        return TensorCollator(self._collator)


class EpochBatch(list[int]):
    """The examples of a batch, as a list of their numbers that knows their epochs.

    Attributes:
        epochs: of each example, how often it was read before.
    """

    def __init__(self, samples: Sequence[int], epochs: Sequence[int]) -> None:
        super().__init__(samples)
        self.epochs = epochs


class EpochBatchSampler(Sampler[list[int]]):
    """The batches of one rank, for DataLoader's `batch_sampler`: those of the streaming reader.

    Each iteration goes on where the last one stopped, and ends with the epoch. DataLoader with
    workers asks for batches ahead of time, so that `state_dict` is right with StatefulDataLoader,
    which knows how far ahead, and without workers; with workers and a plain DataLoader,
    `state_after` counts.

    Args:
        batches: what is read.
        rank: of this process; None for that of torch.distributed or torchrun.
        world_size: processes that train together; None likewise.

    Example:
        DataLoader(dataset, batch_sampler=EpochBatchSampler(batches), collate_fn=dataset.collate)
    """

    def __init__(
        self, batches: Batches, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self._batches = batches
        self._reader = Reader(*find_rank(rank, world_size))
        self._progress = Progress(batches, self._reader.world_size)
        # Who shards batches further, as accelerate does, asks for these.
        self.batch_size: int | None = getattr(batches.batching, "batch_size", None)
        self.drop_last: bool = getattr(batches.batching, "drop_last", False)

    def __len__(self) -> int:
        """Batches of the whole epoch."""
        return self._progress.steps_of_epoch()

    def __iter__(self) -> Iterator[list[int]]:
        return self._progress.follow(self._read)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or the next one where none is."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is being read already.

        Raises:
            UserError: the number is negative.
        """
        self._progress.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """How far batches were asked for."""
        return self._progress.state_dict()

    def state_after(self, batches: int) -> dict[str, Any]:
        """How far a loop has come that has taken so many batches in its present iteration.

        Raises:
            UserError: the epoch has fewer.
        """
        return self._progress.state_after(batches)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, also with other ranks, workers and batch size.

        Raises:
            UserError: it is of other data or of another order.
        """
        self._progress.load_state_dict(state)

    def _read(self, position: Position) -> Iterator[tuple[list[int], Position]]:
        for numbers, positions in self._batches.plan(position, self._reader):
            samples, epochs = self._batches.locate(np.concatenate(numbers))
            begin = 0
            for batch, after in zip(numbers, positions, strict=True):
                end = begin + len(batch)
                yield EpochBatch(samples[begin:end].tolist(), epochs[begin:end].tolist()), after
                begin = end
