"""Any of Beam's runners by its name: what all engines outside of this process have in common."""

import logging
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any, Self

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, PipelineState
from apache_beam.runners.worker import sdk_worker, worker_pool_main

from corpusmill.console.process import ENDING_SIGNALS
from corpusmill.errors import UserError, option
from pipeline.console.progress import Counters, repeat
from pipeline.runners.beam_pipelines import new_pipeline, read_counters
from pipeline.runners.beam_servers import follow_jobs_to_their_end
from pipeline.runners.engine import Engine, Reach, Run, Submitted
from pipeline.runners.failures import JobCancelledError
from pipeline.runners.local.worker_watch import hide_broken_connections
from transforms.tally import NAMESPACE


class _QuietSubprocess:
    """Stands in for `subprocess` in Beam's worker pool."""

    PIPE = subprocess.DEVNULL  # Beam opens a pipe that it never reads

    @staticmethod
    def Popen(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: N802
        return subprocess.Popen(command, **options, stderr=subprocess.DEVNULL)  # noqa: S603


def hide_noise() -> None:
    """Keep workers from printing their failures, which they also report to the engine.

    This lasts until the process ends, because some of Beam's threads may outlive the job.
    """
    # Beam prints each failure with its trace. The module has no `print` of its own until now.
    sdk_worker.print = lambda *_, **__: None
    worker_pool_main.subprocess = _QuietSubprocess
    threading.excepthook = hide_broken_connections


_LOG = logging.getLogger(__name__)


class JobInterrupt(KeyboardInterrupt):
    """Ctrl-C, or a request to end, while a job ran elsewhere; says what became of the job."""


def job_id_of(result: Any) -> str:
    """Return the engine's name for a job; empty if it has none.

    Args:
        result: what Beam's `Pipeline.run` returned.
    """
    job_id = getattr(result, "job_id", None) or getattr(result, "_job_id", None) or ""
    return str(job_id() if callable(job_id) else job_id)


def ask_counters(result: Any) -> Counter[str]:
    """Ask the engine for the current counters of a job, by our names for them.

    A job service is asked directly, because `result.metrics` keeps its first answer. The larger
    value of each is taken: some engines report only what was attempted or what was committed, and
    Prism what one bundle attempted.

    Args:
        result: what Beam's `Pipeline.run` returned.
    """
    if service := getattr(result, "_job_service", None):
        request = beam_job_api_pb2.GetJobMetricsRequest(job_id=job_id_of(result))
        metrics = service.GetJobMetrics(request).metrics
        return read_counters(metrics.attempted) | read_counters(metrics.committed)
    ours = MetricsFilter().with_namespace(NAMESPACE)
    attempted, committed = Counter[str](), Counter[str]()
    for metric in result.metrics().query(ours)["counters"]:
        attempted[metric.key.metric.name] += metric.attempted or 0
        committed[metric.key.metric.name] += metric.committed or 0
    return attempted | committed


def take_counters(result: Any, counters: Counters) -> None:
    """Copy a job's counters, but do not fail if the engine does not answer."""
    try:
        counters.update("job", ask_counters(result))
    except Exception as error:  # whatever its client raises
        _LOG.debug("no counters: %s", error)


def wait(result: Any) -> None:
    """Wait for the end of a job.

    Args:
        result: what Beam's `Pipeline.run` returned.

    Raises:
        JobCancelledError: somebody else cancelled it.
        RuntimeError: it failed; the message has what its workers reported.
    """
    try:
        state = result.wait_until_finish()
    except Exception:
        state = ""
        with suppress(Exception):  # the engine may be what failed
            state = str(result.state)
        if state == PipelineState.CANCELLED:
            raise JobCancelledError(job_id_of(result)) from None
        raise
    if state == PipelineState.CANCELLED:
        raise JobCancelledError(job_id_of(result))
    if state != PipelineState.DONE:
        raise RuntimeError(f"the job ended as {state}")


class Interrupts:
    """Ctrl-C and requests to end, from the submission of a job until its end.

    While the job is submitted they are held back, since it can be cancelled only once it has an id;
    the second one raises all the same. Once released, they cancel the job.

    Args:
        tied: whether the job ends with this process anyway.
    """

    def __init__(self, tied: bool) -> None:
        self._tied, self._came = tied, False
        self._cancel: Callable[[], object] | None = None
        self._job = Submitted()

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._hold) for number in ENDING_SIGNALS}
        return self

    def release(self, cancel: Callable[[], object], job: Submitted) -> None:
        """Hold no more of them back, and cancel the job when one comes.

        Args:
            cancel: asks the engine to cancel the job.
            job: the job.

        Raises:
            KeyboardInterrupt: one came meanwhile.
        """
        self._cancel, self._job = cancel, job
        self._restore()
        if self._came:
            raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._restore()
        if kind is None or self._cancel is None or not issubclass(kind, KeyboardInterrupt):
            return
        name, url = f"job {self._job.job_id}", self._job.url
        try:
            self._cancel()
            outcome = f"{name} was cancelled"
        except Exception as error:  # whatever an engine's client raises
            outcome = f"{name} could not be cancelled and may still be running "
            outcome += f"({type(error).__name__}): cancel it{' at ' * bool(url)}{url}"
        # A job that ends with this process needs no such message.
        raise (KeyboardInterrupt if self._tied else JobInterrupt(outcome)) from None

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _hold(self, _: int, __: FrameType | None) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True


_SECONDS_BETWEEN_COUNTERS = 1.0

# It drops what `finish_bundle` yields and all sinks but the last, and takes a lost scheduler for a
# finished job.
LOSING_RUNNERS = ("DaskRunner",)
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
        if self.name in LOSING_RUNNERS:
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
                "--environment_config with an image (docs/how-to/choose-an-engine.md)"
            )
        if cause:
            raise UserError(option("runner", self.name), cause, cure)

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
        """Make the pipeline, and submit it.

        Args:
            run: the run.
            runner: Beam's runner; by default Beam makes it from the engine's name.

        Returns:
            Beam's result.

        Raises:
            UserError: Beam does not have the runner, or an option is missing.
        """
        arguments = [*self.arguments, *run.late_arguments]
        try:
            pipeline = new_pipeline(runner=runner or self.name, argv=arguments)
        except (ValueError, ImportError) as error:
            raise UserError(
                option("runner", self.name),
                f"Beam cannot create it ({error})",
                "Give local, or the name of one of Beam's runners with its options after --",
            ) from None
        if isinstance(pipeline.runner, PortableRunner):
            follow_jobs_to_their_end(pipeline.runner)
        run.build(pipeline)
        return pipeline.run()

    @property
    def _environment(self) -> str:
        """Where workers run; in a container by Beam's default."""
        return (self.flags.get("environment_type") or "DOCKER").upper()
