"""Beam's job servers, processes that take a pipeline to an engine, for one job each."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner


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
