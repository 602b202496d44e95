"""A job on Flink: submitted by Beam's job server, watched and ended through Flink's REST interface.

The watch notices what Flink reports late or never. Most faults of a portable job show as a job that
runs for ever: a thread of gRPC without memory, a worker that did not start. An error that every
attempt meets is retried as often as the cluster's restart strategy says, with half a minute or more
of idleness each time.
"""

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import NOT_FOUND
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import requests
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.runner import PipelineState
from google.protobuf import json_format

from corpusmill.errors import UserError
from corpusmill.hub import describe_error
from pipeline.console.progress import JOURNAL, Counters
from pipeline.runners.beam_pipelines import read_counters
from pipeline.runners.beam_servers import StoppableRunner, stopping
from pipeline.runners.engine import Run, Submitted
from pipeline.runners.failures import JobCancelledError, raise_user_error
from pipeline.runners.portable import PortableEngine
from transforms.recovery import count_finished
from transforms.storage.files import locate

# Beam keeps all of its metrics in one accumulator.
_METRICS = "__metricscontainers"

# States that a job does not leave.
FINISHED, CANCELED, FAILED = "FINISHED", "CANCELED", "FAILED"
ENDED = (FINISHED, CANCELED, FAILED)

# It answers within milliseconds unless its machine is overloaded.
_SECONDS_TO_ANSWER = 20


class NoAnswerError(Exception):
    """The interface cannot be reached, or does not know the job."""


class UnknownJobError(NoAnswerError):
    """The interface answers that it does not know the job."""


@dataclass(frozen=True)
class Overview:
    """The size of a cluster.

    Attributes:
        version: Flink's version, such as "1.19.3".
        task_managers: the number of machines that have registered.
        slots: the number of tasks that can run at once.
        free_slots: the number of slots that no job uses.
    """

    version: str
    task_managers: int
    slots: int
    free_slots: int


@dataclass(frozen=True)
class JobStatus:
    """The state of a job.

    Attributes:
        state: Flink's name for it, such as "RUNNING".
        marks: a text that changes when a task of the job begins, reads, writes or ends.
    """

    state: str
    marks: str


@dataclass(frozen=True)
class Failure:
    """A failure of tasks of a job.

    Attributes:
        milliseconds: its time.
        trace: Java's trace, with the Python traceback in it if there is one.
    """

    milliseconds: int
    trace: str


class FlinkRest:
    """The interface of one JobManager.

    Every method that asks it raises NoAnswerError if there is no answer.

    Args:
        master: its address, "host:port" or with "http://" or "https://" before it.
    """

    def __init__(self, master: str) -> None:
        self._url = (master if urlsplit(master).netloc else f"http://{master}").rstrip("/")

    def overview(self) -> Overview:
        """Return the size of the cluster."""
        names = ("flink-version", "taskmanagers", "slots-total", "slots-available")
        answer = self._get("/overview")
        return Overview(*(answer[name] for name in names))

    def jobs_named(self, name: str) -> set[str]:
        """Return the ids of all jobs with a name, including those that have ended."""
        return {job["jid"] for job in self._get("/jobs/overview")["jobs"] if job["name"] == name}

    def status(self, job: str) -> JobStatus:
        """Return the state of a job."""
        answer = self._get(f"/jobs/{job}")
        moving = ("read-records", "write-records", "write-bytes")
        marks = [
            (task["tasks"], [task["metrics"].get(name) for name in moving])
            for task in answer["vertices"]
        ]
        return JobStatus(answer["state"], f"{answer['state']} {marks}")

    def counters(self, job: str) -> dict[str, int]:
        """Return the job's live counters, to which a bundle adds its own when it ends."""
        answer = self._get(f"/jobs/{job}/accumulators")["user-task-accumulators"]
        shown = [entry["value"] for entry in answer if entry["name"] == _METRICS]
        metrics = beam_job_api_pb2.GetJobMetricsResponse()
        # Flink shows an error instead while tasks restart.
        with suppress(json_format.ParseError, IndexError):
            json_format.Parse(shown[0], metrics, ignore_unknown_fields=True)
        return read_counters(metrics.metrics.attempted)

    def failures(self, job: str) -> list[Failure]:
        """Return the latest failures, the most recent first; Flink keeps a limited number."""
        history = self._get(f"/jobs/{job}/exceptions").get("exceptionHistory", {})
        entries = history.get("entries", [])
        return [Failure(entry["timestamp"], entry["stacktrace"]) for entry in entries]

    def cancel(self, job: str) -> None:
        """Ask Flink to cancel a job; nothing happens if it has ended."""
        try:
            requests.patch(f"{self._url}/jobs/{job}?mode=cancel", timeout=_SECONDS_TO_ANSWER)
        except requests.RequestException as error:
            raise NoAnswerError(describe_error(error)) from error

    def page(self, job: str) -> str:
        """Return the URL of the page on which a job can be watched."""
        return f"{self._url}/#/job/running/{job}/overview"

    def _get(self, path: str) -> Any:
        try:
            answer = requests.get(f"{self._url}{path}", timeout=_SECONDS_TO_ANSWER)
            answer.raise_for_status()
            return answer.json()
        except requests.RequestException as error:
            is_unknown = error.response is not None and error.response.status_code == NOT_FOUND
            kind = UnknownJobError if is_unknown else NoAnswerError
            raise kind(describe_error(error)) from error


