"""Any runner of Beam's by its name: what all engines that are not this process have in common."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

from corpusmill.errors import UserError
from pipeline.console.progress import repeat
from pipeline.runners.arguments import given_flags
from pipeline.runners.noise import hide_noise
from pipeline.runners.proto_checks import find_faults
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach, Setting
from pipeline.runners.watch import (
    cancel_on_interrupt,
    hold_interrupts,
    job_id_of,
    take_counters,
    wait,
)

_SECONDS_BETWEEN_COUNTERS = 1.0
_SECONDS_TO_ANSWER = 10.0

# Drops what `finish_bundle` yields and all sinks but the last; a lost scheduler counts as done.
_LOSING = ("DaskRunner",)
# Runners whose workers get Beam's container unless an option says otherwise.
_IN_CONTAINERS = ("PortableRunner", "SparkRunner")


def defaults(_: Sequence[str]) -> dict[str, str]:
    """None: of an engine that we do not know we know no better."""
    return {}


def reach(arguments: Sequence[str]) -> Reach:
    """Its workers may be anywhere, unless they are in this process."""
    return Reach.HERE if _environment(arguments) == "LOOPBACK" else Reach.SHARED


def check(setting: Setting) -> None:
    """Refuse what Beam would refuse with a trace, or what fails on every worker.

    Raises:
        UserError: there is no job server, or workers would lack the job's code.
    """
    if setting.runner in _LOSING:
        raise UserError(
            f"--runner {setting.runner}",
            "it loses elements without a word (Beam 2.77)",
            "Give local, or FlinkRunner, DataflowRunner or SparkRunner",
        )
    given = given_flags(setting.arguments)
    if setting.runner == "PortableRunner" and not given.get("job_endpoint"):
        raise UserError(
            "--runner PortableRunner",
            "no job server is named",
            "Add -- --job_endpoint=HOST:PORT",
        )
    images = ("environment_config", "environment_option", "environment_options")
    if (
        setting.runner in _IN_CONTAINERS
        and _environment(setting.arguments) == "DOCKER"
        and given.keys().isdisjoint(images)
    ):
        raise UserError(
            f"--runner {setting.runner}",
            "its workers would run Beam's own container image, which lacks the code of this job",
            "Add --environment_type=EXTERNAL --environment_config=HOST:PORT of a worker pool that "
            "has it, --environment_type=LOOPBACK for workers on this machine, or "
            "--environment_config with an image (deploy/)",
        )


def check_endpoint(arguments: Sequence[str]) -> None:
    """Refuse a job server that does not answer: Beam waits five minutes for one, in silence.

    Raises:
        UserError: it does not.
    """
    endpoint = given_flags(arguments).get("job_endpoint", "")
    host, _, port = endpoint.rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--job_endpoint={endpoint}",
            f"nobody answers there ({error})",
            "Start the job server, or give its address",
        ) from None


def _environment(arguments: Sequence[str]) -> str:
    """Where workers run; Beam's own default is a container."""
    return given_flags(arguments).get("environment_type", "").upper() or "DOCKER"


def parallelism(_: Sequence[str], __: int) -> int | None:
    """Unknown."""
    return None


def tie(arguments: Sequence[str]) -> str:
    """What of a job lives in this process; "" where it goes on without it."""
    given = given_flags(arguments)
    if given.get("job_endpoint") == "embed":
        return "its job server is in this process (--job_endpoint=embed)"
    if _environment(arguments) == "LOOPBACK":
        return "its workers are in this process (--environment_type=LOOPBACK)"
    return ""


def _nowhere(_: str) -> str:
    return ""


def submit(job: Run, url_of: Callable[[str], str] = _nowhere) -> Submitted:
    """Submit a job and, unless told otherwise, wait for its end.

    Args:
        job: the run.
        url_of: where a job is watched, by its id.

    Raises:
        UserError: Beam has no such runner, or it lacks an option.
        JobCancelledError: somebody else cancelled the job.
        RuntimeError: the job failed.
    """
    hide_noise()
    with hold_interrupts() as held:
        result = submit_pipeline(job)
        job_id = job_id_of(result)
        submitted = Submitted(False, job_id, url_of(job_id))
        job.announce(submitted)
        with cancel_on_interrupt(result.cancel, job_id, submitted.url, job.tied):
            held.release()
            if not job.wait:
                return submitted
            with repeat(_SECONDS_BETWEEN_COUNTERS, lambda: take_counters(result, job.counters)):
                wait(result)
    take_counters(result, job.counters)
    return replace(submitted, done=True)


def submit_pipeline(job: Run, runner: PipelineRunner | None = None) -> Any:
    """Make the pipeline, look for what its engine would find late, and submit it.

    Args:
        job: what is run.
        runner: an object of Beam's; by default made from the job's name of it.

    Returns:
        Beam's result.

    Raises:
        UserError: Beam has no such runner, or it lacks an option.
        RuntimeError: the pipeline holds what no engine elsewhere should get.
    """
    try:
        pipeline = beam.Pipeline(runner=runner or job.runner, argv=list(job.beam_arguments))
    except (ValueError, ImportError) as error:
        raise UserError(
            f"--runner {job.runner}",
            f"Beam cannot make it ({error})",
            "Give local, or the name of one of Beam's runners with its options behind --",
        ) from None
    job.build(pipeline)
    # The environment does not matter here; the runner's own would stage files.
    proto = pipeline.to_runner_api(default_environment=EmbeddedPythonEnvironment.default())
    if faults := find_faults(proto):
        raise RuntimeError(
            "the job is not fit for an engine: "
            + "; ".join(f"{of.place}: {of.what}" for of in faults)
        )
    return pipeline.run()
