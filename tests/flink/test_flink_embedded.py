"""The job on Flink inside Beam's job server, with workers on this machine."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.flink.jobs import OBJECTIVES, Corpus, assert_same, await_file, embedded, end, run, start


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_embedded_flink_gives_the_bytes_of_the_local_runner(
    objective: str, job_server_jar: Path, corpus: Corpus, tmp_path: Path
) -> None:
    assert job_server_jar.is_file()
    output = tmp_path / "out"
    printed = run([*corpus.flags(objective, output), *embedded()])
    assert "FlinkRunner: job " in printed
    assert_same(output, corpus.local_digests(objective))


def test_a_worker_that_dies_is_started_again(
    job_server_jar: Path, corpus: Corpus, tmp_path: Path
) -> None:
    assert job_server_jar.is_file()
    output = tmp_path / "out"
    process = start(*corpus.flags("bert", output), *embedded())
    assert await_file(output, "spill-*", process)
    children = psutil.Process(process.pid).children()
    worker = next(
        entry for entry in children if any("SdkHarness" in part for part in entry.cmdline())
    )
    os.kill(worker.pid, signal.SIGKILL)
    end(process)
    assert_same(output, corpus.local_digests("bert"))


def test_embedded_flink_does_not_outlive_its_command(
    job_server_jar: Path, corpus: Corpus, tmp_path: Path
) -> None:
    assert job_server_jar.is_file()
    process = start(*corpus.flags("bert", tmp_path / "out"), "--no-wait", *embedded())
    _, errors = end(process, 2)
    assert "error: --no-wait --runner FlinkRunner: embedded Flink ends with this command" in errors
