"""A pool of Python workers for Flink, at one address alone, which restarts killed workers.

    python -m pipeline.runners.flink.pool 127.0.0.1:50000

Flink waits for ever for a worker that is killed before it has called, as may happen when memory
runs out. Beam's boot program, the pool of its images, restarts such a worker; Beam's pool without
that program does not. Both know a worker by its number in its job alone, so that two jobs on one
machine end each other's workers, and start the first `python` on the search path.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from pipeline.runners.beam_servers import serve_pool

_LOG = logging.getLogger(__name__)
_CHECKOUT = Path(__file__).resolve().parents[3]
_MOST_RESTARTS = 3

# Without the timed flush of a worker's output, which loses elements: it takes no lock.
_WORKER = (
    "import sys; from apache_beam.runners.worker.sdk_worker import SdkHarness; "
    "SdkHarness(sys.argv[1], worker_id=sys.argv[2], data_buffer_time_limit_ms=-1).run()"
)


class _Worker:
    """A worker process, which is restarted when it is killed."""

    def __init__(self, command: list[str]) -> None:
        self._command, self._lock, self._is_stopped = command, threading.Lock(), False
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(filter(None, (str(_CHECKOUT), os.environ.get("PYTHONPATH"))))
        # Nobody would read what it prints.
        return subprocess.Popen(  # noqa: S603  our own program
            self._command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
        )

    def watch(self) -> None:
        """Wait for its end, and restart it if it was killed."""
        for _ in range(_MOST_RESTARTS):
            if self._process.wait() >= 0:
                return
            with self._lock:
                if self._is_stopped:
                    return
                self._process = self._start()
        self._process.wait()

    def stop(self) -> None:
        """End it for good."""
        with self._lock:
            self._is_stopped = True
            self._process.kill()
        self._process.wait()


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts workers as processes of this Python, and restarts those that are killed.

    A worker is known by its number in its job, and by the connection over which it was asked for.
    """

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], list[_Worker]] = {}

    def StartWorker(  # noqa: N802  the protocol's name
        self, request: beam_fn_api_pb2.StartWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Start a worker, and watch it from then on."""
        key = (context.peer(), request.worker_id)
        endpoint = request.control_endpoint.url
        try:
            worker = _Worker([sys.executable, "-c", _WORKER, endpoint, request.worker_id])
        except OSError:
            return beam_fn_api_pb2.StartWorkerResponse(error=traceback.format_exc())
        self._workers.setdefault(key, []).append(worker)
        threading.Thread(target=self._watch, args=(key, worker), daemon=True).start()
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(  # noqa: N802  likewise
        self, request: beam_fn_api_pb2.StopWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """End a worker that was asked for over this connection.

        A connection that was idle for half an hour has been replaced by another one. Its workers
        end by themselves when they notice that Flink has let them go.
        """
        workers = self._workers.get((context.peer(), request.worker_id), [])
        if not workers:
            _LOG.info("worker %s is left to end by itself", request.worker_id)
        for worker in list(workers):
            worker.stop()
        return beam_fn_api_pb2.StopWorkerResponse()

    def close(self) -> None:
        """End all workers."""
        for workers in list(self._workers.values()):
            for worker in list(workers):
                worker.stop()

    def _watch(self, key: tuple[str, str], worker: _Worker) -> None:
        worker.watch()
        self._workers[key].remove(worker)


@contextmanager
def started_pool(address: str) -> Iterator[str]:
    """Serve a pool for the length of a block, as `serve_pool`; yields its address."""
    pool = WorkerPool()
    try:
        with serve_pool(pool, address) as served:
            yield served
    finally:
        pool.close()


def main(address: str) -> None:
    """Serve until the process that started this one is gone, or this one is asked to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parent = os.getppid()
    with suppress(KeyboardInterrupt), started_pool(address):
        while os.getppid() == parent:
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
