"""Twenty kills at random moments: a worker or a TaskManager, whatever the job does just then."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests_flink.cluster import Cluster
from tests_flink.jobs import Corpus, JobServer, assert_same, await_file, on_cluster, start

KILLS = 20


@pytest.fixture(scope="session")
def seconds(
    cluster: Cluster,
    job_server: JobServer,
    corpus: Corpus,
    tmp_path_factory: pytest.TempPathFactory,
) -> float:
    """How long the job works without a kill, from its first file."""
    output = tmp_path_factory.mktemp("whole") / "out"
    cluster.await_slots()
    process = start(*corpus.flags("bert", output), *flags(cluster, job_server))
    await_file(output, "spill-*", process)
    begin = time.monotonic()
    process.communicate()
    assert process.returncode == 0
    return time.monotonic() - begin


def flags(cluster: Cluster, server: JobServer) -> list[str]:
    return on_cluster(cluster, f"--job_endpoint={server.endpoint}")


@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_at_any_moment_changes_no_byte(
    number: int,
    cluster: Cluster,
    job_server: JobServer,
    corpus: Corpus,
    seconds: float,
    tmp_path: Path,
) -> None:
    expected = corpus.local_digests("bert")
    draw = random.Random(number)
    cluster.await_slots()
    output = tmp_path / "out"
    process = start(*corpus.flags("bert", output), *flags(cluster, job_server))
    await_file(output, "spill-*", process)
    time.sleep(draw.uniform(0, seconds))
    candidates = [cluster.task_managers, cluster.workers() or cluster.task_managers]
    os.kill(draw.choice(draw.choice(candidates)), signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_same(output, expected)
    # An attempt that a dead TaskManager left behind must not write anything later on.
    time.sleep(3)
    assert_same(output, expected)
