"""Streaming: a `torch.utils.data.IterableDataset` that yields finished batches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.load.progress import Progress
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.torch.dataset import WorkerError
from corpusmill.reading.torch.tensors import TensorBatch, find_rank, to_tensors

_MOST_WORKERS = 1024


class StreamingDataset(IterableDataset[TensorBatch]):
    """The batches of one rank, for DataLoader with `batch_size=None`, and for StatefulDataLoader.

    Which samples a batch has is a function of (seed, epoch, its number) alone: with any number of
    workers the batches are the same, in the same order. Each rank has the same number of batches.

    Without workers, iterating goes on where the last iteration stopped, also within an epoch, and
    `state_dict` counts the batches that were yielded. With workers each iteration is an epoch, the
    one after the last, or goes on from the state that was loaded; since DataLoader reads ahead and
    the dataset of this process takes no part in it, `state_after` says the state from a count of
    batches. StatefulDataLoader counts by itself; to go on with another number of workers than its
    state was saved with, take `stream_state` out of it. (`TensorLoader` needs none of this.)

    Args:
        batches: what is read.
        rank: of this process; None for that of torch.distributed or torchrun.
        world_size: processes that train together; None likewise.

    Raises:
        UserError: there is no such rank.

    Example:
        DataLoader(StreamingDataset(batches), batch_size=None, num_workers=2)
    """

    def __init__(
        self, batches: Batches, rank: int | None = None, world_size: int | None = None
    ) -> None:
        rank, world_size = find_rank(rank, world_size)
        self._batches, self._rank, self._world_size = batches, rank, world_size
        Reader(rank, world_size)
        self._progress = Progress(batches, world_size)
        self._shared = _SharedProgress()
        self._turn: int | None = None  # of a worker: steps before its next one
        self._started = False  # a worker's: whether it has iterated

    def __len__(self) -> int:
        """Batches of the whole epoch."""
        return self._progress.steps_of_epoch()

    def __iter__(self) -> Iterator[TensorBatch]:
        worker = get_worker_info()
        if worker is None:
            return self._progress.follow(lambda begin: self._read(begin, 0, 1))
        return self._iterate_in_worker(worker.id, worker.num_workers)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or the next one where none is."""
        begun = self._shared.last_iteration()
        return self._progress.epoch if begun is None else self._progress.epoch_at(begun[0])

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, in running workers, too.

        Where it is the one of a state that was loaded, or that this process iterates over itself,
        it is gone on with in its middle.

        Raises:
            UserError: the number is negative.
        """
        if self._shared.last_iteration() is not None:
            self._progress.move_to(Position(epoch * len(self._batches.order)))
        self._progress.set_epoch(epoch)
        self._shared.announce(self._progress)

    def state_dict(self) -> dict[str, Any]:
        """How far this process, or this worker, has yielded batches."""
        state = self._progress.state_dict()
        worker = get_worker_info()
        if worker is None:
            return state
        turn = worker.id if self._turn is None else self._turn
        return {**state, "worker": worker.id, "workers": worker.num_workers, "turn": turn}

    def state_after(self, batches: int) -> dict[str, Any]:
        """How far a loop has come that has taken so many batches in its present iteration.

        Args:
            batches: that DataLoader has given to this rank since iterating was begun.

        Raises:
            UserError: the epoch has fewer.
        """
        begun = self._shared.last_iteration()
        if begun is None or begun[0] == self._progress.position.read:
            return self._progress.state_after(batches)
        return self._progress.state_behind(Position(begun[0]), batches)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, also with other ranks and another batch size.

        Raises:
            UserError: it is of other data or another order, or of one of another number of workers.
        """
        with _raised_in_worker():
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
        cause = f"the state is that of worker {saved[0]} of {saved[1]}, this is {here[0]} of"
        cure = "Give as many workers, or go on with any number from stream_state(state)"
        raise UserError("load_state_dict", f"{cause} {here[1]}", cure)

    def _iterate_in_worker(self, worker: int, workers: int) -> Iterator[TensorBatch]:
        try:
            self._begin_in_worker(worker)
        except UserError as error:
            # DataLoader looks for errors where it takes batches.
            return map(_raise, [WorkerError(str(error))])
        begin, at_end = self._progress.position, self._progress.at_end
        end = self._progress.end_of_epoch()
        self._shared.note_iteration(worker, begin.read, end)
        return iter(()) if at_end else self._follow_in_worker(begin, end, worker, workers)

    def _begin_in_worker(self, worker: int) -> None:
        """Find where an iteration begins, for all workers alike.

        In its first one a worker knows what the main process knew when it was started, or what it
        was told by a state. Only then is it read from shared memory what has changed since.
        """
        fresh = not self._started
        self._started = True
        if self._turn is not None and fresh:
            return  # a state was loaded into this worker
        self._turn = None
        if not fresh:
            self._shared.catch_up()
        noted = self._shared.iteration(worker)
        if noted is not None:
            self._progress.move_to(Position(noted[1]))
        elif not fresh:
            self._progress.move_to(self._shared.announced())

    def _follow_in_worker(
        self, begin: Position, end: int, worker: int, workers: int
    ) -> Iterator[TensorBatch]:
        turn = worker if self._turn is None else self._turn
        with _raised_in_worker():
            for batch, position in self._read(begin, turn, workers):
                # The step after this one is another worker's, and the own one the last of a round.
                self._turn = workers - 1
                self._progress.move_to(position, position.read >= end)
                yield batch

    def _read(
        self, begin: Position, worker: int, workers: int
    ) -> Iterator[tuple[TensorBatch, Position]]:
        reader = Reader(self._rank, self._world_size, worker, workers)
        for block in self._batches.blocks(begin, reader):
            for batch, position in self._batches.collate(block):
                yield to_tensors(batch), position


