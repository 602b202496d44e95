"""Streaming: a `torch.utils.data.IterableDataset` that yields finished batches."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.load.loader import Progress, Resumable
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.torch.dataset import (
    TensorBatch,
    WorkerError,
    find_rank,
    raised_in_worker,
    to_tensors,
)

_MOST_WORKERS = 1024


class StreamingDataset(Resumable, IterableDataset[TensorBatch]):
    """The batches of one rank, for DataLoader with `batch_size=None`, and for StatefulDataLoader.

    The samples of a batch are a function of (seed, epoch, number of the batch): any number of
    workers yields the same batches in the same order. Each rank has the same number of batches.

    Without workers, an iteration resumes where the last one stopped, even within an epoch, and
    `state_dict` counts the batches that were yielded. With workers, each iteration is the next
    epoch, or resumes from a state that was loaded. As DataLoader reads ahead in other processes,
    `state_after` computes the state from a count of batches. StatefulDataLoader counts by itself;
    to resume its state with another number of workers, extract it by `stream_state`.
    (`TensorLoader` needs none of this.)

    Args:
        batches: the batches to read.
        rank: the rank of this process; None for that of torch.distributed or torchrun.
        world_size: the number of processes that train together; None likewise.

    Raises:
        UserError: the rank is out of range.

    Example:
        DataLoader(StreamingDataset(batches), batch_size=None, num_workers=2)
    """

    def __init__(
        self, batches: Batches, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self._batches, self._reader = batches, Reader(*find_rank(rank, world_size))
        self._progress = Progress(batches, self._reader.world_size)
        self._shared = _SharedProgress()
        self._turn: int | None = None  # in a worker: steps before its next one
        self._started = False  # in a worker: whether it has iterated

    def __iter__(self) -> Iterator[TensorBatch]:
        worker = get_worker_info()
        if worker is None:
            return self._progress.follow(lambda begin: self._read(begin, 0, 1))
        return self._iterate_in_worker(worker.id, worker.num_workers)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or else the next one."""
        begin = self._shared.last_begin()
        return self._progress.epoch if begin is None else self._progress.epoch_at(begin)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, also in running workers.

        Naming the epoch of a state that was loaded, or one that this process iterates over itself,
        changes nothing: it is resumed in its middle.

        Raises:
            UserError: the number is negative.
        """
        if self._shared.last_begin() is not None:
            self._progress.move_to(Position(epoch * len(self._batches.order)))
        self._progress.set_epoch(epoch)
        self._shared.announce(self._progress)

    def state_dict(self) -> dict[str, Any]:
        """Return how far this process, or this worker, has yielded batches."""
        state = self._progress.state_dict()
        worker = get_worker_info()
        if worker is None:
            return state
        turn = worker.id if self._turn is None else self._turn
        return {**state, "worker": worker.id, "workers": worker.num_workers, "turn": turn}

    def state_after(self, batches: int) -> dict[str, Any]:
        """Return the state after some batches of the present iteration.

        Args:
            batches: the batches that DataLoader has given to this rank in the iteration.

        Raises:
            UserError: the epoch has fewer batches.
        """
        begin = self._shared.last_begin()
        if begin is None or begin == self._progress.position.samples_read:
            return self._progress.state_after(batches)
        return self._progress.state_after(batches, Position(begin))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state; ranks and batch size may differ.

        Raises:
            UserError: the state belongs to other data or another order, or to another number of
                workers.
        """
        with raised_in_worker():
            self._check_worker(state)
            self._progress.load_state_dict(state)
            self._turn = state.get("turn")
            if get_worker_info() is None:
                self._shared.announce(self._progress)

    def _check_worker(self, state: Mapping[str, Any]) -> None:
        worker = get_worker_info()
        here = (worker.id, worker.num_workers) if worker else (0, 0)
        saved = (state.get("worker", here[0]), state.get("workers", here[1]))
        if saved == here:
            return
        cause = f"the state is that of worker {saved[0]} of {saved[1]}, this is worker {here[0]} of"
        cure = "Give as many workers, or load stream_state(state) with any number"
        raise UserError("load_state_dict", f"{cause} {here[1]}", cure)

    def _iterate_in_worker(self, worker: int, workers: int) -> Iterator[TensorBatch]:
        try:
            self._begin_in_worker(worker)
        except UserError as error:
            # DataLoader expects errors when it takes batches.
            return map(_raise, [WorkerError(str(error))])
        begin, at_end = self._progress.position, self._progress.at_end
        end = self._progress.end_of_epoch()
        self._shared.note_iteration(worker, begin.samples_read, end)
        return iter(()) if at_end else self._follow_in_worker(begin, end, worker, workers)

    def _begin_in_worker(self, worker: int) -> None:
        """Find where an iteration begins, which is the same for all workers.

        In its first iteration a worker knows what the main process knew when it started it, or a
        state that was loaded. Before later ones it reads from shared memory what has changed since.
        """
        is_first = not self._started
        self._started = True
        if self._turn is not None and is_first:
            return  # a state was loaded into this worker
        self._turn = None
        if not is_first:
            self._shared.catch_up()
        end = self._shared.last_end(worker)
        if end is not None:
            self._progress.move_to(Position(end))
        elif not is_first:
            self._progress.move_to(self._shared.announced())

    def _follow_in_worker(
        self, begin: Position, end: int, worker: int, workers: int
    ) -> Iterator[TensorBatch]:
        turn = worker if self._turn is None else self._turn
        with raised_in_worker():
            for batch, position in self._read(begin, turn, workers):
                # The next steps belong to the other workers; this one is last in the round now.
                self._turn = workers - 1
                self._progress.move_to(position, position.samples_read >= end)
                yield batch

    def _read(
        self, begin: Position, worker: int, workers: int
    ) -> Iterator[tuple[TensorBatch, Position]]:
        reader = replace(self._reader, worker=worker, workers=workers)
        for block in self._batches.blocks(begin, reader):
            for batch, position in self._batches.collate(block):
                yield to_tensors(batch), position