# Flink in the job server's process. By default every stage asks for 512 buffers at once, and small
# references need only 64. Another attempt restarts a worker process that has died.
_EMBEDDED_FLINK = {
    "rest.bind-address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 5,
    "restart-strategy.fixed-delay.delay": "1 s",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "taskmanager.network.sort-shuffle.min-buffers": 64,
}


class StoppableFlinkRunner(StoppableRunner, FlinkRunner):
    """Beam's runner, with a job server of its own; a job on a cluster continues without it."""


@contextmanager
def started_runner() -> Iterator[StoppableFlinkRunner]:
    """Make a runner for the length of a block."""
    logging.getLogger().addFilter(_is_not_about_waiting)
    try:
        with stopping(StoppableFlinkRunner()) as runner:
            yield runner
    finally:
        logging.getLogger().removeFilter(_is_not_about_waiting)


def _is_not_about_waiting(record: logging.LogRecord) -> bool:
    """Drop what Beam logs twice a second until Java has started."""
    return not str(record.msg).startswith("Waiting for grpc channel")


@contextmanager
def embedded_configuration() -> Iterator[tuple[str, str]]:
    """Yield a folder with embedded Flink's configuration, and "host:port" of its REST interface."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with TemporaryDirectory(prefix="corpusmill-flink-") as folder:
        # JSON is YAML.
        content = json.dumps({**_EMBEDDED_FLINK, "rest.port": port, "rest.bind-port": str(port)})
        Path(folder, "config.yaml").write_text(content, encoding="utf-8")
        yield folder, f"127.0.0.1:{port}"


_SECONDS_BETWEEN_LOOKS = 1.0

# A list of the temporary files costs requests in an object store.
_SECONDS_BETWEEN_LISTS = 10.0

# How long a JobManager that has been restarted may take to remember a job that it has stored.
_SECONDS_TO_REMEMBER = 10.0

# A killed worker leaves no Python error, and an unreliable store lets some work finish in between.
# Tasks that fail within seconds of each other belong to one attempt.
_SAME_ERRORS = 3
_MILLISECONDS_OF_AN_ATTEMPT = 3000
_TRACE = "Traceback (most recent call last)"


class FlinkJobError(Exception):
    """A job on Flink failed, or made no progress."""


class FlinkSilentError(FlinkJobError):
    """Flink no longer answers."""


def describe_failure(trace: str) -> str:
    """Return the most telling line of a Java trace: the Python error, the last cause or line 1."""
    if error := _python_error(trace):
        return error
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    lines = trace.strip().splitlines()
    return (causes[-1].removeprefix("Caused by: ") if causes else lines[0] if lines else "").strip()


class FlinkWatch:
    """Follows one job.

    Args:
        rest: the interface of its cluster.
        job: its id.
        counters: filled with the live counters.
        patience: seconds without any progress after which the watch gives the job up; 0 for never.
        folder: the folder of the job's temporary files, where changes are progress as well; empty
            if unknown.
        seconds_of_silence: how long the interface may fail to answer.
    """

    def __init__(
        self,
        rest: FlinkRest,
        job: str,
        counters: Counters,
        patience: float,
        folder: str,
        seconds_of_silence: float,
    ) -> None:
        self._rest, self._job, self._counters = rest, job, counters
        self._patience, self._folder, self._silence = patience, folder, seconds_of_silence
        self._marks, self._files = "", (0, 0)
        self._moved = self._answered = self._known = time.monotonic()
        self._listed = self._moved - _SECONDS_BETWEEN_LISTS
        self._finished: dict[str, int] = {}
        self._errors: list[str] = []
        self._failed = 0

    def wait(self) -> None:
        """Wait until the job is finished.

        Raises:
            FlinkSilentError: Flink no longer answers.
            JobCancelledError: somebody else cancelled the job, for example on Flink's page.
            FlinkJobError: the job failed, is lost, or makes no progress.
            UserError: it found a mistake of the user's.
        """
        while True:
            try:
                state = self._look()
                self._answered = self._known = time.monotonic()
            except NoAnswerError as error:
                self._check_silence(error)
                state = ""
            if state == FINISHED:
                return
            if state in ENDED:
                self._raise_end(state)
            if self._patience and time.monotonic() - self._moved > self._patience:
                raise FlinkJobError(
                    f"the job made no progress for {self._patience:g} seconds and was cancelled; "
                    "--patience changes this limit"
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _check_silence(self, error: NoAnswerError) -> None:
        now = time.monotonic()
        if now - self._answered > self._silence:
            raise FlinkSilentError(f"Flink no longer answers ({error})") from None
        if not isinstance(error, UnknownJobError):
            self._known = now
        elif now - self._known > _SECONDS_TO_REMEMBER:
            cause = "it is lost if the JobManager was restarted and does not store its jobs"
            raise FlinkJobError(f"Flink no longer knows the job: {cause}") from None

    def _look(self) -> str:
        status = self._rest.status(self._job)
        counters = self._rest.counters(self._job)
        if counters:
            self._counters.update(self._job, counters)
        self._list_files()
        marks = f"{status.marks} {sorted(counters.items())} {self._files}"
        if marks != self._marks:
            if "RESTARTING" in (status.state, self._marks.partition(" ")[0]):
                self._raise_mistake(self._rest.failures(self._job))
            self._marks, self._moved = marks, time.monotonic()
        return status.state

    def _list_files(self) -> None:
        """Count the temporary files and what is finished.

        Flink reports a bundle, which may be all of a machine's work, only when it ends.
        """
        if not self._folder or time.monotonic() - self._listed < _SECONDS_BETWEEN_LISTS:
            return
        self._listed, before = time.monotonic(), self._finished
        try:
            files = locate(self._folder).list()
        except (OSError, UserError):
            return
        self._files, self._finished = (len(files), sum(files.values())), count_finished(files)
        if self._finished != before:
            self._errors.clear()
        self._counters.update(JOURNAL, self._finished)

    def _raise_mistake(self, failures: list[Failure]) -> None:
        """Raise an error that every further attempt would meet again."""
        for failure in reversed(failures):
            raise_user_error(failure.trace)
            if failure.milliseconds - self._failed < _MILLISECONDS_OF_AN_ATTEMPT:
                continue
            self._failed = failure.milliseconds
            error = _python_error(failure.trace)
            self._errors.append(error)
            if error and self._errors.count(error) >= _SAME_ERRORS:
                message = f"every attempt fails ({error})"
                raise FlinkJobError(message) from FlinkJobError(failure.trace)

    def _raise_end(self, state: str) -> None:
        if state == CANCELED:
            raise JobCancelledError(self._job)
        failures: list[Failure] = []
        with suppress(NoAnswerError):
            failures = self._rest.failures(self._job) if state == FAILED else []
        if not failures:
            raise FlinkJobError(f"the job ended in Flink as {state}")
        trace = failures[0].trace
        raise_user_error(trace)
        cause = FlinkJobError(trace)
        raise FlinkJobError(f"the job failed in Flink ({describe_failure(trace)})") from cause


def end_job(rest: FlinkRest, job: str, seconds: float = 30) -> None:
    """Cancel a job and wait until its slots are free, as long as Flink answers.

    Args:
        rest: the interface of its cluster.
        job: its id.
        seconds: the longest wait.
    """
    end = time.monotonic() + seconds
    with suppress(NoAnswerError):
        rest.cancel(job)
        while rest.status(job).state not in ENDED and time.monotonic() < end:
            time.sleep(0.2)


def _python_error(trace: str) -> str:
    """Return the error of the Python traceback in a Java trace; empty if there is none."""
    lines = trace.rpartition(_TRACE)[2].splitlines()[1:] if _TRACE in trace else []
    return next((line.strip() for line in lines if line and line[0] not in " \t"), "")


# Embedded Flink is silent as soon as the job has ended; a JobManager may be restarted.
_SECONDS_OF_SILENCE_EMBEDDED, _SECONDS_OF_SILENCE = 0, 300

# To translate the job, upload the job server's jar and start.
_SECONDS_TO_APPEAR = 600


class FlinkJob:
    """One job on Flink.

    Args:
        engine: submits the job.
        runner: Beam's runner.
        rest: Flink's REST interface.
        embedded: whether Flink runs in the job server, and so ends with it.
    """

    def __init__(
        self, engine: PortableEngine, runner: StoppableFlinkRunner, rest: FlinkRest, embedded: bool
    ) -> None:
        self._engine, self._runner, self._rest, self._embedded = engine, runner, rest, embedded
        self._name = engine.flags.get("job_name") or f"corpusmill-{uuid4().hex[:8]}"

    def submit(self, run: Run) -> Submitted:
        """Submit the job and, unless --no-wait is set, watch it until its end.

        Raises:
            UserError: the job found a mistake of the user's.
            FlinkJobError: it failed, or made no progress.
        """
        known = self._list_jobs()
        job_id = ""
        try:
            late = (*run.late_arguments, f"--job_name={self._name}")
            result = self._engine.submit_pipeline(replace(run, late_arguments=late), self._runner)
            job_id = self._await_start(known, result)
            submitted = Submitted(False, job_id, self._rest.page(job_id))
            run.announce(submitted)
            if not self._engine.options.wait:
                return submitted
            self._await_end(job_id, run, result)
            return replace(submitted, done=True)
        except BaseException:
            if self._embedded:  # it ends with its process, once its workers have ended
                raise
            self._runner.stop()  # so that it submits nothing any more
            for started in {job_id} if job_id else self._list_jobs() - known:
                end_job(self._rest, started)
            raise

    def _await_start(self, known: set[str], result: Any) -> str:
        """Return the id of the job once Flink has it.

        Raises:
            FlinkJobError: Flink never got it.
        """
        end = time.monotonic() + _SECONDS_TO_APPEAR
        while time.monotonic() < end:
            if new := self._list_jobs() - known:
                return new.pop()
            if PipelineState.is_terminal(result.state):
                result.wait_until_finish()  # raises what the job server reports
                raise FlinkJobError("the job server ended without giving the job to Flink")
            time.sleep(0.3)
        raise FlinkJobError(f"the job server gave Flink no job in {_SECONDS_TO_APPEAR} seconds")

    def _await_end(self, job_id: str, run: Run, result: Any) -> None:
        silence = _SECONDS_OF_SILENCE_EMBEDDED if self._embedded else _SECONDS_OF_SILENCE
        patience = self._engine.options.patience
        try:
            FlinkWatch(self._rest, job_id, run.counters, patience, run.temp_folder, silence).wait()
        except FlinkSilentError:
            if not self._embedded:
                raise
            result.wait_until_finish()  # the job server knows how embedded Flink ended

    def _list_jobs(self) -> set[str]:
        """List the jobs of this name; none while Flink does not answer, as before its start."""
        try:
            return self._rest.jobs_named(self._name)
        except NoAnswerError:
            return set()
