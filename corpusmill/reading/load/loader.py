"""Batches as NumPy arrays, read ahead: what a training loop without PyTorch iterates over.

`make_batches` gives the batches of a data set in one call; a `Loader` makes the next ones in a
thread while the model trains on the last one, and knows how far a run has read, which is saved with
a checkpoint. A thread is enough, as the kernels that look up, mask and pad release the GIL.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar, Unpack

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import CollatorOptions, collator_for
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import BackgroundThread, Batches, Reader
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Batching, FixedBatches, Position
from corpusmill.reading.rows import Batch, check_epoch, check_minimum

T = TypeVar("T")


class Progress:
    """A position that advances as batches are taken, epoch after epoch.

    Each iteration resumes where the last one stopped. It ends with the epoch, or when a loop that
    counts batches leaves it after the epoch's last one. If a state was saved in an epoch's last
    step, the first iteration after loading it is empty, so that a resumed run has the same epochs
    as one that was never stopped.

    Args:
        batches: the batches to read.
        world_size: the number of ranks that read together.

    Attributes:
        position: how far all ranks have read.
        at_end: whether all batches of the epoch are taken, but its loop has not ended.
    """

    def __init__(self, batches: Batches, world_size: int) -> None:
        self._batches, self._world_size = batches, world_size
        self._size = len(batches.order)
        self.position, self.at_end = Position(0), False
        self._begin = self.position
        self._steps: dict[int, int] = {}  # of the last epoch that was counted
        self._iteration: object = None  # the one that moves the position; None before the first

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or else the next one."""
        return self.epoch_at(self.position.samples_read, self.at_end)

    def epoch_at(self, samples_read: int, at_end: bool = False) -> int:
        """Return the epoch of an iteration that begins, or just ends, after some samples.

        After resuming with more ranks, fewer samples than ranks may remain of an epoch; they are
        read with the next one.
        """
        read = samples_read
        return (read - 1 if at_end else read + self._world_size - 1) // self._size

    def end_of_epoch(self) -> int:
        """Return the number after the last sample of the epoch that is being read."""
        if self.at_end:
            return (self.epoch + 1) * self._size
        return self._batches.end_of_epoch(self.position, self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch.

        Naming the epoch that is being read changes nothing: a loop over epochs may set each of
        them, and still resumes in the middle of one.

        Raises:
            UserError: the number is negative, or too large.
        """
        check_epoch("epoch", epoch, self._size)
        if epoch != self.epoch:
            self.move_to(Position(epoch * self._size))

    def move_to(self, position: Position, at_end: bool = False) -> None:
        """Resume at any position."""
        self.position, self.at_end, self._begin = position, at_end, position
        self._iteration = None

    def follow(self, read: Callable[[Position], Iterator[tuple[T, Position]]]) -> Iterator[T]:
        """Yield what is read of the epoch in one iteration, and advance the position with it.

        Args:
            read: yields batches from a position to the end of its epoch, each with the position
                after it.

        Raises:
            UserError: a whole epoch gives no batch.
        """
        loaded_at_end = self.at_end and self._iteration is None
        self._iteration, self.at_end = object(), False
        if loaded_at_end:
            return
        iteration, begin, is_empty = self._iteration, self.position, True
        self._begin = begin
        end = self._batches.end_of_epoch(begin, self._world_size)
        try:
            for item, position in read(begin):
                self.position, self.at_end, is_empty = position, position.samples_read >= end, False
                yield item
        except GeneratorExit:
            # Unless a later iteration has begun, or a state was loaded.
            if self._iteration is iteration:
                self.at_end = False
            raise
        if is_empty and end - begin.samples_read >= self._size:
            cause = f"an epoch of {self._size} samples is too short for one batch per rank"
            cure = "Give smaller batches, or keep the last one"
            raise UserError(f"{self._batches.batching}", cause, cure)
        self.position, self.at_end = Position(end), False

    def steps_of_epoch(self) -> int:
        """Return the number of batches of each rank in the whole epoch."""
        epoch = self.epoch
        if epoch not in self._steps:
            pools = self._batches.pools(Position(epoch * self._size), self._world_size)
            self._steps = {epoch: sum(pool.steps for pool in pools)}
        return self._steps[epoch]

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as JSON types, from which `load_state_dict` resumes."""
        return {**self._batches.state_dict(self.position), "at_end": self.at_end}

    def state_after(self, batches: int, begin: Position | None = None) -> dict[str, Any]:
        """Return the state after some batches of an iteration.

        It is for loops over another loader, which reads ahead, so that `state_dict` counts batches
        that the loop has not seen yet.

        Args:
            batches: the number of batches that this rank has taken.
            begin: where the iteration began; None for the present iteration.

        Raises:
            UserError: the epoch has fewer batches.
        """
        begin = begin or self._begin
        end = self._batches.end_of_epoch(begin, self._world_size)
        position, left = begin, batches
        for pool in self._batches.pools(begin, self._world_size):
            if not left:
                break
            position = pool.position_after(min(left, pool.steps))
            left -= min(left, pool.steps)
        if left:
            cause = f"the epoch had {batches - left} left"
            raise UserError(f"state_after({batches})", cause, "Count the batches of one iteration")
        at_end = batches > 0 and position.samples_read >= end
        return {**self._batches.state_dict(position), "at_end": at_end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state, with any ranks, workers and batch size.

        Raises:
            UserError: the state belongs to other data or to another order.
        """
        position = self._batches.load_state_dict(state)
        self.move_to(position, bool(state.get("at_end", False)))


class Resumable:
    """An iterable over epochs whose progress can be saved and loaded."""

    _progress: Progress

    def __len__(self) -> int:
        """Return the batches of the whole epoch."""
        return self._progress.steps_of_epoch()

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or else the next one."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is already being read.

        Raises:
            UserError: the number is negative.
        """
        self._progress.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return how far all ranks together have taken batches; batches read ahead don't count.

        The state is a handful of numbers, and the same on each rank.
        """
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was taken.

        Ranks, workers and batch size may differ from the earlier ones. It takes the same time at
        any place of an epoch.

        Raises:
            UserError: the state belongs to other data or to another order.
        """
        self._progress.load_state_dict(state)


class _End(NamedTuple):
    """The end of the items, and the error that ended them, if any."""

    error: BaseException | None


def prefetch(items: Generator[T, Any, Any], capacity: int) -> Generator[T, None, None]:
    """Yield the items of a generator, which a thread takes ahead of the loop.

    The thread ends with the items, with an error, which is raised here after the items before it,
    when this generator is closed, as by leaving a loop over it, or with the program.

    Args:
        items: the items; only the thread uses the generator, and closes it.
        capacity: the most items that wait at a time.
    """
    waiting, room = SimpleQueue[T | _End](), SimpleQueue[None]()
    # Not a semaphore, which is Python code with a lock: Ctrl-C between two of its lines leaves the
    # lock held forever. The methods of SimpleQueue are never left halfway.
    for _ in range(capacity):
        room.put(None)
    is_stopped = False

    def fill() -> None:
        error = None
        try:
            with closing(items):
                for item in items:
                    room.get()
                    if is_stopped:
                        break
                    waiting.put(item)
        except BaseException as raised:
            error = raised
        waiting.put(_End(error))

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        room.put(None)

    thread = BackgroundThread(fill, "prefetch", stop)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            room.put(None)
            yield item
        if item.error is not None:
            raise item.error
    finally:
        thread.end()


B = TypeVar("B")


class BaseLoader(Resumable, ABC, Generic[B]):
    """What loaders of arrays and of tensors share; `Loader` explains the arguments.

    Raises:
        UserError: a value is out of range.
    """

    def __init__(
        self,
        batches: Batches,
        rank: int = 0,
        world_size: int = 1,
        *,
        prefetch_factor: int = 8,
        epoch: int | None = None,
    ) -> None:
        check_minimum("prefetch_factor", prefetch_factor, 0)
        check_epoch("epoch", epoch or 0, len(batches.order))
        self.batches, self._reader = batches, Reader(rank, world_size)
        self._prefetch_factor, self._fixed_epoch = prefetch_factor, epoch
        self._progress = Progress(batches, world_size)

    def __iter__(self) -> Iterator[B]:
        if self._fixed_epoch is not None:
            self._progress.move_to(Position(self._fixed_epoch * len(self.batches.order)))
        return self._progress.follow(self._read)

    @abstractmethod
    def _finish(self, batch: Batch) -> B:
        """Convert a batch, in the thread that reads ahead."""

    def _read(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        if self._prefetch_factor:
            return prefetch(self._read_here(position), self._prefetch_factor)
        return self._read_here(position)

    def _read_here(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        for block in self.batches.blocks(position, self._reader):
            for batch, after in self.batches.collate(block):
                yield self._finish(batch), after


class Loader(BaseLoader[Batch]):
    """The batches of one rank; each iteration is an epoch.

    A thread reads `prefetch_factor` batches ahead; it reads more than a hundred thousand examples
    per second. It is started with each iteration and ends with it, even if a loop is left early. It
    does not change which batches are read, or their order.

    An iteration resumes where the last one stopped, even within an epoch. A run that is resumed
    with more ranks than samples are left in an epoch reads these in the first step of the next one.
    A loop that counts samples, as the one below, then reads those of its last epoch, too, with a
    few of the next one to fill the step; one that counts epochs, such as
    `for epoch in range(loader.epoch, 3)`, leaves them out, at most world_size - 1.

    Args:
        batches: the batches to read.
        rank: the rank of this process, 0 to world_size - 1.
        world_size: the number of processes that train together.
        prefetch_factor: batches to read ahead; with 0 each is read when the loop asks for it,
            without a thread.
        epoch: the epoch that each iteration reads from its beginning, with the same masks, as
            validation needs it; None for one epoch after another.

    Raises:
        UserError: a value is out of range.

    Example:
        end = 3 * len(batches.order)  # samples of three epochs, all ranks together
        while loader.state_dict()["number"] < end:
            for batch in loader:
                ...  # {"input_ids": int64[32, 512], ...}; loader.state_dict() resumes after it
                if loader.state_dict()["number"] >= end:
                    break
    """

    def _finish(self, batch: Batch) -> Batch:
        return batch


def make_batches(
    samples: Samples,
    batch_size: int | None = None,
    *,
    max_tokens: int | None = None,
    by_length: bool = False,
    order: Ordering | None = None,
    shuffle: bool = True,
    drop_last: bool = False,
    **options: Unpack[CollatorOptions],
) -> Batches:
    """Return the batches of a data set, with the arguments of the model of its objective.

    Args:
        samples: a data set, windows of one, or a mixture, which needs its `order`.
        batch_size: samples per rank and batch.
        max_tokens: the most tokens of a batch with its padding, instead of or in addition to
            batch_size; implies batches by length.
        by_length: whether the samples of a batch have similar lengths.
        order: the order of the samples; None for `samples.order(seed, shuffle)`.
        shuffle: whether to shuffle; otherwise samples are read in the order they are stored in.
        drop_last: whether to leave out an epoch's last, smaller batch; not with batches by length.
        options: the options of `collator_for`; `seed` is also the seed of the order.

    Raises:
        UserError: a value is out of range or does not suit the data set, or two contradict each
            other.

    Example:
        Loader(make_batches(DataSet("out"), 32, seed=1))
    """
    if order is None:
        if isinstance(samples, JoinedSamples):
            cause = "only the order of a mixture knows the proportions"
            raise UserError("order=None", cause, "Give the order that mix() returned")
        order = samples.order(options.get("seed", 0), shuffle)
    batching: Batching
    if by_length or max_tokens is not None:
        if drop_last:
            cause = "batches by length leave no samples out"
            raise UserError("drop_last=True", cause, "Omit one of the two")
        multiple = options.get("pad_to_multiple_of") or 1
        batching = LengthBatches(samples, order, batch_size, max_tokens, multiple)
    elif batch_size is None:
        raise UserError("batch_size=None", "the size of batches is unknown", "Give batch_size")
    else:
        batching = FixedBatches(batch_size, drop_last)
    return Batches(samples, order, batching, collator_for(samples, **options))
