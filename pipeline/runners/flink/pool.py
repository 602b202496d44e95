"""A pool of Python workers for Flink: Beam's, at one address alone, and with an eye on its workers.

    python -m pipeline.runners.flink.pool 127.0.0.1:50000

Flink waits for ever for a worker that is killed before it has called, as memory may run out just
then. Beam's boot program, which is the pool of its images, starts such a worker again; Beam's pool
without it does not, and it listens on every address of the machine, for anyone.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

_MOST_RESTARTS = 3


class WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Starts workers as processes, and those that are killed again."""

    def __init__(self) -> None:
        # No timed flush of a worker's output: it loses elements (BEAM's data plane takes no lock).
        super().__init__(use_process=True, data_buffer_time_limit_ms=-1)
        self._closed = False

    def StartWorker(  # noqa: N802 (Beam's name)
        self, start_worker_request: beam_fn_api_pb2.StartWorkerRequest, unused_context: object
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """As Beam's, and watched from then on."""
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
            # One that Flink has ended is not in the table any more.
            if not killed or self._closed or self._worker_processes.get(name) is not process:
                return
            process = subprocess.Popen(process.args, stdout=subprocess.DEVNULL)  # noqa: S603
            self._worker_processes[name] = process


@contextmanager
def started_pool(address: str) -> Iterator[str]:
    """A pool for the length of a block.

    Args:
        address: "host:port"; port 0 takes a free one.

    Yields:
        The address with its port.
    """
    pool = WorkerPool()
    server = grpc.server(
        thread_pool_executor.shared_unbounded_instance(), options=[("grpc.so_reuseport", 0)]
    )
    port = server.add_insecure_port(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        server.stop(0)
        pool.close()


def main(address: str) -> None:
    """Serve until the process that started this one is gone."""
    parent = os.getppid()
    with suppress(KeyboardInterrupt), started_pool(address):
        while os.getppid() == parent:
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
