"""A job on Flink is followed to its end, whatever Flink says of it, or does not say."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corpusmill.errors import UserError
from pipeline.console.progress import JOURNAL, Counters
from pipeline.runners.failures import JobCancelledError
from pipeline.runners.flink.job import (
    CANCELED,
    FlinkJobError,
    FlinkRest,
    FlinkSilentError,
    FlinkWatch,
    NoAnswerError,
    Overview,
    describe_failure,
    end_job,
)

JOB = "0ec4aec6a5a0319ee0a68c2b455ae740"
PYTHON_ERROR = (
    "java.lang.RuntimeException: Error received from SDK harness for instruction 3: "
    "Traceback (most recent call last):\n"
    '  File "sdk_worker.py", line 311, in _execute\n'
    "{error} [while running 'PrepareDocuments/PrepareTask']\n\n"
    "\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.accept(Fn.java:160)\n"
)


class Flink(ThreadingHTTPServer):
    """Answers as Flink 1.19 does; what it says is set by the test."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.states: list[str] = ["RUNNING"]
        self.written = 0
        self.is_lost = False
        self.metrics: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.cancelled: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self, path: str) -> Any:
        job = {"jid": JOB, "name": "corpusmill-1", "state": self.states[0]}
        if path == "/overview":
            return {
                "taskmanagers": 2, "slots-total": 4, "slots-available": 3, "flink-version": "1.19.3"
            }  # fmt: skip
        if path == "/jobs/overview":
            return {"jobs": [job, {**job, "jid": "f" * 32, "name": "another"}]}
        if path == f"/jobs/{JOB}" and not self.is_lost:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            task = {"tasks": {"RUNNING": 1}, "metrics": {"write-records": self.written}}
            return {**job, "state": state, "vertices": [task]}
        if path == f"/jobs/{JOB}/accumulators":
            value = json.dumps({"metrics": {"attempted": self.metrics}})
            return {"user-task-accumulators": [{"name": "__metricscontainers", "value": value}]}
        if path == f"/jobs/{JOB}/exceptions":
            # The latest first, a minute between two.
            times = range(60_000 * len(self.failures), 0, -60_000)
            entries = [
                {"timestamp": when, "stacktrace": trace}
                for when, trace in zip(times, self.failures, strict=True)
            ]
            return {"exceptionHistory": {"entries": entries}}
        return None


