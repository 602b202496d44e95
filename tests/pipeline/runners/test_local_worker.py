"""What a worker process of this machine changes in Beam."""

import errno
import subprocess
import sys

import pytest
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory

from pipeline.runners.local.engine import start_workers
from pipeline.runners.local.worker import end_bundles_at_once
from tests.conftest import CHECKOUT

# Freed memory that does not lie at the end of the heap, which would be returned at once.
_PROGRAM = """
import psutil
from apache_beam.runners.worker import sdk_worker
from pipeline.runners.local.worker import _keep_freed_memory, return_memory_between_bundles

def used():
    return psutil.Process().memory_info().rss >> 20

sdk_worker.SdkWorker.process_bundle = lambda worker, request, instruction: used()
_keep_freed_memory()
return_memory_between_bundles()
first = used()
arrays = [bytearray(b"x" * 2**20) for _ in range(200)]
last = arrays.pop()
del arrays
print(used() - first, sdk_worker.SdkWorker.process_bundle(None, "request", "1") - first)
"""


def test_a_bundle_ends_within_moments_of_its_last_element() -> None:
    end_bundles_at_once()
    assert StateSampler("stage", CounterFactory()).sampling_period_ms <= 10


def test_what_a_stage_has_freed_is_returned_before_the_next_one() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE
    ).stdout
    kept, returned = map(int, printed.split())
    assert kept > 150
    assert returned < 50


def test_workers_start_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/shm")  # noqa: S108

    monkeypatch.setattr("multiprocessing.heap.Arena.__init__", refuse)
    [started] = start_workers(1)
    assert started.process.is_alive()
    started.process.kill()
    started.process.join()