def stream_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a `StreamingDataset` within that of a StatefulDataLoader.

    Args:
        state: what StatefulDataLoader's `state_dict` gave, with any number of workers.

    Returns:
        What `load_state_dict` of a dataset or a loader takes, to go on with any number of workers.

    Raises:
        UserError: no state of a dataset is in it, or it was saved some steps before (its
            `snapshot_every_n_steps`).
    """
    found = state.get("dataset_state")
    if "_snapshot" in state:
        if state["_steps_since_snapshot"]:
            cause = f"it was taken {state['_steps_since_snapshot']} steps before"
            raise UserError("stream_state", cause, "Give the loader snapshot_every_n_steps=1")
        snapshot = state["_snapshot"]
        last = f"worker_{snapshot['_last_yielded_worker_id']}"
        found = snapshot["_worker_snapshots"][last]["dataset_state"]
    if not isinstance(found, Mapping) or "number" not in found:
        cause = "it holds no state of a StreamingDataset"
        raise UserError("stream_state", cause, "Give what StatefulDataLoader.state_dict gave")
    kept = {name: found[name] for name in found if name not in ("worker", "workers", "turn")}
    return {**kept, "at_end": kept["at_end"] and not state["_iterator_finished"]}


@contextmanager
def _raised_in_worker() -> Iterator[None]:
    """Give errors of a worker a form in which DataLoader can raise them again."""
    try:
        yield
    except UserError as error:
        raise (WorkerError(str(error)) if get_worker_info() else error) from error


def _raise(error: UserError) -> TensorBatch:
    raise error


class _SharedProgress:
    """What the main process and its workers must tell each other, in a few shared numbers.

    The main process announces where to go on; each announcement has a number. A worker notes for
    each iteration by which announcement it goes, and where the iteration begins and ends, so that
    the next one of a worker of its number, be it the same process or a new one, goes on there.
    """

    def __init__(self) -> None:
        self._seen = 0
        # Row 0: announcement, position, whether workers can begin there. Then a row a worker.
        self._numbers = torch.zeros((1 + _MOST_WORKERS, 3), dtype=torch.int64).share_memory_()
        self._numbers[1:, 0] = -1

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy shares nothing with its original; a worker does with whoever started it.
        self.__dict__.update(state)
        self._numbers.share_memory_()

    def announce(self, progress: Progress) -> None:
        """Tell all workers where the next iteration begins."""
        self._seen += 1
        simple = not progress.position.taken and not progress.at_end
        self._numbers[0] = torch.tensor([self._seen, progress.position.number, simple])

    def catch_up(self) -> None:
        """Go by the last announcement from now on."""
        self._seen = int(self._numbers[0, 0])

    def announced(self) -> Position:
        """Where the last announcement was to begin.

        Raises:
            UserError: it was within a pool, or at an epoch's end.
        """
        _, number, simple = self._numbers[0].tolist()
        if not simple:
            cause = "the workers are running already, and cannot be told such a state"
            raise UserError("load_state_dict", cause, "Load it before the loader is iterated over")
        return Position(number)

    def note_iteration(self, worker: int, begin: int, end: int) -> None:
        """Note where an iteration of a worker begins and ends."""
        self._numbers[1 + worker] = torch.tensor([self._seen, begin, end])

    def iteration(self, worker: int) -> tuple[int, int] | None:
        """Where the last iteration of a worker's number begins and ends, by this announcement."""
        seen, begin, end = self._numbers[1 + worker].tolist()
        return (begin, end) if seen == self._seen else None

    def last_iteration(self) -> tuple[int, int] | None:
        """The same of any worker."""
        return self.iteration(0)
