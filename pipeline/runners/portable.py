"""Any runner of Beam's by its name: what all engines that are not this process have in common."""

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineRunner, PipelineState
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

from corpusmill.faults import UserError
from pipeline.runners.proto_checks import find_faults
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach
from pipeline.runners.watching import watch_job


def defaults(_: Sequence[str]) -> dict[str, str]:
    """None: of an engine that we do not know we know no better."""
    return {}


def reach(_: Sequence[str]) -> Reach:
    """Its workers may be anywhere."""
    return Reach.SHARED


def parallelism(_: Sequence[str], __: int) -> int | None:
    """Unknown."""
    return None


def _nowhere(_: str) -> str:
    return ""


def submit(job: Run, url_of: Callable[[str], str] = _nowhere) -> Submitted:
    """Submit a job and, unless told otherwise, wait for its end.

    Args:
        job: the run.
        url_of: where a job is watched, by its id.

    Raises:
        UserError: Beam has no such runner, or it lacks an option.
        RuntimeError: the job ended otherwise than done.
    """
    result = submit_pipeline(job)
    found = getattr(result, "job_id", "") or getattr(result, "_job_id", "")
    job_id = str(found() if callable(found) else found)
    url = url_of(job_id)
    if not job.wait:
        return Submitted(False, job_id, url)
    with watch_job(result, job.counters):
        state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"the job ended as {state}")
    return Submitted(True, job_id, url)


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
