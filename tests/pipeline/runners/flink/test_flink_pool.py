"""A pool of workers: which Python they run, which jobs they belong to, and what restarts them."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, endpoints_pb2

from pipeline.runners.flink import pool as pools
from pipeline.runners.flink.pool import WorkerPool


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """A pool of workers that do not work."""
    monkeypatch.setattr(pools, "_WORKER", "import time; time.sleep(600)")
    pool = WorkerPool()
    yield pool
    pool.close()


def start(pool: WorkerPool, peer: str, worker: str = "1-1") -> psutil.Process:
    """Ask for a worker over a connection."""
    known = psutil.Process().children()
    endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{peer}")
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id=worker, control_endpoint=endpoint)
    assert not pool.StartWorker(request, connection(peer)).error
    [process] = set(psutil.Process().children()) - set(known)
    return process


def stop(pool: WorkerPool, peer: str, worker: str = "1-1") -> None:
    pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=worker), connection(peer))


def connection(peer: str) -> Any:
    return SimpleNamespace(peer=lambda: peer)


def test_jobs_on_one_machine_leave_each_others_workers_alone(pool: WorkerPool) -> None:
    first, second = start(pool, "1"), start(pool, "2")
    assert first.is_running()
    stop(pool, "1")
    assert not first.is_running()
    stop(pool, "1")
    assert second.is_running()
    stop(pool, "2")
    assert not second.is_running()


def test_workers_run_this_python_with_this_checkout(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done, folder = tmp_path / "done", tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(folder)
    program = f"import apache_beam, transforms; open({str(done)!r}, 'w')"
    monkeypatch.setattr(pools, "_WORKER", program)
    start(pool, "1").wait()
    assert done.exists()


def test_a_worker_that_is_killed_is_restarted_unless_it_was_stopped(pool: WorkerPool) -> None:
    others = {*psutil.Process().children()}
    worker = start(pool, "1")
    worker.kill()
    while not (again := {*psutil.Process().children()} - others - {worker}):
        time.sleep(0.01)
    stop(pool, "1")
    assert not again.pop().is_running()
