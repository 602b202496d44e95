"""Worker processes under watch: one that dies ends the job at once, instead of hanging it."""

import logging
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import ClassVar

import grpc
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from google.protobuf import json_format, text_format

from pipeline.runners.local.workers import Worker

# A killed process is gone within milliseconds, unless the system is stuck.
_SECONDS_TO_DIE = 5


class WorkerDiedError(Exception):
    """A worker process of the local runner ended before its work."""


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    """Beam's handler of a worker process, for a process of ours."""

    def start_worker(self) -> None:
        control = text_format.MessageToString(self.control_api_service_descriptor())
        options = self.provision_info.provision_info.pipeline_options
        environment = {
            "CONTROL_API_SERVICE_DESCRIPTOR": control,
            "PIPELINE_OPTIONS": json_format.MessageToJson(options),
            "WORKER_ID": self.worker_id,
        }
        WorkerWatch.begin(environment)

    def stop_worker(self) -> None:
        # The job is over. A worker that were let to end by itself would take two seconds to clear
        # its memory or, in the middle of a bundle that nobody waits for any more, minutes.
        WorkerWatch.end_workers()


class WorkerWatch:
    """While it is entered, a worker's death, Ctrl-C or a request to end raise in the main thread.

    The main thread waits for a bundle that will never end; only a signal reaches it there. The
    workers are ended first, because Beam waits for each of them on its way out.

    Beam makes the handlers of workers itself, so that what they share is the class'.

    Args:
        workers: started, but without work.
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
            signal.SIGINT: self._raise_interrupt,
            signal.SIGTERM: self._raise_interrupt,
        }
        self._previous = {number: signal.signal(number, of) for number, of in handlers.items()}
        WorkerWatch._ended = False
        # The connections of a worker that dies break in Beam's threads, each with a trace of no
        # use.
        self._previous_hook, threading.excepthook = threading.excepthook, hide_broken_connections
        logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.end_workers()
        logging.disable(logging.NOTSET)
        threading.excepthook = self._previous_hook
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @classmethod
    def begin(cls, environment: Mapping[str, str]) -> None:
        """Let the next worker begin, and watch it from now on."""
        worker = cls._waiting.pop()
        thread = threading.Thread(target=cls._wait, args=(worker.process,), daemon=True)
        cls._working.append((worker, thread))
        with suppress(BrokenPipeError):  # it died before it began; the thread tells
            worker.begin(environment)
        thread.start()

    @classmethod
    def _wait(cls, process: BaseProcess) -> None:
        process.join()
        # One that is told to go on its own ends with 0, just before `stop_worker`.
        if process.exitcode and not cls._ended:
            cls._cause = f"exit status {process.exitcode}"
            os.kill(os.getpid(), signal.SIGUSR1)

    @classmethod
    def end_workers(cls) -> None:
        """Kill every worker process; what they report from now on is no news."""
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

    @classmethod
    def _raise_interrupt(cls, _: int, __: FrameType | None) -> None:
        cls.end_workers()
        raise KeyboardInterrupt


def hide_broken_connections(failure: threading.ExceptHookArgs) -> None:
    """A hook for exceptions of threads: Beam's, whose connection breaks, have nothing to say."""
    if not isinstance(failure.exc_value, grpc.RpcError):
        threading.__excepthook__(failure)
