"""Disks and processes that fail in the middle of a run."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from corpusmill.console.process import FAILURE, INTERRUPTED
from pipeline.runners.engine import WorkerProcess
from tests.tools.jobs import (
    WORKERS,
    RunningJob,
    assert_nothing_final,
    assert_refused,
    build,
    build_apart,
)  # fmt: skip


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("workers", [(), ("--workers", "1", "--min-bytes-per-worker", "0")])
def test_a_full_disk_is_named_and_nothing_is_left(
    workers: tuple[str, ...], sample: Path, tokenizer_path: Path, tiny_disk: Path
) -> None:
    flags = ("--duplicates", "20", *workers)
    # A process of its own: it holds nothing open on the disk afterwards.
    outcome = build_apart([sample], tokenizer_path, tiny_disk / "out", *flags)
    assert_refused(outcome, "the disk is full", "--temp-location", status=FAILURE)
    assert "while running" not in outcome.errors
    assert_nothing_final(tiny_disk / "out")


def assert_ended(workers: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


# The files by which a moment of a run is known: workers starting, reading, building.
MOMENTS = ["tokenizer.json", "done-task-*", "train-*"]


def workers_at(job: RunningJob, moment: str) -> list[psutil.Process]:
    if moment != MOMENTS[0]:
        return job.wait_for(moment)
    while not (workers := psutil.Process(job.process.pid).children(recursive=True)):
        time.sleep(0.005)
    return workers


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_ends_the_job_at_once(
    moment: str, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output, *WORKERS)
    workers = workers_at(job, moment)
    assert moment == MOMENTS[0] or len(workers) == 2
    workers[-1].kill()
    outcome = job.end(within_seconds=20)
    parts = ("a worker process died", "No file of the data set was published", "--workers")
    assert_refused(outcome, *parts, status=FAILURE)
    assert_nothing_final(output)
    assert ("--resume" in outcome.errors) == output.exists() == (moment != MOMENTS[0])
    assert_ended(workers)


def test_a_worker_whose_connection_breaks_before_its_end_is_known_is_named(
    long_text: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of another machine, of whose connections any may be the first to break."""
    killer, wait = threading.Thread(), WorkerProcess.wait

    def wait_late(worker: WorkerProcess, seconds: float | None = None) -> str:
        cause = wait(worker, seconds)
        time.sleep(3)
        return cause

    def send(worker: WorkerProcess, environment: dict[str, str]) -> None:
        nonlocal killer
        send_environment(worker, environment)
        killer = threading.Thread(target=kill, args=(worker,))
        killer.start()

    def kill(worker: WorkerProcess) -> None:
        while worker.process.is_alive() and not [*output.rglob("done-task-*")]:
            time.sleep(0.01)
        worker.kill()

    send_environment = WorkerProcess.send
    monkeypatch.setattr(WorkerProcess, "wait", wait_late)
    monkeypatch.setattr(WorkerProcess, "send", send)
    outcome = build([long_text], tokenizer_path, output, *WORKERS, status=FAILURE)
    killer.join()
    assert_refused(outcome, "a worker process died (exit status -9)", status=FAILURE)


@pytest.mark.parametrize(
    ("moment", "sent"),
    [*zip(MOMENTS, (signal.SIGINT, signal.SIGTERM, signal.SIGINT), strict=True)],
)
def test_an_interrupted_job_ends_at_once_and_says_how_to_go_on(
    moment: str, sent: signal.Signals, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output, *WORKERS)
    workers = workers_at(job, moment)
    if sent is signal.SIGINT:  # a terminal sends it to all processes, however often
        for worker in workers:
            worker.send_signal(sent)
        job.process.send_signal(sent)
    job.process.send_signal(sent)
    outcome = job.end(within_seconds=20)
    assert outcome.status == INTERRUPTED
    [message] = outcome.errors.splitlines()
    assert message.startswith("interrupted: ")
    if moment != MOMENTS[0]:
        assert "no file of the data set was published. Finished so far" in message
        assert "with --resume continues from there, with --replace it starts over" in message
        assert f"to give up, remove {output}" in message
    assert_nothing_final(output)
    assert_ended(workers)


def test_workers_die_with_the_job(long_text: Path, tokenizer_path: Path, output: Path) -> None:
    job = RunningJob(long_text, tokenizer_path, output, *WORKERS)
    workers = job.wait_for("done-task-*")
    job.process.kill()
    job.end(within_seconds=20)
    assert_ended(workers)
    assert not (output / "_SUCCESS").exists()
    assert not (output / "dataset.json").exists()


def test_a_fault_of_the_program_is_one_line_and_a_trace_in_a_file(
    sample: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("an unforeseen thing")

    monkeypatch.setattr("transforms.commit.contents.find_imbalances", fail)
    parts = ("an unforeseen thing", "The whole trace is in ")
    outcome = build([sample], tokenizer_path, output, status=FAILURE, refused=parts)
    match = re.search(r"The whole trace is in (\S+\.log)", outcome.errors)
    assert match
    trace = Path(match.group(1))
    assert "Traceback" in trace.read_text()
    trace.unlink()
    assert_nothing_final(output)
