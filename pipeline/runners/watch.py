"""A job that runs elsewhere: its counters, its end, and Ctrl-C."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.runner import PipelineState

from pipeline.console.progress import Counters
from pipeline.runners.failures import JobCancelledError
from pipeline.runners.live_counters import read_counters
from transforms.tally import NAMESPACE

_LOG = logging.getLogger(__name__)


class JobInterrupt(KeyboardInterrupt):
    """Ctrl-C, or a request to end, while a job ran elsewhere; it says what became of the job."""


def job_id_of(result: Any) -> str:
    """The engine's name for a job; empty where it has none.

    Args:
        result: of Beam's `Pipeline.run`.
    """
    found = getattr(result, "job_id", None) or getattr(result, "_job_id", None) or ""
    return str(found() if callable(found) else found)


def ask_counters(result: Any) -> dict[str, int]:
    """The counters of a job as its engine has them now, by the names of the local progress.

    Of a job service it is asked anew each time: `result.metrics` keeps its first answer.

    Args:
        result: of Beam's `Pipeline.run`.
    """
    if service := getattr(result, "_job_service", None):
        request = beam_job_api_pb2.GetJobMetricsRequest(job_id=job_id_of(result))
        metrics = service.GetJobMetrics(request).metrics
        return _join(read_counters(metrics.attempted), read_counters(metrics.committed))
    asked = MetricsFilter().with_namespace(NAMESPACE)
    attempted: dict[str, int] = {}
    committed: dict[str, int] = {}
    for metric in result.metrics().query(asked)["counters"]:
        name = metric.key.metric.name
        attempted[name] = attempted.get(name, 0) + (metric.attempted or 0)
        committed[name] = committed.get(name, 0) + (metric.committed or 0)
    return _join(attempted, committed)


def _join(attempted: dict[str, int], committed: dict[str, int]) -> dict[str, int]:
    """The larger of the two: some engines know one of them only, Prism knows of one bundle."""
    names = attempted.keys() | committed.keys()
    return {name: max(attempted.get(name, 0), committed.get(name, 0)) for name in names}


def take_counters(result: Any, counters: Counters) -> None:
    """Take over a job's counters; an engine that does not answer costs no job."""
    try:
        counters.update("job", ask_counters(result))
    except Exception as error:  # whatever its client raises
        _LOG.debug("no counters: %s", error)


def wait(result: Any) -> None:
    """Wait for the end of a job.

    Args:
        result: of Beam's `Pipeline.run`.

    Raises:
        JobCancelledError: somebody else cancelled it.
        RuntimeError: it failed; the message has what its workers said.
    """
    if service := getattr(result, "_job_service", None):
        # Beam gives these two a deadline of --job_server_timeout, and a job that runs longer than
        # that is taken for one that failed.
        job_id = job_id_of(result)
        result._state_stream = service.GetStateStream(
            beam_job_api_pb2.GetJobStateRequest(job_id=job_id)
        )
        result._message_stream = service.GetMessageStream(
            beam_job_api_pb2.JobMessagesRequest(job_id=job_id)
        )
    try:
        state = result.wait_until_finish()
    except Exception:
        if _ask_state(result) == PipelineState.CANCELLED:
            raise JobCancelledError(job_id_of(result)) from None
        raise
    if state == PipelineState.CANCELLED:
        raise JobCancelledError(job_id_of(result))
    if state != PipelineState.DONE:
        raise RuntimeError(f"the job ended as {state}")


def _ask_state(result: Any) -> str:
    with suppress(Exception):  # the engine may be what failed
        return str(result.state)
    return ""


class HeldInterrupts:
    """Ctrl-C and requests to end, kept until one can do something about them.

    A second one is not kept.
    """

    def __init__(self) -> None:
        self._came = False
        self._previous = {
            number: signal.signal(number, self._hold) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def release(self) -> None:
        """Keep no more of them.

        Raises:
            KeyboardInterrupt: one came.
        """
        self.restore()
        if self._came:
            raise KeyboardInterrupt

    def restore(self) -> None:
        """Let them do again what they did before."""
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _hold(self, _: int, __: FrameType | None) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True


@contextmanager
def hold_interrupts() -> Iterator[HeldInterrupts]:
    """Keep interrupts while a job is submitted: it must be known to cancel it.

    They are to be released within `cancel_on_interrupt`, so that there is no moment between.
    """
    held = HeldInterrupts()
    try:
        yield held
    finally:
        held.restore()


@contextmanager
def cancel_on_interrupt(
    cancel: Callable[[], object], job_id: str, url: str, tied: bool
) -> Iterator[None]:
    """Cancel the job where the block ends by Ctrl-C or a request to end.

    Args:
        cancel: asks the engine to.
        job_id: its name for the job.
        url: where the job is watched.
        tied: whether the job ends with this process anyway.

    Raises:
        JobInterrupt: it did.
    """
    try:
        yield
    except KeyboardInterrupt:
        try:
            cancel()
        except Exception as error:  # whatever an engine's client raises
            place = f" at {url}" if url else ""
            said = f"job {job_id} could not be cancelled and may go on ({type(error).__name__}): "
            said += f"end it{place}"
        else:
            said = f"job {job_id} was cancelled"
        # Of a job that ends with this process there is nothing to say.
        raise (KeyboardInterrupt if tied else JobInterrupt(said)) from None
