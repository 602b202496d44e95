"""Flink's REST interface: a cluster's size, the state of a job, and its cancellation."""

from contextlib import suppress
from dataclasses import dataclass
from http.client import NOT_FOUND
from typing import Any
from urllib.parse import urlsplit

import requests
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf import json_format

from corpusmill.hub import describe_error
from pipeline.runners.live_counters import read_counters

# Beam keeps all of its metrics in one accumulator.
_METRICS = "__metricscontainers"

# States that a job does not leave.
FINISHED, CANCELED, FAILED = "FINISHED", "CANCELED", "FAILED"
ENDED = (FINISHED, CANCELED, FAILED)

# It answers within milliseconds unless its machine is overloaded.
_SECONDS_TO_ANSWER = 20


class NoAnswerError(Exception):
    """The interface cannot be reached, or does not know the job."""


class UnknownJobError(NoAnswerError):
    """The interface answers that it does not know the job."""


@dataclass(frozen=True)
class Overview:
    """The size of a cluster.

    Attributes:
        version: Flink's version, such as "1.19.3".
        task_managers: the number of machines that have registered.
        slots: the number of tasks that can run at once.
        free_slots: the number of slots that no job uses.
    """

    version: str
    task_managers: int
    slots: int
    free_slots: int


@dataclass(frozen=True)
class JobStatus:
    """The state of a job.

    Attributes:
        state: Flink's name for it, such as "RUNNING".
        marks: a text that changes when a task of the job begins, reads, writes or ends.
    """

    state: str
    marks: str


@dataclass(frozen=True)
class Failure:
    """A failure of tasks of a job.

    Attributes:
        milliseconds: its time.
        trace: Java's trace, with the Python traceback in it if there is one.
    """

    milliseconds: int
    trace: str


class FlinkRest:
    """The interface of one JobManager.

    Every method that asks it raises NoAnswerError if there is no answer.

    Args:
        master: its address, "host:port" or with "http://" or "https://" before it.
    """

    def __init__(self, master: str) -> None:
        self._url = (master if urlsplit(master).netloc else f"http://{master}").rstrip("/")

    def overview(self) -> Overview:
        """Return the size of the cluster."""
        names = ("flink-version", "taskmanagers", "slots-total", "slots-available")
        answer = self._get("/overview")
        return Overview(*(answer[name] for name in names))

    def jobs_named(self, name: str) -> set[str]:
        """Return the ids of all jobs with a name, including those that have ended."""
        return {job["jid"] for job in self._get("/jobs/overview")["jobs"] if job["name"] == name}

    def status(self, job: str) -> JobStatus:
        """Return the state of a job."""
        answer = self._get(f"/jobs/{job}")
        moving = ("read-records", "write-records", "write-bytes")
        marks = [
            (task["tasks"], [task["metrics"].get(name) for name in moving])
            for task in answer["vertices"]
        ]
        return JobStatus(answer["state"], f"{answer['state']} {marks}")

    def counters(self, job: str) -> dict[str, int]:
        """Return the job's live counters, to which a bundle adds its own when it ends."""
        answer = self._get(f"/jobs/{job}/accumulators")["user-task-accumulators"]
        shown = [entry["value"] for entry in answer if entry["name"] == _METRICS]
        metrics = beam_job_api_pb2.GetJobMetricsResponse()
        # Flink shows an error instead while tasks restart.
        with suppress(json_format.ParseError, IndexError):
            json_format.Parse(shown[0], metrics, ignore_unknown_fields=True)
        return read_counters(metrics.metrics.attempted)

    def failures(self, job: str) -> list[Failure]:
        """Return the latest failures, the most recent first; Flink keeps a limited number."""
        history = self._get(f"/jobs/{job}/exceptions").get("exceptionHistory", {})
        entries = history.get("entries", [])
        return [Failure(entry["timestamp"], entry["stacktrace"]) for entry in entries]

    def cancel(self, job: str) -> None:
        """Ask Flink to cancel a job; nothing happens if it has ended."""
        try:
            requests.patch(f"{self._url}/jobs/{job}?mode=cancel", timeout=_SECONDS_TO_ANSWER)
        except requests.RequestException as error:
            raise NoAnswerError(describe_error(error)) from error

    def page(self, job: str) -> str:
        """Return the URL of the page on which a job can be watched."""
        return f"{self._url}/#/job/running/{job}/overview"

    def _get(self, path: str) -> Any:
        try:
            answer = requests.get(f"{self._url}{path}", timeout=_SECONDS_TO_ANSWER)
            answer.raise_for_status()
            return answer.json()
        except requests.RequestException as error:
            is_unknown = error.response is not None and error.response.status_code == NOT_FOUND
            kind = UnknownJobError if is_unknown else NoAnswerError
            raise kind(describe_error(error)) from error
