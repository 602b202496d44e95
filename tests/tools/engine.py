"""An engine elsewhere: Beam's job service and a pool of workers, in a process of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import grpc
from apache_beam.metrics import Metrics
from apache_beam.portability.api import (
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
)
from apache_beam.runners.portability.local_job_service import LocalJobServicer
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from tests.conftest import CHECKOUT
from transforms.tally import NAMESPACE

RUNNING = beam_job_api_pb2.JobState.RUNNING


@dataclass(frozen=True)
class Engine:
    """A running engine.

    Attributes:
        process: its process.
        endpoint: the address of its job service.
        pool: the address of its worker pool.
    """

    process: "subprocess.Popen[str]"
    endpoint: str
    pool: str

    @property
    def flags(self) -> list[str]:
        """The flags of a command that runs its job there; further options for Beam may follow."""
        environment = ["--environment_type=EXTERNAL", f"--environment_config={self.pool}"]
        return ["--runner", "PortableRunner", "--", f"--job_endpoint={self.endpoint}", *environment]

    def jobs(self) -> dict[str, int]:
        """Return the state of each job by its id."""
        answer = self._stub().GetJobs(beam_job_api_pb2.GetJobsRequest())
        return {job.job_id: job.state for job in answer.job_info}

    def cancel(self, job_id: str) -> None:
        """Cancel a job, as somebody else than its submitter can."""
        self._stub().Cancel(beam_job_api_pb2.CancelJobRequest(job_id=job_id))

    def once_it_runs(self, action: Callable[[str], object]) -> Thread:
        """Apply an action, in a thread, to the next job that runs."""
        known = self.jobs()

        def act() -> None:
            while True:
                for job_id, state in self.jobs().items():
                    if job_id not in known and state == RUNNING:
                        action(job_id)
                        return
                time.sleep(0.02)

        thread = Thread(target=act, daemon=True)
        thread.start()
        return thread

    def _stub(self) -> beam_job_api_pb2_grpc.JobServiceStub:
        return beam_job_api_pb2_grpc.JobServiceStub(grpc.insecure_channel(self.endpoint))


@contextmanager
def start_engine() -> Iterator[Engine]:
    """Run an engine for the length of a block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tools.engine"], cwd=CHECKOUT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout
        yield Engine(process, *json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


def count_seconds(seconds: int) -> int:
    """Work for a known time, and count it; the engine's workers can import this module."""
    time.sleep(seconds)
    Metrics.counter(NAMESPACE, "read.seconds").inc(seconds)
    return seconds


def serve() -> None:
    """Serve until the process that started this one ends."""
    jobs = LocalJobServicer()
    endpoint = f"localhost:{jobs.start_grpc_server()}"
    server = grpc.server(shared_unbounded_instance())
    port = server.add_insecure_port("127.0.0.1:0")
    pool = BeamFnExternalWorkerPoolServicer(use_process=False)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.start()
    print(json.dumps([endpoint, f"127.0.0.1:{port}"]), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve()
