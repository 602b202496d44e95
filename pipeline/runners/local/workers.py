"""Worker processes of the local runner.

They are made before the first thread is started, when a process can be forked without harm: a fork
finds Beam and the stages imported, which takes two seconds, and shares their memory. Where threads
run already, as in a notebook, a server process that has none imports them once, and is forked.
"""

import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

from pipeline.runners.local import worker

# The server of forks listens at a file in a folder of its own there, by a path of 107 bytes.
_LONGEST_TEMPORARY_FOLDER = 60


@dataclass(frozen=True)
class Worker:
    """A process that waits for its environment, and then works for the runner.

    Attributes:
        process: the process.
        environment: where it waits.
    """

    process: BaseProcess
    environment: Connection

    def begin(self, environment: Mapping[str, str]) -> None:
        """Let it work.

        Args:
            environment: what Beam's worker reads from its environment, over this process' own.
        """
        self.environment.send(dict(environment))
        self.environment.close()


def start_workers(number: int) -> list[Worker]:
    """Start workers.

    Args:
        number: how many.
    """
    context = _choose_context()
    workers = []
    for _ in range(number):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=worker.main, args=(receiver,), daemon=True)
        process.start()
        receiver.close()
        workers.append(Worker(process, sender))
    return workers


def _choose_context() -> ForkContext | ForkServerContext | SpawnContext:
    # macOS' system libraries do not outlive a fork.
    may_fork = sys.platform == "linux"
    if may_fork and threading.active_count() == 1:
        return multiprocessing.get_context("fork")
    if not may_fork or len(tempfile.gettempdir().encode()) > _LONGEST_TEMPORARY_FOLDER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pipeline.runners.launch", "pipeline.graph"])
    return context
