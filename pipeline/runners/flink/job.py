"""A job given to Flink: submitted by Beam, watched and ended through Flink's REST interface."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from uuid import uuid4

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.runner import PipelineState

from pipeline.runners import portable
from pipeline.runners.arguments import given_flags
from pipeline.runners.flink.options import Place, place_of
from pipeline.runners.flink.pool import started_pool
from pipeline.runners.flink.rest import FlinkRest, NoAnswerError
from pipeline.runners.flink.server import (
    StoppableFlinkRunner,
    embedded_configuration,
    started_runner,
)
from pipeline.runners.flink.watch import FlinkJobError, FlinkSilentError, FlinkWatch, end_job
from pipeline.runners.run import Run, Submitted

# Embedded Flink is silent as soon as the job has ended; a JobManager may be started again.
_SECONDS_OF_SILENCE_EMBEDDED = 0
_SECONDS_OF_SILENCE = 300

# To translate the job, upload the job server's jar and start.
_SECONDS_TO_APPEAR = 600


def submit(job: Run) -> Submitted:
    """Submit a job and, unless told otherwise, watch it until its end.

    Whatever ends the wait, Ctrl-C or a request to end among it, the job is cancelled in Flink.

    Raises:
        UserError: the job met a mistake of the user's.
        FlinkJobError: it ended otherwise than finished, or made no progress.
    """
    place, given = place_of(job.beam_arguments), given_flags(job.beam_arguments)
    if place is Place.ELSEWHERE or (place is Place.EMBEDDED and "flink_conf_dir" in given):
        return portable.submit(job)
    with ExitStack() as stack:
        runner = stack.enter_context(started_runner())
        arguments, silence = list(job.beam_arguments), float(_SECONDS_OF_SILENCE)
        master = given.get("flink_master", "")
        if place is Place.EMBEDDED:
            folder, master = stack.enter_context(embedded_configuration())
            arguments.append(f"--flink_conf_dir={folder}")
            silence = _SECONDS_OF_SILENCE_EMBEDDED
            if given.get("environment_type") == "LOOPBACK":
                pool = stack.enter_context(started_pool("127.0.0.1:0"))
                arguments += ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
        name, named = _name_job(arguments)
        named_job = replace(job, beam_arguments=tuple(named))
        return _run(named_job, runner, FlinkRest(master), name, silence)


def _name_job(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The job's name, made up where the user gives none, and the arguments with it."""
    given = PipelineOptions(list(arguments)).view_as(GoogleCloudOptions).job_name
    name = given or f"corpusmill-{uuid4().hex[:8]}"
    return name, [*arguments, f"--job_name={name}"]


def _run(
    job: Run, runner: StoppableFlinkRunner, rest: FlinkRest, name: str, silence: float
) -> Submitted:
    known = _jobs_named(rest, name)
    job_id = ""
    try:
        result = portable.submit_pipeline(job, runner)
        job_id = _await_job(rest, name, known, result)
        submitted = Submitted(False, job_id, rest.page(job_id))
        job.announce(submitted)
        if not job.wait:
            return submitted
        watch = FlinkWatch(rest, job_id, job.counters, job.patience, job.temp_folder, silence)
        _await_end(watch, result, silence)
        return replace(submitted, done=True)
    except BaseException:
        if not silence:  # embedded Flink ends with its process, when its workers have ended
            raise
        runner.stop()  # so that it submits nothing any more
        for started in {job_id} - {""} or _jobs_named(rest, name) - known:
            end_job(rest, started)
        raise


def _await_job(rest: FlinkRest, name: str, known: set[str], result: Any) -> str:
    """The id of the job in Flink, once it is there.

    Raises:
        FlinkJobError: it never came.
    """
    end = time.monotonic() + _SECONDS_TO_APPEAR
    while time.monotonic() < end:
        if new := _jobs_named(rest, name) - known:
            return new.pop()
        if PipelineState.is_terminal(result.state):
            result.wait_until_finish()  # raises what the job server says
            raise FlinkJobError("the job server ended without giving the job to Flink")
        time.sleep(0.3)
    raise FlinkJobError(f"the job server gave no job to Flink in {_SECONDS_TO_APPEAR} seconds")


def _await_end(watch: FlinkWatch, result: Any, silence: float) -> None:
    """Wait for the end; how embedded Flink ended, the job server says."""
    try:
        watch.wait()
    except FlinkSilentError:
        if silence:
            raise
        result.wait_until_finish()


def _jobs_named(rest: FlinkRest, name: str) -> set[str]:
    """The jobs of a name; none while Flink does not answer, as embedded Flink before its start."""
    try:
        return rest.jobs_named(name)
    except NoAnswerError:
        return set()
