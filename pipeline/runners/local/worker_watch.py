"""A watch on worker processes: one that dies ends the job at once, instead of making it hang."""

import logging
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, ClassVar

import grpc
from apache_beam.portability import python_urns
from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from google.protobuf import struct_pb2

from pipeline.runners.failures import WorkerDiedError
from pipeline.runners.local.workers import Worker

# A killed process is gone within milliseconds, unless the system is stuck.
_SECONDS_TO_DIE = 5


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    """Beam's handler of a worker process, for a process of ours."""

    def start_worker(self) -> None:
        WorkerWatch.begin(
            self.control_api_service_descriptor(),
            self.provision_info.provision_info.pipeline_options,
            self.worker_id,
        )

    def stop_worker(self) -> None:
        # The job is over. A worker that ended by itself would take two seconds to clear its memory
        # or, in the middle of a bundle that nobody waits for any more, minutes.
        WorkerWatch.end_workers()


class WorkerWatch:
    """Raises in the main thread when a worker dies, at Ctrl-C, and at a request to end.

    The main thread waits for a bundle that will never end, and only a signal reaches it there. The
    workers are ended first, because Beam waits for each of them before it returns.

    Beam itself makes the handlers of workers, so what they share belongs to the class.

    Args:
        workers: processes that have started and wait for work.
    """

    _cause = ""
    _ended = False
    _waiting: ClassVar[list[Worker]] = []
    _working: ClassVar[list[tuple[Worker, threading.Thread]]] = []

    def __init__(self, workers: list[Worker]) -> None:
        WorkerWatch._waiting, WorkerWatch._working = list(workers), []

    def __enter__(self) -> None:
        handlers = {
            signal.SIGUSR1: self._raise_death,
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._interrupt,
        }
        self._previous: dict[signal.Signals, Any] = {
            number: signal.signal(number, handler) for number, handler in handlers.items()
        }
        WorkerWatch._ended = False
        # When a worker dies, its connections break in Beam's threads, each with a useless trace.
        self._previous_hook, threading.excepthook = threading.excepthook, hide_broken_connections
        logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.end_workers()
        logging.disable(logging.NOTSET)
        threading.excepthook = self._previous_hook
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @classmethod
    def begin(
        cls, control: endpoints_pb2.ApiServiceDescriptor, options: struct_pb2.Struct, name: str
    ) -> None:
        """Let the next worker begin (see `Worker.begin`), and watch it from now on."""
        worker = cls._waiting.pop()
        thread = threading.Thread(target=cls._wait, args=(worker.process,), daemon=True)
        cls._working.append((worker, thread))
        with suppress(BrokenPipeError):  # it died before it began, which the thread notices
            worker.begin(control, options, name)
        thread.start()

    @classmethod
    def _wait(cls, process: BaseProcess) -> None:
        process.join()
        # A worker that Beam asks to end exits with 0, just before `stop_worker`.
        if process.exitcode and not cls._ended:
            cls._cause = f"exit status {process.exitcode}"
            os.kill(os.getpid(), signal.SIGUSR1)

    @classmethod
    def end_workers(cls) -> None:
        """Kill every worker process, and ignore what they report from now on."""
        cls._ended = True
        logging.disable()  # Beam logs every one of them as a failure to close
        for worker in [*cls._waiting, *(worker for worker, _ in cls._working)]:
            worker.process.kill()
        # What a worker still writes would race with the removal of the temporary folder.
        for _, thread in cls._working:
            thread.join(_SECONDS_TO_DIE)

    @classmethod
    def _raise_death(cls, _: int, __: FrameType | None) -> None:
        if not cls._ended:
            cls.end_workers()
            raise WorkerDiedError(cls._cause)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.end_workers()
        previous = self._previous[signal.Signals(number)]
        if callable(previous):  # it ends the process if it was called before
            previous(number, frame)
        raise KeyboardInterrupt


def hide_broken_connections(failure: threading.ExceptHookArgs) -> None:
    """Handle an exception of a thread, but ignore that of a Beam thread that lost a connection."""
    if not isinstance(failure.exc_value, grpc.RpcError):
        threading.__excepthook__(failure)
