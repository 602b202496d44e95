"""What serves one job beside its engine: Beam's job servers, and pools of workers.

A job server is a process that takes a pipeline to an engine. Engines ask for worker processes by
Beam's protocol of external worker pools.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import grpc
from apache_beam.options.pipeline_options import JobServerOptions, PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.job_server import JavaJarJobServer
from apache_beam.runners.portability.portable_runner import JobServiceHandle, PortableRunner
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

from corpusmill.errors import UserError, option
from pipeline.runners.engine import Worker
from pipeline.runners.local.engine import start_workers


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


def name_jar(engine: str) -> dict[str, str]:
    """Return the option that names a job server's jar, for those who cannot download Beam's.

    Args:
        engine: "flink" or "spark"; FLINK_JOB_SERVER_JAR and the like hold the path.
    """
    jar = os.environ.get(f"{engine.upper()}_JOB_SERVER_JAR")
    return {f"{engine}_job_server_jar": jar} if jar else {}


def check_job_server(engine: str, create: type[JavaJarJobServer], arguments: Sequence[str]) -> None:
    """Refuse a machine that cannot run the job server, whose jar is downloaded unless one is named.

    Args:
        engine: "flink" or "spark".
        create: Beam's class of its job server.
        arguments: all options for Beam.

    Raises:
        UserError: Java or the jar is missing.
    """
    options = PipelineOptions(list(arguments))
    view = options.view_as(JobServerOptions)
    runner, jar = option("runner", f"{engine.title()}Runner"), f"{engine}_job_server_jar"
    if not shutil.which(view.job_server_java_launcher):
        raise UserError(
            runner,
            f"Beam's job server needs Java, and {view.job_server_java_launcher} is not installed",
            "Install Java 11 or 17, or name a running job server with --job_endpoint after --",
        )
    server = create(options)
    try:
        server.local_jar(server.path_to_jar(), view.jar_cache_dir)
    except ValueError:
        raise UserError(
            f"--{jar} {options.get_all_options()[jar]}",
            "there is no such file",
            f"Give the path of a job server's jar, with the flag or with {jar.upper()}",
        ) from None
    except (OSError, RuntimeError) as error:
        raise UserError(
            runner,
            f"Beam's job server cannot be downloaded ({str(error).partition('. ')[0]})",
            f"Give the path of its jar with {jar.upper()}, or name a running job server with "
            "--job_endpoint after --",
        ) from None


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
        worker.kill()
        worker.wait()
