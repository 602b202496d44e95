"""Twenty kills at random moments: a worker or a TaskManager, whatever the job does just then."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.flink.cluster import Cluster
from tests.flink.jobs import Corpus, JobServer, assert_same, await_file, end, on_cluster, start

RUNS, KILLS = 4, 5


def start_job(
    cluster: Cluster, server: JobServer, corpus: Corpus, output: Path
) -> "subprocess.Popen[str]":
    """Start a job, and wait for its first file."""
    cluster.await_slots()
    flags = on_cluster(cluster, f"--job_endpoint={server.endpoint}")
    process = start(*corpus.flags("bert", output), *flags)
    await_file(output, "spill-*", process)
    return process


@pytest.fixture(scope="module")
def seconds(
    cluster: Cluster,
    job_server: JobServer,
    corpus: Corpus,
    tmp_path_factory: pytest.TempPathFactory,
) -> float:
    """How long the job works without a kill, from its first file."""
    output = tmp_path_factory.mktemp("whole") / "out"
    process = start_job(cluster, job_server, corpus, output)
    begin = time.monotonic()
    end(process)
    return time.monotonic() - begin


def strike(cluster: Cluster, draw: random.Random) -> str:
    """Kill a TaskManager or a worker; between two stages there may be no worker."""
    workers = cluster.workers()
    if workers and draw.random() < 0.5:
        os.kill(draw.choice(workers), signal.SIGKILL)
        return "worker"
    os.kill(draw.choice(cluster.task_managers), signal.SIGKILL)
    return "TaskManager"


@pytest.mark.parametrize("seed", range(RUNS))
def test_kills_at_any_moments_change_no_byte(
    seed: int,
    cluster: Cluster,
    job_server: JobServer,
    corpus: Corpus,
    seconds: float,
    tmp_path: Path,
) -> None:
    expected = corpus.local_digests("bert")
    draw = random.Random(seed)
    output, struck = tmp_path / "out", []
    process = start_job(cluster, job_server, corpus, output)
    for _ in range(KILLS):
        # Each is drawn from its part of the time, so that all find the job at work: what they
        # destroy makes it last longer.
        time.sleep(draw.uniform(0, seconds / KILLS))
        assert process.poll() is None, "the job ended before its kills"
        struck.append(strike(cluster, draw))
    print(f"seed {seed}: {struck}")
    end(process)
    assert_same(output, expected)
    # An attempt that of a dead TaskManager must not write anything later on.
    time.sleep(3)
    assert_same(output, expected)
