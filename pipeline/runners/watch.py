"""A job that runs elsewhere: its counters, its end, and Ctrl-C."""

import logging
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.runner import PipelineState

from pipeline.console.progress import Counters
from pipeline.runners.engine import Submitted
from pipeline.runners.failures import JobCancelledError
from pipeline.runners.live_counters import read_counters
from transforms.tally import NAMESPACE

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
        self._previous = {
            number: signal.signal(number, self._hold) for number in (signal.SIGINT, signal.SIGTERM)
        }
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
