"""A job given to Flink: submitted by Beam, watched and ended through Flink's REST interface."""

import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

from apache_beam.runners.runner import PipelineState

from pipeline.runners.engine import Run, Submitted
from pipeline.runners.flink.rest import FlinkRest, NoAnswerError
from pipeline.runners.flink.server import StoppableFlinkRunner
from pipeline.runners.flink.watch import FlinkJobError, FlinkSilentError, FlinkWatch, end_job
from pipeline.runners.portable import PortableEngine

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
