"""What a job is worth on this machine, and what its worker processes change in Beam."""

import errno
import resource
import subprocess
import sys

import pytest
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
from rich.console import Console

from corpusmill.errors import UserError
from pipeline.console.progress import Work
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Worker
from pipeline.runners.launch import Launch
from pipeline.runners.local.engine import LocalEngine, start_workers
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


# What a job is worth, before it is given to an engine


class _Started(Exception):  # noqa: N818  not an error, but how far the job gets
    """Says for how much text workers were started."""


class _Counting(LocalEngine):
    def start_workers(self, text_bytes: int) -> list[Worker]:
        raise _Started(self.count_workers(text_bytes))


@pytest.mark.parametrize(("shards", "workers"), [(1, 0), (100, 0), (300, 1), (1833, 2)])
def test_many_small_shards_are_worth_workers_whatever_their_text(shards: int, workers: int) -> None:
    launch = Launch(_Counting(RunOptions(workers=2)), Console(), LogOptions())
    work = Work(1000, 1, tasks=1, shards=shards)
    with pytest.raises(_Started, match=f"^{workers}$"):
        launch.run(lambda _: None, work, 1000, "", lambda: False)


@pytest.mark.parametrize(
    ("limit", "is_refused"), [(10**9, True), (2 * 10**9, False), (resource.RLIM_INFINITY, False)]
)
def test_too_few_addresses_for_the_libraries_are_refused(
    limit: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, resource.RLIM_INFINITY))
    engine = LocalEngine(RunOptions(workers=2))
    if not is_refused:
        engine.check()
        return
    with pytest.raises(UserError, match=r"^ulimit -v 976562: .* at least 1.4 GB"):
        engine.check()
