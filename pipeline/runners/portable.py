"""Any runner of Beam's by its name: what all engines that are not this process have in common."""

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from corpusmill.faults import UserError
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach


def defaults(_: Sequence[str]) -> dict[str, str]:
    """None: of an engine that we do not know we know no better."""
    return {}


def reach(_: Sequence[str]) -> Reach:
    """Its workers may be anywhere."""
    return Reach.SHARED


def parallelism(_: Sequence[str], __: int) -> int | None:
    """Unknown."""
    return None


def submit(job: Run) -> Submitted:
    """Submit a job and, unless told otherwise, wait for its end.

    Raises:
        UserError: Beam has no such runner, or it lacks an option.
        RuntimeError: the job ended otherwise than done.
    """
    result = submit_pipeline(job)
    job_id = str(getattr(result, "job_id", "") or getattr(result, "_job_id", ""))
    if not job.wait:
        return Submitted(False, job_id)
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"the job ended as {state}")
    return Submitted(True, job_id)


def submit_pipeline(job: Run) -> Any:
    """Make the pipeline and submit it; gives Beam's result.

    Raises:
        UserError: Beam has no such runner, or it lacks an option.
    """
    try:
        pipeline = beam.Pipeline(runner=job.runner, argv=list(job.beam_arguments))
    except (ValueError, ImportError) as error:
        raise UserError(
            f"--runner {job.runner}",
            f"Beam cannot make it ({error})",
            "Give local, or the name of one of Beam's runners with its options behind --",
        ) from None
    job.build(pipeline)
    return pipeline.run()
