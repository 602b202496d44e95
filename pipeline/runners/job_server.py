"""Beam's job servers, processes that take a pipeline to an engine, for one job each."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import JobServiceHandle, PortableRunner


def follow_jobs_to_their_end(runner: PortableRunner) -> None:
    """Let a runner open the streams of a job's states and messages without a deadline.

    Beam gives them that of --job_server_timeout, a minute, and takes a job that runs longer for one
    that failed. They cannot be replaced afterwards either: Beam's job server in Java tells a change
    of state to one stream after the other, and where one has ended, at its deadline or because the
    client no longer holds it, those after it never hear of the end of the job.

    Args:
        runner: a runner that has submitted nothing yet.
    """
    create = runner.create_job_service_handle

    def create_patient(job_service: Any, options: PipelineOptions) -> JobServiceHandle:
        handle = create(job_service, options)
        start = handle.run

        def run(preparation_id: str) -> Any:
            handle.timeout = None
            return start(preparation_id)

        handle.run = run
        return handle

    runner.create_job_service_handle = create_patient


class StoppableRunner(PortableRunner):
    """One of Beam's runners, with a job server that can be ended before this process ends.

    A subclass derives from this class and from Beam's runner.
    """

    def __init__(self) -> None:
        super().__init__()
        self._server: Any = None

    def default_job_server(self, options: PipelineOptions) -> Any:
        """Make Beam's job server, and remember it."""
        self._server = super().default_job_server(options)
        return self._server

    def stop(self) -> None:
        """End the job server."""
        if self._server is not None:
            self._server.stop()


R = TypeVar("R", bound=StoppableRunner)


@contextmanager
def stopping(runner: R) -> Iterator[R]:
    """End a runner's job server, if it has started one, after a block.

    Beam sets a handler of Ctrl-C that ends only the job server; the former one is restored.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield runner
    finally:
        runner.stop()
        signal.signal(signal.SIGINT, handler)
