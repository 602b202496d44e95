"""The local engine, which needs nothing but Python, and its worker processes.

A small corpus is built in this process, by a runner of our own (`in_process`). Worker processes
belong to Beam's FnApiRunner, with cures for four faults that were measured (Beam 2.77):

- the timed flush of its data plane silently loses elements: it is switched off;
- a worker process that dies makes the job hang for ever: a watch on each worker ends the job
  (`worker_watch`);
- it gives worker processes empty options: they get ours;
- a bundle waits up to 200 ms for the thread that samples its stages: the samples are 10 ms apart.

Workers are made before the first thread starts, while a process can be forked without harm: a fork
finds Beam and the stages imported, which takes two seconds otherwise, and shares their memory.
Where threads run already, as in a notebook, a server process without threads imports them once and
is forked instead.
"""

import multiprocessing
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from pathlib import Path
from types import ModuleType

import psutil

from corpusmill.console.process import ENDING_SIGNALS
from corpusmill.errors import UserError
from corpusmill.location import scheme_of
from corpusmill.processors import count_processors
from pipeline.runners.engine import Engine, Reach, Run, Submitted, Worker, WorkerProcess

# The fork server listens at a file in a folder that it makes there; its path may have 107 bytes.
_LONGEST_TEMPORARY_FOLDER = 60
# More workers than cores are of use only where files are slow.
_WORKERS_PER_CORE = 8
_WORKER_BYTES = 2**29
# Addresses that a job of this engine takes at least, most of which no memory stands behind. With
# fewer, libraries that it imports end the process, or try again for ever (measured).
_ADDRESS_BYTES = 1.4e9
# Where a container's limit stands, in the two versions of Linux's control groups.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def most_workers() -> int:
    """Return how many workers this machine can hold, by its cores and its memory."""
    limits = [path.read_text().strip() for path in map(Path, _MEMORY_LIMITS) if path.is_file()]
    numbers = [int(limit) for limit in limits if limit.isdecimal()]
    memory = min([psutil.virtual_memory().total, *numbers])
    cores = count_processors()
    return max(1, min(cores * _WORKERS_PER_CORE, memory // _WORKER_BYTES))


def count_workers_here(wanted: int) -> int:
    """Return how many of the wanted workers there are: not more than this machine can hold."""
    return min(wanted, most_workers())


def start_workers(number: int) -> list[WorkerProcess]:
    """Start this many workers."""
    # A fork finds Beam's runner and its worker imported.
    from pipeline.runners.local import submission, worker  # noqa: F401, PLC0415

    context = _choose_context()
    workers = []
    compiling = context.Pipe(duplex=False)
    for _ in range(number):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=worker.main, args=(receiver, compiling[1]), daemon=True)
        # Until it can ignore Ctrl-C, which a terminal sends to all processes, it must not come.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            with _without_main():
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        receiver.close()
        workers.append(WorkerProcess(process, sender, compiling))
    return workers


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the running program from processes that start.

    A process that is not a fork would run it again, as `multiprocessing` does for functions that
    are defined there: a program that builds a data set would need `if __name__ == "__main__"`.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _choose_context() -> ForkContext | ForkServerContext | SpawnContext:
    # The system libraries of macOS do not survive a fork.
    may_fork = sys.platform == "linux"
    if may_fork and threading.active_count() == 1:
        return multiprocessing.get_context("fork")
    if not may_fork or len(tempfile.gettempdir().encode()) > _LONGEST_TEMPORARY_FOLDER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pipeline.runners.local.submission", "pipeline.graph"])
    return context


# Beam does without them, as it is installed without its extras.
_CLIENTS = ("google.cloud", "apitools", "pymongo", "bson", "boto3", "apache_beam.io.gcp.bigquery")


class LocalEngine(Engine):
    """This process, or worker processes of Beam's local runner."""

    name = "local"
    # No shard is ever retried here.
    largest_shard_bytes = float("inf")
    reach = Reach.HERE
    reason_to_wait = "it runs in this process"

    @property
    def unused_packages(self) -> tuple[str, ...]:
        """The clients of stores and services, unless a place is in one of them."""
        is_here = all(scheme_of(path) in {None, "hf"} for _, path in self.places)
        return _CLIENTS if is_here and not self.flags else ()

    @cached_property
    def parallelism(self) -> int:
        """The number of workers: not more than this machine can hold."""
        return count_workers_here(self.options.workers)

    @property
    def remark(self) -> str:
        """Say that there are fewer workers than the user wants."""
        wanted, workers = self.options.workers, self.parallelism
        cause = "as many as this machine's cores and memory can hold"
        return f"--workers {wanted}: {workers} are used, {cause}" if workers < wanted else ""

    def check_options(self) -> None:
        """Refuse a limit of the process with which libraries would fail or hang.

        Raises:
            UserError: there is such a limit.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < _ADDRESS_BYTES:
            cause = f"a job takes at least {_ADDRESS_BYTES / 1e9} GB of addresses in each process"
            raise UserError(f"ulimit -v {limit // 1024}", cause, "Raise this limit")

    def count_workers(self, text_bytes: int) -> int:
        """Return how many of the wanted workers the input is worth; 0 if this process is faster."""
        workers, min_bytes = self.options.workers, self.options.min_bytes_per_worker
        return min(workers, text_bytes // min_bytes) if min_bytes else workers

    def start_workers(self, text_bytes: int) -> Sequence[Worker]:
        """Start the worker processes that the input is worth, as far as this machine holds them."""
        number = min(self.parallelism, self.count_workers(text_bytes))
        return start_workers(number) if number else []

    def load(self, text_bytes: int) -> None:
        """Import the runner, and Beam's worker if the input is worth worker processes."""
        import pipeline.runners.local.in_process  # noqa: PLC0415

        if self.count_workers(text_bytes):
            import pipeline.runners.local.submission  # noqa: F401, PLC0415

    def submit(self, run: Run) -> Submitted:
        """Run a job to its end.

        Raises:
            WorkerDiedError: a worker process died.
        """
        # They import Beam.
        if run.workers:
            from pipeline.runners.local.gate import Gate  # noqa: PLC0415
            from pipeline.runners.local.submission import run_on_workers  # noqa: PLC0415

            with closing(Gate()) as gate:
                run_on_workers(run, self.arguments, gate)
        else:
            from pipeline.runners.local.in_process import run_in_process  # noqa: PLC0415

            run_in_process(run, self.arguments)
        return Submitted()
