"""Three ranks that meet in a store, which is away for a minute, or loses one of them."""

import time
from pathlib import Path

import pytest

from corpusmill.console.process import FAILURE
from tests.stores.conftest import Corpus
from tests.tools.jobs import run_here
from tests.tools.launching import Hosts, Ranks
from tests.tools.object_stores import Bucket, Request
from tests.tools.stored_objects import read_objects, write_objects

_SECONDS = 60.0
_FLAGS = ("--min-bytes-per-worker", "0", "--range-bytes", "999")


def start(hosts: Hosts, corpus: Corpus, bucket: Bucket, *flags: str) -> Ranks:
    return hosts.start(*corpus.build(bucket, *_FLAGS, *flags), ranks=3)


def wait_for(bucket: Bucket, name: str, number: int) -> None:
    """Wait until so many files of a name have been written."""
    while (
        sum(one.changes and name in one.path + one.name for one in bucket.proxy.requests) < number
    ):
        time.sleep(0.02)


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_what_ranks_write_to_a_store_is_what_one_process_writes(
    bucket: Bucket, corpus: Corpus, hosts: Hosts
) -> None:
    """Also where one is killed, rank 0 is killed and resumed, and where the store is away."""
    run_here(*corpus.build(bucket, *_FLAGS))
    expected = read_objects(bucket)
    write_objects(bucket, {})

    bucket.proxy.clear()
    job = start(hosts, corpus, bucket)
    wait_for(bucket, "done-task", 3)
    job.kill(1)
    assert job.wait()[::2] == [0, 0], job.read(0)
    assert "The work goes on with 2 workers" in job.read(0)
    assert read_objects(bucket) == expected
    write_objects(bucket, {})

    bucket.proxy.clear()
    job = start(hosts, corpus, bucket)
    wait_for(bucket, "done-task", 3)
    job.kill(0)
    assert job.wait()[1:] == [FAILURE, FAILURE], job.read(1)
    job = start(hosts, corpus, bucket, "--resume")
    assert job.wait() == [0, 0, 0], job.read(0)
    assert read_objects(bucket) == expected
    write_objects(bucket, {})

    bucket.proxy.clear()
    began: list[float] = []

    def judge(request: Request) -> str | None:
        if not began and "done-task" not in request.path + request.name:
            return None
        began.append(time.monotonic())
        return "refused" if began[-1] - began[0] < _SECONDS else None

    bucket.proxy.fault = judge
    job = start(hosts, corpus, bucket)
    assert job.wait() == [0, 0, 0], job.read(0)
    assert began[-1] - began[0] > _SECONDS
    assert read_objects(bucket) == expected
