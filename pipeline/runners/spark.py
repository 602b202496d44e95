"""Spark, in the process of Beam's job server or as a cluster that --spark_master_url names."""

from typing import Any

from apache_beam.runners.portability.spark_runner import SparkJarJobServer, SparkRunner
from apache_beam.runners.runner import PipelineRunner

from pipeline.runners.beam_servers import StoppableRunner, check_job_server, name_jar, stopping
from pipeline.runners.engine import Run, Submitted
from pipeline.runners.portable import PortableEngine


class _Runner(StoppableRunner, SparkRunner):
    """Beam's runner, with a job server that ends with the job."""


class SparkEngine(PortableEngine):
    """Spark, whose driver is Beam's job server: one that is running, or one of this command."""

    def defaults(self) -> dict[str, str]:
        """Return the jar that the environment names, and where workers of a local Spark are."""
        if not self._has_own_server:
            return {}
        is_local = self.flags.get("spark_master_url", "local").startswith("local")
        return name_jar("spark") | ({"environment_type": "LOOPBACK"} if is_local else {})

    @property
    def reason_to_wait(self) -> str:
        """The driver, if it is a job server that this command starts."""
        if self._has_own_server:
            return "Spark's driver is the job server that this command starts and ends"
        return super().reason_to_wait

    def check_options(self) -> None:
        """Refuse what fails on every worker, or a machine that cannot run the job server.

        Raises:
            UserError: workers would lack the job's code, or there is no Java or no job server.
        """
        super().check_options()
        if self._has_own_server:
            check_job_server("spark", SparkJarJobServer, self.arguments)

    def submit(self, run: Run) -> Submitted:
        """Submit a job and, unless --no-wait is set, wait for its end.

        Raises:
            UserError: an option is missing.
            JobCancelledError: somebody else cancelled the job.
            RuntimeError: the job failed.
        """
        with stopping(_Runner()) as self._runner:
            return super().submit(run)

    def submit_pipeline(self, run: Run, runner: PipelineRunner | None = None) -> Any:
        """Submit the pipeline to a job server that ends with the job."""
        return super().submit_pipeline(run, runner or self._runner)

    @property
    def _has_own_server(self) -> bool:
        return self.flags.keys().isdisjoint({"job_endpoint", "spark_submit_uber_jar"})
