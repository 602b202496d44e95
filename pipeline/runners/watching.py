"""A job that runs on another engine, as it is seen from here while we wait for its end."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from apache_beam.portability.api import beam_job_api_pb2

from pipeline.progress import Counters
from pipeline.runners.live_counters import read_counters
from pipeline.runners.worker_watch import hide_broken_connections

_SECONDS_BETWEEN_LOOKS = 0.5


@contextmanager
def watch_job(result: Any, counters: Counters) -> Iterator[None]:
    """Keep counters up to date until the block ends; an interrupt there cancels the job.

    Args:
        result: Beam's, of a job that was submitted. Only a job service is asked for counters.
        counters: filled meanwhile.

    Raises:
        RuntimeError: the engine is gone.
    """
    ended = threading.Event()
    if hasattr(result, "_job_service"):
        threading.Thread(target=_follow, args=(result, counters, ended), daemon=True).start()
    logger = logging.getLogger()
    logger.addFilter(_is_ours)
    previous_hook, threading.excepthook = threading.excepthook, hide_broken_connections
    try:
        yield
    except KeyboardInterrupt:
        # The folder that it works in may be about to go. An engine that Beam itself has started may
        # be gone already, and each has errors of its own for that.
        with suppress(Exception):
            result.cancel()
        raise
    except grpc.RpcError as error:
        details = error.details() if isinstance(error, grpc.Call) else error
        raise RuntimeError(f"the connection to the engine was lost ({details})") from error
    finally:
        threading.excepthook = previous_hook
        logger.removeFilter(_is_ours)
        ended.set()


def _is_ours(record: logging.LogRecord) -> bool:
    """False for what an engine says of itself: Beam logs its errors whole, and raises them, too."""
    return record.module != "portable_runner"


def _follow(result: Any, counters: Counters, ended: threading.Event) -> None:
    # Not `result.metrics()`, which remembers its first answer.
    request = beam_job_api_pb2.GetJobMetricsRequest(job_id=result._job_id)
    while not ended.wait(_SECONDS_BETWEEN_LOOKS):
        try:
            metrics = result._job_service.GetJobMetrics(request).metrics
        except (grpc.RpcError, NotImplementedError, ValueError):
            return
        # Of bundles at work, and of those that are done; an engine may lack either.
        counters.update(result._job_id, read_counters(metrics.attempted))
        counters.update(result._job_id, read_counters(metrics.committed))
