"""A run: ranks that are started, killed in the middle of a step, and started again otherwise.

The first process stands in for the network between ranks: it adds up what they send, in the order
in which it arrives, and gives all of them the sum. It keeps what was read and computed in each
step, and forgets steps after the checkpoint when ranks are killed, as a run does.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing import get_context
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from examples.elastic_proof.model import mean_loss
from examples.elastic_proof.ranks import Contribution, Row, Task, Total, work
from examples.elastic_proof.reading import Division, warm_up

_SAVE_EVERY = 3


class Phase(NamedTuple):
    """A part of a run with one division.

    Attributes:
        division: of its batches.
        steps: the steps that it completes before it is killed in the next; None for all others.
    """

    division: Division
    steps: int | None = None


class Step(NamedTuple):
    """What was read and computed in one step.

    Attributes:
        rows: of all ranks, in the order of the sequence that they share.
        loss: the mean loss of their tokens, as `float.hex` writes it, with all its bits.
        weights: a digest of the weights before the step.
    """

    rows: tuple[Row, ...]
    loss: str
    weights: str


@dataclass
class Undone:
    """Steps after the checkpoint when ranks were killed.

    Attributes:
        begin: the number of steps up to the checkpoint.
        steps: the steps that were completed after it.
    """

    begin: int
    steps: list[Step]


@dataclass
class Run:
    """All steps of a run.

    Attributes:
        steps: those that count, from the first on.
        undone: those that did not, for each kill.
        problems: what went wrong, in sentences.
    """

    steps: list[Step] = field(default_factory=list)
    undone: list[Undone] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """The rows of all steps that count."""
        return [row for step in self.steps for row in step.rows]


class Ranks:
    """The processes of a phase.

    Args:
        task: what they do.
        division: how many they are.
    """

    def __init__(self, task: Task, division: Division) -> None:
        context = get_context("fork")
        pipes = [context.Pipe() for _ in range(division.ranks)]
        self._connections = [own for own, _ in pipes]
        self._processes = [
            context.Process(target=work, args=(task, division, rank, pipes))
            for rank in range(division.ranks)
        ]
        for process in self._processes:
            process.start()
        for _, other in pipes:
            other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def gather(self, number: int) -> dict[int, Contribution]:
        """Wait for the contributions of some ranks, whichever come first.

        Raises:
            RuntimeError: a rank has failed; it has printed why.
        """
        ranks = {own: rank for rank, own in enumerate(self._connections)}
        arrived: dict[int, Contribution] = {}
        while len(arrived) < number:
            for ready in connections.wait([own for own in ranks if ranks[own] not in arrived]):
                own = next(each for each in ranks if each is ready)
                try:
                    arrived[ranks[own]] = own.recv()
                except (EOFError, ConnectionError):
                    raise RuntimeError(f"rank {ranks[own]} has failed") from None
        return arrived

    def answer(self, total: Total) -> None:
        """Give all ranks the sums of a step."""
        for own in self._connections:
            own.send(total)

    def kill(self) -> None:
        """Kill each rank that still runs, with its workers, by SIGKILL."""
        for process in self._processes:
            if process.is_alive() and process.pid is not None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:  # it has not begun yet
                    process.kill()
            process.join()
        for own in self._connections:
            own.close()


def train(task: Task, phases: Sequence[Phase], samples: int) -> Run:
    """Train in phases, until a number of samples of the endless sequence is read.

    A run that has read them before a phase ends has no later phase.
    """
    task.work.mkdir(parents=True, exist_ok=True)
    task.checkpoint.unlink(missing_ok=True)
    warm_up(task.open_batches(1))
    run = Run()
    for phase in phases:
        if not _train_phase(task, phase, samples, run):
            break
    return run


def _train_phase(task: Task, phase: Phase, samples: int, run: Run) -> bool:
    """Train from the checkpoint on, and return whether the ranks were killed before the end."""
    saved = task.load()
    begin, number = (saved["step"], saved["reader"]["number"]) if saved else (0, 0)
    if run.steps:
        run.undone.append(Undone(begin, run.steps[begin:]))
        del run.steps[begin:]
    ranks_number = phase.division.ranks
    with Ranks(task, phase.division) as ranks:
        while number < samples:
            if phase.steps is not None and len(run.steps) == begin + phase.steps:
                ranks.gather((ranks_number + 1) // 2)  # the others have not finished the step
                return True
            arrived = ranks.gather(ranks_number)
            run.steps.append(_join(arrived, number, run.problems))
            number = arrived[0].number
            done = len(run.steps)
            ranks.answer(_add(arrived, done if done % _SAVE_EVERY == 0 else None))
    return False


def _join(arrived: dict[int, Contribution], number: int, problems: list[str]) -> Step:
    """Return a step from what its ranks read, beginning at a number of the sequence.

    Rank r reads the numbers n with n % ranks == r.
    """
    ranks = len(arrived)
    placed = {
        number + (rank - number) % ranks + place * ranks: row
        for rank, sent in arrived.items()
        for place, row in enumerate(sent.rows)
    }
    rows = tuple(placed[place] for place in sorted(placed))
    if len({sent.weights for sent in arrived.values()}) > 1:
        problems.append("the weights of two ranks differ")
    if {sent.number for sent in arrived.values()} != {number + len(rows)}:
        problems.append("the positions of two ranks differ, or are not those of what they read")
    loss, tokens = sum(row.loss for row in rows), sum(row.tokens for row in rows)
    return Step(rows, mean_loss(loss, tokens).hex(), arrived[0].weights)


def _add(arrived: dict[int, Contribution], saved_step: int | None) -> Total:
    """Return the sum over all ranks, in the order in which they sent; integers have one sum."""
    gradient = np.sum([sent.gradient for sent in arrived.values()], 0)
    tokens = sum(row.tokens for sent in arrived.values() for row in sent.rows)
    return Total(gradient, tokens, saved_step)
