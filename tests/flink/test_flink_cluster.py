"""The job on a cluster of one JobManager and two TaskManagers, each with its worker pool.

`test_flink_kills` kills both while a job is at work.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from pipeline.runners.flink.job import CANCELED, FINISHED, FlinkRest
from tests.flink.cluster import Cluster
from tests.flink.jobs import Corpus, JobServer, assert_same, await_file, end, on_cluster, run, start

PREPARE = "spill-*"


def stop(process: int) -> None:
    os.kill(process, signal.SIGSTOP)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def of_job_server(cluster: Cluster, server: JobServer, *further: str) -> list[str]:
    return on_cluster(cluster, f"--job_endpoint={server.endpoint}", *further)


def states_of(cluster: Cluster, name: str) -> list[str]:
    rest = FlinkRest(cluster.rest)
    return [rest.status(job).state for job in rest.jobs_named(name)]


@pytest.mark.parametrize("objective", ["bert", "gpt"])
def test_a_cluster_gives_the_bytes_of_the_local_runner(
    objective: str, cluster: Cluster, corpus: Corpus, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    name = f"--job_name=same-{objective}"
    printed = run([*corpus.flags(objective, output), *on_cluster(cluster, name)])
    assert_same(output, corpus.local_digests(objective))
    rest = FlinkRest(cluster.rest)
    [job] = rest.jobs_named(f"same-{objective}")
    assert f"FlinkRunner: job {job}, http://{cluster.rest}/" in printed
    assert "--execution_mode_for_batch=BATCH_FORCED" in printed
    assert rest.counters(job)["read.bytes"] == corpus.text.stat().st_size
    assert rest.status(job).state == FINISHED


def test_task_managers_that_die_in_the_commit_cost_nothing(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    """Their workers outlive them and end the commit, and then Flink repeats all stages."""
    expected = corpus.local_digests("bert")
    cluster.await_slots()
    output = tmp_path / "out"
    process = start(*corpus.flags("bert", output), *of_job_server(cluster, job_server))
    while process.poll() is None and not list(output.glob("v1/root/*")):
        time.sleep(0.001)
    for task_manager in cluster.task_managers:
        kill(task_manager)
    end(process)
    assert_same(output, expected)


def test_two_jobs_at_once_leave_each_other_alone(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    expected = corpus.local_digests("bert")
    cluster.await_slots()
    outputs = [tmp_path / "first", tmp_path / "second"]
    flags = [
        of_job_server(cluster, job_server, f"--job_name={path.name}", "--parallelism=2")
        for path in outputs
    ]
    processes = [
        start(*corpus.flags("bert", output), *more)
        for output, more in zip(outputs, flags, strict=True)
    ]
    for output, process in zip(outputs, processes, strict=True):
        end(process)
        assert_same(output, expected)
        rest = FlinkRest(cluster.rest)
        [job] = rest.jobs_named(output.name)
        assert rest.failures(job) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_the_command_ends_the_job(
    number: signal.Signals, cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    cluster.await_slots()
    output, name = tmp_path / "out", f"ended-{number.name}"
    flags = of_job_server(cluster, job_server, f"--job_name={name}")
    process = start(*corpus.flags("bert", output), *flags)
    assert await_file(output, PREPARE, process)
    process.send_signal(number)
    end(process, 130)
    assert states_of(cluster, name) == [CANCELED]
    assert not (output / "dataset.json").exists()


def test_a_job_without_progress_is_cancelled(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    cluster.await_slots()
    output = tmp_path / "out"
    flags = of_job_server(cluster, job_server, "--job_name=stuck")
    process = start(*corpus.flags("bert", output), "--patience", "60", *flags)
    assert await_file(output, PREPARE, process)
    stopped = cluster.workers()
    for worker in stopped:
        stop(worker)
    _, errors = end(process, 1)
    for worker in stopped:
        kill(worker)
    assert "made no progress for 60 seconds and was cancelled" in errors
    while states_of(cluster, "stuck") == ["CANCELLING"]:  # tasks of a stopped worker end late
        time.sleep(0.5)
    assert states_of(cluster, "stuck") == [CANCELED]


def with_rejects(corpus: Corpus, folder: Path) -> list[str]:
    """The command of a build of the text and a hundred rejects."""
    bad = folder / "bad.tokens"
    bad.write_bytes(corpus.text.read_bytes() + b" \xff \n" * 100)
    arguments = corpus.flags("bert", folder / "out")
    arguments[arguments.index(str(corpus.text))] = str(bad)
    return arguments


def test_a_mistake_in_the_input_is_not_tried_again(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    cluster.await_slots()
    arguments = with_rejects(corpus, tmp_path)
    flags = of_job_server(cluster, job_server, "--job_name=mistake")
    _, errors = end(start(*arguments, "--max-rejects", "5", *flags), 2)
    assert "error: --max-rejects 5: 100 of" in errors
    assert states_of(cluster, "mistake") == [CANCELED]


def test_a_job_that_nobody_waits_for_ends_all_the_same(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    expected = corpus.local_digests("bert")
    cluster.await_slots()
    output = tmp_path / "out"
    flags = of_job_server(cluster, job_server, "--job_name=unwatched")
    printed = run([*corpus.flags("bert", output), "--no-wait", *flags])
    assert f"http://{cluster.rest}/#/job/running/" in printed
    assert not (output / "dataset.json").exists()
    # Its folder is its own, although the command is gone.
    for flag in ("--resume", "--replace"):
        refused = start(*corpus.flags("bert", output), flag)
        assert "its last sign of life is" in refused.communicate()[1]
        assert refused.returncode == 2
    cluster.await_slots()
    assert states_of(cluster, "unwatched") == [FINISHED]
    assert_same(output, expected)


def test_a_job_that_nobody_waits_for_is_not_tried_again_after_a_mistake(
    cluster: Cluster, job_server: JobServer, corpus: Corpus, tmp_path: Path
) -> None:
    cluster.await_slots()
    arguments, output = with_rejects(corpus, tmp_path), tmp_path / "out"
    flags = of_job_server(cluster, job_server, "--job_name=unwatched-mistake")
    run([*arguments, "--max-rejects", "5", "--no-wait", *flags])
    cluster.await_slots()
    assert states_of(cluster, "unwatched-mistake") == [FINISHED]
    [job] = FlinkRest(cluster.rest).jobs_named("unwatched-mistake")
    assert len(FlinkRest(cluster.rest).failures(job)) == 1
    assert not (output / "dataset.json").exists()
    # It is dead, and the next run continues its work.
    run([*arguments, "--resume"])
    assert (output / "dataset.json").exists()


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--parallelism=5",), ("--parallelism 5", "4 of the cluster's 4 slots")),
        (("--flink_version=1.20",), ("--flink_version 1.20", "the cluster has Flink 1.19")),
    ],
)
def test_what_the_cluster_cannot_run_is_refused_before_submission(
    flags: tuple[str, ...], parts: tuple[str, ...], cluster: Cluster, corpus: Corpus, tmp_path: Path
) -> None:
    cluster.await_slots()
    arguments = [*corpus.flags("bert", tmp_path / "out"), *on_cluster(cluster, *flags)]
    _, errors = end(start(*arguments), 2)
    assert all(part in errors for part in parts), errors
    assert not (tmp_path / "out").exists()
