"""Worker processes of the local runner.

They are made before the first thread is started, when a process can be forked without harm: a fork
finds Beam and the stages imported, which takes two seconds, and shares their memory.
"""

import multiprocessing
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess

from pipeline.runners import worker


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
    """Start workers, forked if that is safe: on Linux, while this process has a single thread."""
    # macOS' system libraries do not outlive a fork.
    single = sys.platform == "linux" and threading.active_count() == 1
    context: SpawnContext | ForkContext = (
        multiprocessing.get_context("fork") if single else multiprocessing.get_context("spawn")
    )
    workers = []
    for _ in range(number):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=worker.main, args=(receiver,), daemon=True)
        process.start()
        receiver.close()
        workers.append(Worker(process, sender))
    return workers
