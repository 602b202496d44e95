"""A job on Beam's job server in Java, which loses sight of those who drop one of its streams."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.portable_runner import PipelineResult

from pipeline.console.progress import Counters
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Run
from pipeline.runners.failures import JobCancelledError
from pipeline.runners.portable import PortableEngine
from tests.tools.job_server import JobServer, State, serve_jobs


@pytest.fixture
def server() -> Iterator[JobServer]:
    with serve_jobs() as server:
        yield server


def add(pipeline: beam.Pipeline) -> None:
    _ = pipeline | beam.Create([1]).with_output_types(int)


def submit(server: JobServer, state: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a job that ends in a state once its command waits for it; return whether it is done."""
    wait = PipelineResult.wait_until_finish

    def end_and_wait(result: PipelineResult, *arguments: Any) -> Any:
        # The answer comes after all that this client has sent before, such as the end of a stream.
        assert result.state == "RUNNING"
        server.end_job(state)
        return wait(result, *arguments)

    monkeypatch.setattr(PipelineResult, "wait_until_finish", end_and_wait)
    arguments = (f"--job_endpoint={server.endpoint}", "--environment_type=LOOPBACK")
    portable = PortableEngine(RunOptions(runner="PortableRunner"), arguments)
    return portable.submit(Run(add, Counters())).done


def test_a_command_hears_of_the_end_of_its_job(
    server: JobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submit(server, State.DONE, monkeypatch)


def test_a_command_hears_that_somebody_has_cancelled_its_job(
    server: JobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobCancelledError, match="the only job"):
        submit(server, State.CANCELLED, monkeypatch)
