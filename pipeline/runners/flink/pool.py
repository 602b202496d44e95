"""A pool of Python workers for Flink: Beam's, at one address alone, which restarts killed workers.

    python -m pipeline.runners.flink.pool 127.0.0.1:50000

Flink waits for ever for a worker that is killed before it has called, as may happen when memory
runs out. Beam's boot program, the pool of its images, restarts such a worker; Beam's pool without
that program does not.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from pipeline.runners.worker_pool import serve_pool

_MOST_RESTARTS = 3


class WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Starts workers as processes, and restarts those that are killed."""

    def __init__(self) -> None:
        # Without the timed flush of a worker's output, which loses elements: it takes no lock.
        super().__init__(use_process=True, data_buffer_time_limit_ms=-1)
        self._closed = False

    def StartWorker(  # noqa: N802  Beam's name
        self, start_worker_request: beam_fn_api_pb2.StartWorkerRequest, unused_context: object
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Start a worker as Beam does, and watch it from then on."""
        response = super().StartWorker(start_worker_request, unused_context)
        name = start_worker_request.worker_id
        process = self._worker_processes.get(name)
        if process is not None:
            threading.Thread(target=self._watch, args=(name, process), daemon=True).start()
        return response

    def close(self) -> None:
        """End all workers."""
        self._closed = True
        for process in list(self._worker_processes.values()):
            process.kill()
            process.wait()

    def _watch(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        for _ in range(_MOST_RESTARTS):
            killed = process.wait() < 0
            # A worker that Flink has ended is no longer in the table.
            if not killed or self._closed or self._worker_processes.get(name) is not process:
                return
            process = subprocess.Popen(process.args, stdout=subprocess.DEVNULL)  # noqa: S603
            self._worker_processes[name] = process


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
    """Serve until the process that started this one is gone."""
    parent = os.getppid()
    with suppress(KeyboardInterrupt), started_pool(address):
        while os.getppid() == parent:
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
