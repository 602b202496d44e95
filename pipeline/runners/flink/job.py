"""A job given to Flink: submitted by Beam, watched and ended through Flink's REST interface.

A watch on a job on Flink until its end, which notices what Flink reports late or never.

Most faults of a portable job show as a job that runs for ever: a thread of gRPC without memory, a
worker that did not start. An error that every attempt meets is retried as often as the cluster's
restart strategy says, with half a minute or more of idleness each time.
"""

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.runners.runner import PipelineState

from corpusmill.errors import UserError
from pipeline.console.progress import JOURNAL, Counters
from pipeline.runners.engine import Run, Submitted
from pipeline.runners.failures import JobCancelledError, raise_user_error
from pipeline.runners.flink.rest import (
    CANCELED,
    ENDED,
    FAILED,
    FINISHED,
    Failure,
    FlinkRest,
    NoAnswerError,
    UnknownJobError,
)
from pipeline.runners.flink.server import StoppableFlinkRunner
from pipeline.runners.portable import PortableEngine
from transforms.recovery.journal import count_entries
from transforms.recovery.workplace import SIGN
from transforms.storage.files import list_folder

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
            self._check_progress()
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
            files = list_folder(self._folder)
        except (OSError, BeamIOError, UserError):
            return
        # A worker may be alive and make no progress.
        sizes = [size for path, size in files.items() if f"/{SIGN}" not in path]
        self._files, self._finished = (len(sizes), sum(sizes)), count_entries(files)
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

    def _check_progress(self) -> None:
        if self._patience and time.monotonic() - self._moved > self._patience:
            raise FlinkJobError(
                f"the job made no progress for {self._patience:g} seconds and was cancelled; "
                "--patience changes this limit"
            )


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
