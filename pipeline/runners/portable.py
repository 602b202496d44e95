"""Any of Beam's runners by its name: what all engines outside of this process have in common."""

from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner

from corpusmill.errors import UserError
from pipeline.console.progress import repeat
from pipeline.runners.engine import Engine, Reach, Run, Submitted
from pipeline.runners.job_server import follow_jobs_to_their_end
from pipeline.runners.noise import hide_noise
from pipeline.runners.plain_pipelines import without_folder
from pipeline.runners.proto_checks import describe, find_faults
from pipeline.runners.watch import Interrupts, job_id_of, take_counters, wait

_SECONDS_BETWEEN_COUNTERS = 1.0

# It drops what `finish_bundle` yields and all sinks but the last, and takes a lost scheduler for a
# finished job.
_LOSING = ("DaskRunner",)
# Their workers run in Beam's container unless an option says otherwise.
_IN_CONTAINERS = ("PortableRunner", "SparkRunner")


class PortableEngine(Engine):
    """A runner that we know nothing about, so that Beam's own defaults hold."""

    @property
    def reach(self) -> Reach:
        """The files of this machine if workers are in this process; else they may be anywhere."""
        return Reach.HERE if self._environment == "LOOPBACK" else Reach.SHARED

    @property
    def reason_to_wait(self) -> str:
        """The job service or the workers, if they are in this process."""
        if self.flags.get("job_endpoint") == "embed":
            return "the job service of --job_endpoint=embed ends with this process"
        if self._environment == "LOOPBACK":
            return "workers of --environment_type=LOOPBACK end with this process"
        return ""

    def check_options(self) -> None:
        """Refuse what Beam would refuse with a traceback, or what fails on every worker.

        Raises:
            UserError: there is no job server, or workers would lack the job's code.
        """
        cause = cure = ""
        if self.name in _LOSING:
            cause = "it silently loses elements (Beam 2.77)"
            cure = "Give local, FlinkRunner, DataflowRunner or SparkRunner"
        elif self.name == "PortableRunner" and not self.flags.get("job_endpoint"):
            cause, cure = "no job server is named", "Add -- --job_endpoint=HOST:PORT"
        elif (
            self.name in _IN_CONTAINERS
            and self._environment == "DOCKER"
            and self.flags.keys().isdisjoint({"environment_config", "environment_options"})
        ):
            cause = "its workers would run Beam's own container image, which lacks this job's code"
            cure = (
                "Add --environment_type=EXTERNAL --environment_config=HOST:PORT of a worker pool "
                "that has it, --environment_type=LOOPBACK for workers on this machine, or "
                "--environment_config with an image (docs/how-to/flink.md)"
            )
        if cause:
            raise UserError(f"--runner {self.name}", cause, cure)

    def page(self, job_id: str) -> str:  # noqa: ARG002
        """Return the URL of the page on which a job can be watched; empty if there is none."""
        return ""

    def submit(self, run: Run) -> Submitted:
        """Submit a job and, unless --no-wait is set, wait for its end.

        Raises:
            UserError: Beam does not have the runner, or an option is missing.
            JobCancelledError: somebody else cancelled the job.
            RuntimeError: the job failed.
        """
        hide_noise()
        with Interrupts(tied=bool(self.reason_to_wait)) as interrupts:
            result = self.submit_pipeline(run)
            job_id = job_id_of(result)
            submitted = Submitted(False, job_id, self.page(job_id))
            run.announce(submitted)
            interrupts.release(result.cancel, submitted)
            if not self.options.wait:
                return submitted
            with repeat(_SECONDS_BETWEEN_COUNTERS, lambda: take_counters(result, run.counters)):
                wait(result)
        take_counters(result, run.counters)
        return replace(submitted, done=True)

    def submit_pipeline(self, run: Run, runner: PipelineRunner | None = None) -> Any:
        """Make the pipeline, look for what the engine would notice late, and submit it.

        Args:
            run: the run.
            runner: Beam's runner; by default Beam makes it from the engine's name.

        Returns:
            Beam's result.

        Raises:
            UserError: Beam does not have the runner, or an option is missing.
            RuntimeError: the pipeline has parts that are not safe on an engine elsewhere.
        """
        arguments = [*self.arguments, *run.late_arguments]
        try:
            pipeline = beam.Pipeline(runner=runner or self.name, argv=arguments)
        except (ValueError, ImportError) as error:
            raise UserError(
                f"--runner {self.name}",
                f"Beam cannot create it ({error})",
                "Give local, or the name of one of Beam's runners with its options after --",
            ) from None
        if isinstance(pipeline.runner, PortableRunner):
            follow_jobs_to_their_end(pipeline.runner)
        with without_folder(pipeline):
            run.build(pipeline)
            if faults := find_faults(describe(pipeline)):
                listed = "; ".join(f"{fault.place}: {fault.what}" for fault in faults)
                raise RuntimeError(f"the job is not fit for an engine: {listed}")
            return pipeline.run()

    @property
    def _environment(self) -> str:
        """Where workers run; in a container by Beam's default."""
        return (self.flags.get("environment_type") or "DOCKER").upper()
