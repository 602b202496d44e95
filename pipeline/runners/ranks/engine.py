"""The local engine on all processes that a launcher has started for one command.

Rank 0 drives the local runner; its workers are those of all ranks. Where a rank or a worker is
lost, what has begun ends, and the ranks that are left begin anew: the journal of the run has what
is finished.
"""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from corpusmill.console.process import FAILURE
from corpusmill.errors import count_things
from corpusmill.location import Location
from pipeline.console.run_log import log_event
from pipeline.job_options import RunOptions
from pipeline.launchers import Rank
from pipeline.runners.engine import Run, Submitted, Worker
from pipeline.runners.failures import WorkerDiedError
from pipeline.runners.local.engine import LocalEngine, count_workers_here, start_workers

if TYPE_CHECKING:
    from pipeline.runners.ranks.meeting import Meeting


class RanksEngine(LocalEngine):
    """Worker processes of all ranks, of which this one is rank 0.

    The engine is made in the middle of a command, and the ranks meet when it begins, so that what
    they share belongs to the class.
    """

    meeting: "ClassVar[Meeting | None]" = None
    own: ClassVar[Sequence[Worker]] = ()

    @cached_property
    def own_workers(self) -> int:
        """The number of workers of this rank, and of each other one unless its machine differs."""
        return count_workers_here(self.options.workers)

    @cached_property
    def parallelism(self) -> int:
        """The number of all workers, as far as it is known before the others have come."""
        return self.own_workers * (self.options.ranks or 1)

    def count_workers(self, text_bytes: int) -> int:
        """Return how many of the workers the input is worth; 0 if this process is faster."""
        least = self.options.min_bytes_per_worker
        return min(self.parallelism, text_bytes // least) if least else self.parallelism

    def start_workers(self, text_bytes: int) -> Sequence[Worker]:
        """Return the workers of all ranks that the input is worth, once the ranks have come."""
        if self.meeting is None:
            return super().start_workers(text_bytes)
        number = self.count_workers(text_bytes)
        if number <= len(self.own):
            return self.own[:number]
        if missing := self.meeting.wait():
            listed = ", ".join(map(str, missing))
            text = f"ranks that have not come, and are not waited for any more: {listed}"
            log_event("ranks_missing", text, {"ranks": missing}, logging.WARNING)
        return [*self.own, *self.meeting.workers()][:number]

    def submit(self, run: Run) -> Submitted:
        """Run a job to its end, as long as there are workers.

        Raises:
            WorkerDiedError: the last one died.
        """
        meeting, workers = self.meeting, run.workers
        if meeting is None or not workers:
            return super().submit(run)
        from pipeline.runners.local.submission import run_on_workers  # noqa: PLC0415  Beam's

        def describe() -> tuple[str, int]:
            members = meeting.members
            hosts = {socket.gethostname(), *(member.hello.host for member in members)}
            ranks = count_things(len(members) + 1, "rank")
            return f"{ranks} on {count_things(len(hosts), 'host')}", len(workers)

        run.counters.workers = describe
        while True:
            try:
                run_on_workers(replace(run, workers=workers), self.arguments, meeting.gate)
                return Submitted()
            except WorkerDiedError as error:
                workers = self._start_again(meeting, error)
                if not workers:
                    raise
                text = f"{error}. The work goes on with {count_things(len(workers), 'worker')}"
                log_event("rank_lost", text, {"workers": len(workers)}, logging.WARNING)

    def _start_again(self, meeting: "Meeting", error: WorkerDiedError) -> Sequence[Worker]:
        """Start the workers of the next attempt: those of all ranks that have not failed."""
        member = getattr(error.worker, "member", None)
        if member:
            member.dismiss(1, f"a worker of this rank has died ({error})")
            member.lose()
        has_own = bool(self.own) and member is not None
        RanksEngine.own = start_workers(self.own_workers) if has_own else ()
        return [*self.own, *meeting.workers()]


@contextmanager
def gathered(rank: Rank, options: RunOptions, place: Location) -> Iterator[Callable[[int], None]]:
    """Let the ranks meet, and work for rank 0, which this one is, until the block ends.

    Args:
        rank: of this process.
        options: of the run.
        place: the file by which ranks meet.

    Yields:
        What is told the exit status of rank 0, with which the others end.

    Raises:
        UserError: this machine cannot be reached, or the file cannot be kept from others.
    """
    # Before there is any thread, so that they are forks.
    RanksEngine.own = start_workers(count_workers_here(options.workers))
    from pipeline.runners.ranks.meeting import Meeting, find_address  # noqa: PLC0415  Beam's

    meeting = Meeting(rank.size, find_address(options.rank_address, rank.is_on_one_host))
    meeting.announce(place)
    RanksEngine.meeting, statuses = meeting, [FAILURE]
    try:
        yield statuses.append
    finally:
        RanksEngine.meeting = None
        meeting.close(statuses[-1])
        for worker in RanksEngine.own:
            worker.kill()
