"""A watch on worker processes: one that dies ends the job at once, instead of making it hang."""

import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, ClassVar

import grpc
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from corpusmill.console.process import ENDING_SIGNALS
from pipeline.runners.engine import Worker
from pipeline.runners.failures import WorkerDiedError
from pipeline.runners.local.gate import GatedServer

# It does nothing where nobody handles it, and batch systems do not send it.
_DEATH = signal.SIGURG
# A killed process is gone within milliseconds, unless the system is stuck.
_SECONDS_TO_DIE = 5
_SECONDS_BETWEEN_ANSWERS = 0.1
# Another machine is known to be dead after twenty seconds, by the connection of its rank.
_SECONDS_TO_HEAR = 60


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    """Beam's handler of a worker process, for one of ours, which has an id at the gate."""

    def __init__(self, payload: bytes, state: Any, provision_info: Any, server: Any) -> None:
        super().__init__(payload, state, provision_info, server)
        self.number: str = self.worker_id
        self.worker_id: str = server.make_id()
        self.control_conn = self.control_handler.get_conn_by_worker_id(self.worker_id)
        self.data_conn = self.data_plane_handler.get_conn_by_worker_id(self.worker_id)

    def port_from_worker(self, _: int) -> str:
        return GatedServer.gate.address

    def start_worker(self) -> None:
        WorkerWatch.begin(self)

    def stop_worker(self) -> None:
        # The job is over. A worker that ended by itself would take two seconds to clear its memory
        # or, in the middle of a bundle that nobody waits for any more, minutes.
        WorkerWatch.end_workers()


class WorkerWatch:
    """Raises in the job's thread when a worker dies; in the main thread at Ctrl-C as well.

    That thread waits for a bundle that will never end. Only a signal reaches the main thread there;
    any other one, as in a program that builds in the background, gets failures in place of the
    answers that it waits for. The workers are ended first, because Beam waits for each of them
    before it returns.

    Beam itself makes the handlers of workers, so what they share belongs to the class.

    Args:
        workers: processes that have started and wait for work.
    """

    _cause = ""
    _dead: Worker | None = None
    _ended = False
    _waiting: ClassVar[list[Worker]] = []
    _working: ClassVar[list[tuple[Worker, threading.Thread]]] = []
    _handlers: ClassVar[list[_WatchedWorkerHandler]] = []
    _in_main_thread = True

    def __init__(self, workers: Sequence[Worker]) -> None:
        WorkerWatch._waiting, WorkerWatch._working = list(workers), []
        WorkerWatch._handlers, WorkerWatch._cause = [], ""
        WorkerWatch._in_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        if self._in_main_thread:
            # A program that does not handle one ends at once, and its workers with it.
            handled = [one for one in ENDING_SIGNALS if callable(signal.getsignal(one))]
            handlers = {**dict.fromkeys(handled, self._interrupt), _DEATH: self._raise_death}
            self._previous = {
                number: signal.signal(number, handler) for number, handler in handlers.items()
            }
        WorkerWatch._ended = False
        # When a worker dies, its connections break in Beam's threads, each with a useless trace.
        self._previous_hook, threading.excepthook = threading.excepthook, hide_broken_connections
        logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def __exit__(self, kind: object, *_: object) -> None:
        cause = "" if self._in_main_thread else self._cause
        self.end_workers()
        WorkerWatch._handlers = []
        logging.disable(logging.NOTSET)
        threading.excepthook = self._previous_hook
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if cause and kind is not None:
            raise WorkerDiedError(cause, self._dead) from None

    @classmethod
    def begin(cls, handler: _WatchedWorkerHandler) -> None:
        """Let the next worker begin (see `Worker.begin`), and watch it from now on."""
        worker = cls._waiting.pop()
        cls._handlers.append(handler)
        thread = threading.Thread(target=cls._wait, args=(worker,), daemon=True)
        cls._working.append((worker, thread))
        with suppress(BrokenPipeError):  # it died before it began, which the thread notices
            worker.begin(
                handler.control_api_service_descriptor(),
                handler.provision_info.provision_info.pipeline_options,
                handler.worker_id,
                GatedServer.gate.variables,
            )
        thread.start()

    @classmethod
    def _wait(cls, worker: Worker) -> None:
        cause = worker.wait()
        if cause and not cls._ended:
            cls._cause, cls._dead = cause, worker
            if cls._in_main_thread:
                os.kill(os.getpid(), _DEATH)
            else:
                threading.Thread(target=cls._fail_job, args=(cls._cause,), daemon=True).start()

    @classmethod
    def lose(cls, handler: _WatchedWorkerHandler) -> None:
        """End a worker whose data no longer comes, and wait until the job has heard of its end.

        Connections of one machine break at different moments, and the one that carries data may be
        the first: without this, the job would end by a fault that names no worker.
        """
        worker, _ = cls._working[cls._handlers.index(handler)]
        worker.kill()
        end = time.monotonic() + _SECONDS_TO_HEAR
        while not cls._ended and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_ANSWERS)

    @classmethod
    def _fail_job(cls, cause: str) -> None:
        """Answer all that the job asks of its workers with a failure, until it has ended."""
        cls.end_workers()
        while cls._handlers:
            for handler in cls._handlers:
                for name, future in list(handler.control_conn._futures_by_id.items()):
                    if not future.is_done():
                        response = beam_fn_api_pb2.InstructionResponse
                        future.set(response(instruction_id=name, error=cause))
            time.sleep(_SECONDS_BETWEEN_ANSWERS)

    @classmethod
    def end_workers(cls) -> None:
        """Kill every worker process, and ignore what they report from now on."""
        cls._ended = True
        logging.disable()  # Beam logs every one of them as a failure to close
        for worker in [*cls._waiting, *(worker for worker, _ in cls._working)]:
            worker.kill()
        # What a worker still writes would race with the removal of the temporary folder.
        for _, thread in cls._working:
            thread.join(_SECONDS_TO_DIE)

    def _raise_death(self, _: int, __: FrameType | None) -> None:
        if self._cause and not self._ended:
            self.end_workers()
            raise WorkerDiedError(self._cause, self._dead)

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
