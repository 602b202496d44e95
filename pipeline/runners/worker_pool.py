"""Worker processes for engines that ask for them by Beam's protocol of external worker pools."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

from pipeline.runners.local.workers import Worker, start_workers


@contextmanager
def serve_pool(
    pool: beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer, address: str = "127.0.0.1:0"
) -> Iterator[str]:
    """Serve a pool at one address alone for the length of a block.

    Beam's own pools listen on every network of the machine, to anyone.

    Args:
        pool: what starts the workers.
        address: "host:port"; port 0 takes a free one.

    Yields:
        The address with its port.
    """
    server = grpc.server(UnboundedThreadPoolExecutor(), options=[("grpc.so_reuseport", 0)])
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        server.stop(0)


class _OneWorker(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Lets its one worker begin when the engine asks for it."""

    def __init__(self, worker: Worker, beam_arguments: Sequence[str]) -> None:
        self._worker = worker
        self._options = PipelineOptions(list(beam_arguments))

    def StartWorker(  # noqa: N802  the protocol's name
        self, request: beam_fn_api_pb2.StartWorkerRequest, _: Any
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Let the worker begin."""
        options = JobServiceHandle.encode_pipeline_options(self._options.get_all_options())
        with suppress(BrokenPipeError):  # it has died; the engine gives up waiting, and says so
            self._worker.begin(request.control_endpoint, options, request.worker_id)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(  # noqa: N802  likewise
        self, _: beam_fn_api_pb2.StopWorkerRequest, __: Any
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """Do nothing: the worker ends by itself, or with the pool."""
        return beam_fn_api_pb2.StopWorkerResponse()


@contextmanager
def serve_worker(beam_arguments: Sequence[str]) -> Iterator[str]:
    """Start a worker for the length of a block, and serve it as a pool.

    Beam's own pool would run threads of this process, which print the traceback of each failure and
    cannot be ended, or processes of the first `python` on the search path, without the pipeline's
    options.

    Args:
        beam_arguments: Beam's own options.

    Yields:
        The address of the pool.
    """
    [worker] = start_workers(1)
    try:
        with serve_pool(_OneWorker(worker, beam_arguments)) as address:
            yield address
    finally:
        # What a worker still writes would race with the removal of the temporary folder.
        worker.process.kill()
        worker.process.join()