def stream_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Extract the state of a `StreamingDataset` from that of a StatefulDataLoader.

    Args:
        state: the `state_dict` of a StatefulDataLoader, with any number of workers.

    Returns:
        a state for `load_state_dict` of a dataset or a loader, with any number of workers.

    Raises:
        UserError: it does not contain the state of a dataset, or that state is some steps old (as
            `snapshot_every_n_steps` of the loader says).
    """
    inner = state.get("dataset_state")
    if "_snapshot" in state:
        if state["_steps_since_snapshot"]:
            cause = f"its snapshot is {state['_steps_since_snapshot']} steps old"
            raise UserError("stream_state", cause, "Give the loader snapshot_every_n_steps=1")
        snapshot = state["_snapshot"]
        last = f"worker_{snapshot['_last_yielded_worker_id']}"
        inner = snapshot["_worker_snapshots"][last]["dataset_state"]
    if not isinstance(inner, Mapping) or "number" not in inner:
        cause = "it does not contain the state of a StreamingDataset"
        raise UserError("stream_state", cause, "Give the state_dict of a StatefulDataLoader")
    kept = {name: inner[name] for name in inner if name not in ("worker", "workers", "turn")}
    return {**kept, "at_end": kept["at_end"] and not state["_iterator_finished"]}


def _raise(error: UserError) -> TensorBatch:
    raise error


class _SharedProgress:
    """A few shared numbers by which the main process and its workers communicate.

    The main process announces where to resume; announcements are numbered. Each worker notes the
    announcement that an iteration follows, and where the iteration begins and ends. The next worker
    of the same number, whether the same process or a new one, continues from there.
    """

    def __init__(self) -> None:
        self._announcement = 0
        # Row 0: announcement, position, whether workers can begin there. Then one row per worker.
        self._numbers = torch.zeros((1 + _MOST_WORKERS, 3), dtype=torch.int64).share_memory_()
        self._numbers[1:, 0] = -1

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy shares nothing with its original; a worker shares with the process that started it.
        self.__dict__.update(state)
        self._numbers.share_memory_()

    def announce(self, progress: Progress) -> None:
        """Announce to all workers where the next iteration begins."""
        self._announcement += 1
        is_plain = not progress.position.pool_reads and not progress.at_end
        self._numbers[0] = torch.tensor([self._announcement, progress.position.number, is_plain])

    def catch_up(self) -> None:
        """Follow the last announcement from now on."""
        self._announcement = int(self._numbers[0, 0])

    def announced(self) -> Position:
        """Return the position of the last announcement.

        Raises:
            UserError: it was within a pool, or at an epoch's end.
        """
        _, number, is_plain = self._numbers[0].tolist()
        if not is_plain:
            cause = "the workers are running already, and cannot load such a state"
            raise UserError("load_state_dict", cause, "Load it before iterating over the loader")
        return Position(number)

    def note_iteration(self, worker: int, begin: int, end: int) -> None:
        """Note where an iteration of a worker begins and ends."""
        self._numbers[1 + worker] = torch.tensor([self._announcement, begin, end])

    def last_begin(self) -> int | None:
        """Return where the last iteration begins; None if it follows another announcement."""
        announcement, begin, _ = self._numbers[1].tolist()
        return begin if announcement == self._announcement else None

    def last_end(self, worker: int) -> int | None:
        """Return where the last iteration of a worker's number ends; None likewise."""
        announcement, _, end = self._numbers[1 + worker].tolist()
        return end if announcement == self._announcement else None
