"""Flink's REST interface: what a cluster has, how a job is, and the end of one."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf import json_format

from pipeline.runners.live_counters import read_counters

# Beam keeps all of its metrics in one accumulator.
_METRICS = "__metricscontainers"

# States that a job does not leave.
FINISHED, CANCELED, FAILED = "FINISHED", "CANCELED", "FAILED"
ENDED = (FINISHED, CANCELED, FAILED)

# It answers within milliseconds, unless its machine is overloaded.
_SECONDS_TO_ANSWER = 20


class NoAnswerError(Exception):
    """The interface cannot be reached, or does not know what it is asked for."""


@dataclass(frozen=True)
class Overview:
    """What a cluster has.

    Attributes:
        version: of Flink, such as "1.19.3".
        task_managers: machines that have registered.
        slots: tasks that run at once.
        free_slots: those that no job has.
    """

    version: str
    task_managers: int
    slots: int
    free_slots: int


@dataclass(frozen=True)
class JobStatus:
    """How a job is.

    Attributes:
        state: such as "RUNNING".
        marks: changes whenever a task of the job begins, reads, writes or ends.
    """

    state: str
    marks: str


@dataclass(frozen=True)
class Failure:
    """A failure of tasks of a job.

    Attributes:
        milliseconds: when it was.
        trace: Java's, with the Python traceback in it where there is one.
    """

    milliseconds: int
    trace: str


class FlinkRest:
    """The interface of one JobManager.

    Every method raises NoAnswerError where there is no answer.

    Args:
        master: its address, "host:port" or with "http://" or "https://" before it.

    Attributes:
        url: the address with its scheme.
    """

    def __init__(self, master: str) -> None:
        self.url = (master if urlsplit(master).netloc else f"http://{master}").rstrip("/")

    def overview(self) -> Overview:
        """What the cluster has."""
        of = self._get("/overview")
        return Overview(
            of["flink-version"], of["taskmanagers"], of["slots-total"], of["slots-available"]
        )

    def jobs_named(self, name: str) -> set[str]:
        """The ids of all jobs of a name, of those that have ended, too."""
        return {job["jid"] for job in self._get("/jobs/overview")["jobs"] if job["name"] == name}

    def status(self, job: str) -> JobStatus:
        """How a job is."""
        of = self._get(f"/jobs/{job}")
        tasks = [(task["tasks"], _moving(task["metrics"])) for task in of["vertices"]]
        return JobStatus(of["state"], f"{of['state']} {tasks}")

    def counters(self, job: str) -> dict[str, int]:
        """The job's live counters; of a bundle they are heard of at its end."""
        values: dict[str, int] = {}
        for accumulator in self._get(f"/jobs/{job}/accumulators")["user-task-accumulators"]:
            if accumulator["name"] == _METRICS:
                values |= _parse_metrics(accumulator["value"])
        return values

    def failures(self, job: str) -> list[Failure]:
        """What has failed so far, the latest first; Flink keeps some."""
        history = self._get(f"/jobs/{job}/exceptions").get("exceptionHistory", {})
        return [Failure(of["timestamp"], of["stacktrace"]) for of in history.get("entries", [])]

    def cancel(self, job: str) -> None:
        """Ask for the end of a job; one that has ended is left as it is."""
        try:
            requests.patch(f"{self.url}/jobs/{job}?mode=cancel", timeout=_SECONDS_TO_ANSWER)
        except requests.RequestException as error:
            raise NoAnswerError(str(error)) from error

    def page(self, job: str) -> str:
        """Where a person watches a job."""
        return f"{self.url}/#/job/running/{job}/overview"

    def _get(self, path: str) -> Any:
        try:
            answer = requests.get(f"{self.url}{path}", timeout=_SECONDS_TO_ANSWER)
            answer.raise_for_status()
            return answer.json()
        except requests.RequestException as error:
            raise NoAnswerError(str(error)) from error


def _moving(metrics: dict[str, Any]) -> list[Any]:
    return [metrics.get(name) for name in ("read-records", "write-records", "write-bytes")]


def _parse_metrics(value: str) -> dict[str, int]:
    try:
        metrics = json_format.Parse(
            value, beam_job_api_pb2.GetJobMetricsResponse(), ignore_unknown_fields=True
        )
    except json_format.ParseError:  # Flink shows an error instead while tasks restart
        return {}
    return read_counters(metrics.metrics.attempted)
