"""A worker process of this machine for an engine that asks for one by Beam's protocol.

Beam has such a pool, too. Its workers are threads of this process, which print the trace of each
failure and cannot be ended; or processes of the first `python` on the search path, without the
options of the pipeline. And it listens on all networks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor
from google.protobuf import json_format, text_format

from pipeline.runners.local.workers import Worker, start_workers


class _Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Lets its one worker begin once the engine asks for it."""

    def __init__(self, worker: Worker, beam_arguments: Sequence[str]) -> None:
        self._worker = worker
        options = PipelineOptions(list(beam_arguments)).get_all_options()
        self._options = json_format.MessageToJson(JobServiceHandle.encode_pipeline_options(options))

    def StartWorker(  # noqa: N802  the name is the protocol's
        self, request: beam_fn_api_pb2.StartWorkerRequest, _: Any
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Let the worker begin."""
        control = text_format.MessageToString(request.control_endpoint)
        environment = {
            "CONTROL_API_SERVICE_DESCRIPTOR": control,
            "PIPELINE_OPTIONS": self._options,
            "WORKER_ID": request.worker_id,
        }
        with suppress(BrokenPipeError):  # it has died; the engine waits for it in vain, and says so
            self._worker.begin(environment)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(  # noqa: N802  likewise
        self, _: beam_fn_api_pb2.StopWorkerRequest, __: Any
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """Nothing: the worker ends by itself, or with the pool."""
        return beam_fn_api_pb2.StopWorkerResponse()


@contextmanager
def serve_worker(beam_arguments: Sequence[str]) -> Iterator[str]:
    """Start a worker, which is gone at the end of the block; gives the address of its pool.

    Args:
        beam_arguments: Beam's own options.
    """
    [worker] = start_workers(1)
    server = grpc.server(UnboundedThreadPoolExecutor())
    pool = _Pool(worker, beam_arguments)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        # What a worker still writes would race with the removal of the temporary folder.
        worker.process.kill()
        worker.process.join()
        server.stop(0)