class Answer(BaseHTTPRequestHandler):
    server: Flink

    def do_GET(self) -> None:
        answer = self.server.answer(self.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_PATCH(self) -> None:
        self.server.cancelled.append(self.path)
        self.server.states = [CANCELED]
        self.send_response(202)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Clock:
    """Time that passes when somebody waits; then something may happen, of the seconds so far."""

    def __init__(self, happen: Callable[[float], object] = lambda _: None) -> None:
        self.seconds, self._happen = 0.0, happen

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self._happen(self.seconds)


@pytest.fixture
def flink() -> Iterator[Flink]:
    server = Flink()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def counter(name: str, value: int) -> dict[str, Any]:
    """As Beam's job server writes one."""
    return {
        "urn": "beam:metric:user:sum_int64:v1",
        "type": "beam:metrics:sum_int64:v1",
        "payload": base64.b64encode(bytes([value])).decode(),
        "labels": {"NAMESPACE": "corpusmill", "NAME": name, "PTRANSFORM": "any"},
    }


def watch(
    flink: Flink, clock: Clock, counters: Counters, patience: float = 60, folder: str = ""
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.runners.flink.job.time", clock)
        FlinkWatch(FlinkRest(flink.address), JOB, counters, patience, folder, 30).wait()


def test_the_interface_says_what_the_cluster_has(flink: Flink) -> None:
    rest = FlinkRest(f"http://{flink.address}/")
    assert rest.overview() == Overview("1.19.3", 2, 4, 3)
    assert rest.jobs_named("corpusmill-1") == {JOB}
    assert rest.page(JOB) == f"http://{flink.address}/#/job/running/{JOB}/overview"
    with pytest.raises(NoAnswerError):
        rest.status("unknown")


def test_a_finished_job_leaves_its_counters(flink: Flink) -> None:
    flink.states = ["CREATED", "RUNNING", "RUNNING", "FINISHED"]
    flink.metrics = [counter("read.bytes", 7), counter("read.bytes", 5), counter("write.rows", 3)]
    flink.metrics.append({**counter("other", 1), "labels": {"NAMESPACE": "beam", "NAME": "other"}})
    counters = Counters()
    watch(flink, Clock(), counters)
    assert counters.bundles == {JOB: {"read.bytes": 12, "write.rows": 3}}


def test_the_journal_moves_the_line_within_a_bundle(flink: Flink, tmp_path: Path) -> None:
    for name in ("done-task-0.json", "done-task-1.json", "done-shard-4.json", "spill-1.arrow"):
        (tmp_path / name).write_text("{}")
    flink.states = ["RUNNING"] * 15 + ["FINISHED"]
    counters = Counters()
    watch(flink, Clock(), counters, folder=str(tmp_path))
    assert counters.bundles[JOURNAL] == {"task": 2, "shard": 1}


@pytest.mark.parametrize("folder", [False, True])
def test_a_job_without_progress_is_given_up(flink: Flink, tmp_path: Path, folder: bool) -> None:
    (tmp_path / "spill").write_text("one file that does not change")
    clock = Clock()
    with pytest.raises(FlinkJobError, match=r"no progress for 60 seconds.*--patience"):
        watch(flink, clock, Counters(), folder=str(tmp_path) if folder else "")
    assert 60 < clock.seconds < 63


def test_files_that_grow_are_progress(flink: Flink, tmp_path: Path) -> None:
    def write(seconds: float) -> None:
        (tmp_path / "shard").write_bytes(b"x" * int(seconds))
        if seconds > 130:
            flink.states = ["FINISHED"]

    watch(flink, Clock(write), Counters(), folder=str(tmp_path))


def test_records_that_flow_are_progress(flink: Flink) -> None:
    def write(seconds: float) -> None:
        flink.written += int(seconds) % 40 == 0
        if seconds > 130:
            flink.states = ["FINISHED"]

    watch(flink, Clock(write), Counters())


def test_no_patience_waits_for_ever(flink: Flink) -> None:
    flink.states = ["RUNNING"] * 300 + ["FINISHED"]
    watch(flink, Clock(), Counters(), patience=0)


def test_a_mistake_is_told_at_its_first_attempt(flink: Flink) -> None:
    flink.states = ["RUNNING", "RESTARTING", "RUNNING"]
    error = (
        "corpusmill.errors.UserError: --max-rejects 5: 9 of 10 lines are rejects. Mend the input"
    )
    flink.failures = [PYTHON_ERROR.format(error=error)]
    with pytest.raises(UserError) as raised:
        watch(flink, Clock(), Counters())
    assert str(raised.value) == "--max-rejects 5: 9 of 10 lines are rejects. Mend the input."


def test_an_error_of_every_attempt_ends_the_job(flink: Flink) -> None:
    flink.states = ["RUNNING", "RESTARTING", "RUNNING"]
    flink.failures = [PYTHON_ERROR.format(error="KeyError: 'text'")] * 3
    with pytest.raises(FlinkJobError, match=r"every attempt fails \(KeyError: 'text'"):
        watch(flink, Clock(), Counters())


def test_an_error_between_finished_tasks_is_tried_again(flink: Flink, tmp_path: Path) -> None:
    def work(seconds: float) -> None:
        (tmp_path / f"done-task-{int(seconds) // 20}.json").write_text("{}")
        if int(seconds) % 20 == 0:
            error = PYTHON_ERROR.format(error="OSError: the store is tired")
            flink.failures = [error, *flink.failures][:16]
            flink.states = ["RESTARTING", "RUNNING"]
        if seconds > 200:
            flink.states = ["FINISHED"]

    watch(flink, Clock(work), Counters(), folder=str(tmp_path))
    assert len(flink.failures) == 10


def test_killed_workers_are_no_mistake(flink: Flink) -> None:
    flink.states = ["RUNNING", "RESTARTING", "RUNNING", "FINISHED"]
    flink.failures = ["java.util.concurrent.CancellationException: cancelled before onClosed"] * 9
    watch(flink, Clock(), Counters())


def test_a_failed_job_says_why(flink: Flink) -> None:
    flink.states = ["RUNNING", "FAILED"]
    flink.failures = [
        "org.apache.flink.JobException: over\n\tat a\nCaused by: java.io.IOException: x"
    ]
    with pytest.raises(FlinkJobError, match=r"failed in Flink \(java\.io\.IOException: x\)"):
        watch(flink, Clock(), Counters())


def test_a_job_that_others_cancel_has_not_succeeded(flink: Flink) -> None:
    flink.states = ["RUNNING", "CANCELED"]
    with pytest.raises(JobCancelledError):
        watch(flink, Clock(), Counters())


def test_a_silent_interface_is_waited_for_and_then_not() -> None:
    flink, clock = Flink(), Clock()
    flink.server_close()
    with pytest.raises(FlinkSilentError, match="no longer answers"):
        watch(flink, clock, Counters())
    assert 30 < clock.seconds < 40


def test_a_job_that_flink_has_forgotten_is_lost(flink: Flink) -> None:
    flink.is_lost, clock = True, Clock()
    with pytest.raises(FlinkJobError, match=r"no longer knows the job.*JobManager was restarted"):
        watch(flink, clock, Counters())
    assert clock.seconds < 15


def test_a_job_manager_may_remember_the_jobs_that_it_has_stored(flink: Flink) -> None:
    def restart(seconds: float) -> None:
        flink.is_lost = 3 < seconds < 9
        if seconds > 20:
            flink.states = ["FINISHED"]

    watch(flink, Clock(restart), Counters())


def test_ending_a_job_waits_until_it_has_let_go(flink: Flink) -> None:
    end_job(FlinkRest(flink.address), JOB)
    assert flink.cancelled == [f"/jobs/{JOB}?mode=cancel"]
    flink.server_close()
    end_job(FlinkRest("127.0.0.1:1"), JOB)  # there is no such server


def test_the_line_that_says_most_is_chosen() -> None:
    assert describe_failure(PYTHON_ERROR.format(error="ValueError: bad")).startswith(
        "ValueError: bad"
    )
    assert describe_failure("java.lang.Error: first\n\tat somewhere") == "java.lang.Error: first"
    assert describe_failure("") == ""
