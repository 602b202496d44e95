"""A job server that behaves as Beam's in Java does, without an engine behind it.

It tells a change of state to all streams that it has opened, one after the other, and does not get
beyond one that has ended. Beam's server leaves the streams after that one open for ever; this one
ends them with an error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

State = beam_job_api_pb2.JobState
_JOB = "the only job"
_LOST = "a stream before this one has ended"
# What gRPC says of a stream without a deadline is longer.
_LONGEST_DEADLINE = 10 * 365 * 24 * 3600


class _Stream:
    """A stream to a client, and what it is still to be sent."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context, self.events = context, SimpleQueue[Any]()

    @property
    def has_ended(self) -> bool:
        """Whether the client has ended it, or it will end before a job of any length."""
        remaining = self.context.time_remaining()
        return not self.context.is_active() or remaining < _LONGEST_DEADLINE

    def send(self) -> Iterator[Any]:
        """Yield what is sent; None ends the stream, and an exception does so with an error."""
        for event in iter(self.events.get, None):
            if isinstance(event, Exception):
                self.context.abort(grpc.StatusCode.INTERNAL, str(event))
            yield event


class JobServer(beam_job_api_pb2_grpc.JobServiceServicer):
    """A job server that accepts jobs, of which the last one ends when the test says so.

    Attributes:
        endpoint: its address.
        prepared: the pipelines that it was given.
    """

    def __init__(self) -> None:
        self.endpoint, self.prepared = "", list[beam_runner_api_pb2.Pipeline]()
        self._state = State.RUNNING
        self._states, self._messages = list[_Stream](), list[_Stream]()

    def end_job(self, state: int = State.DONE) -> None:
        """Let the job end, and tell all streams of its states and messages."""
        self._state = state
        event = beam_job_api_pb2.JobStateEvent(state=state)
        _tell(self._states, event)
        _tell(self._messages, beam_job_api_pb2.JobMessagesResponse(state_response=event))

    def DescribePipelineOptions(self, _: Any, __: Any) -> Any:  # noqa: N802  the protocol's name
        return beam_job_api_pb2.DescribePipelineOptionsResponse()

    def Prepare(self, request: Any, _: Any) -> Any:  # noqa: N802  likewise
        self.prepared.append(request.pipeline)
        return beam_job_api_pb2.PrepareJobResponse(preparation_id=_JOB)

    def Run(self, _: Any, __: Any) -> Any:  # noqa: N802  likewise
        return beam_job_api_pb2.RunJobResponse(job_id=_JOB)

    def GetState(self, _: Any, __: Any) -> Any:  # noqa: N802  likewise
        return beam_job_api_pb2.JobStateEvent(state=self._state)

    def GetJobMetrics(self, _: Any, __: Any) -> Any:  # noqa: N802  likewise
        return beam_job_api_pb2.GetJobMetricsResponse()

    def GetStateStream(self, _: Any, context: Any) -> Iterator[Any]:  # noqa: N802  likewise
        stream = _Stream(context)
        self._states.append(stream)
        yield beam_job_api_pb2.JobStateEvent(state=self._state)
        yield from stream.send()

    def GetMessageStream(self, _: Any, context: Any) -> Iterator[Any]:  # noqa: N802  likewise
        stream = _Stream(context)
        self._messages.append(stream)
        yield from stream.send()


def _tell(streams: list[_Stream], event: Any) -> None:
    """Tell the streams, in the order in which they were opened, and end them."""
    is_lost = False
    for stream in streams:
        is_lost |= stream.has_ended
        stream.events.put(RuntimeError(_LOST) if is_lost else event)
        stream.events.put(None)


@contextmanager
def serve_jobs() -> Iterator[JobServer]:
    """Serve for the length of a block."""
    jobs, server = JobServer(), grpc.server(UnboundedThreadPoolExecutor())
    beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(jobs, server)
    jobs.endpoint = f"localhost:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield jobs
    finally:
        server.stop(0)
