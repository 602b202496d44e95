"""How the job is run. All that is particular to a runner is in this module.

The local runner is Beam's FnApiRunner, in this process or with worker processes, with these cures
of what was measured on it (Beam 2.77):

- its data plane's timed flush loses elements without a word: switched off;
- a worker process that dies hangs the job for ever: a watch on each ends it at once;
- it gives worker processes empty options: they are passed on.
"""

import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import apache_beam as beam
import grpc
import psutil
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from corpusmill.faults import UserError
from pipeline.progress import Counters
from transforms.tally import NAMESPACE

# How long a worker may take to end by itself once the job has ended.
_SECONDS_TO_STOP = 5

LOCAL_NAMES = ("local", "DirectRunner", "FnApiRunner")

_CHECKOUT = Path(__file__).resolve().parent.parent
_MESSAGE_OF_USER_ERROR = re.compile(
    r"corpusmill\.faults\.UserError: (.*?)(?: \[while running.*|\n|$)", re.DOTALL
)
_NO_SPACE = re.compile(r"No space left on device[^\n\[]*|Disk quota exceeded[^\n\[]*")


class WorkerDiedError(Exception):
    """A worker process of the local runner ended before its work."""


@dataclass(frozen=True)
class Run:
    """One run of a pipeline.

    Attributes:
        build: adds the job to a pipeline.
        runner: "local" or the name of one of Beam's.
        processes: worker processes of the local runner; 0 runs in this process.
        beam_arguments: Beam's own options.
        counters: filled while the job runs.
    """

    build: Callable[[beam.Pipeline], None]
    runner: str
    processes: int
    beam_arguments: tuple[str, ...]
    counters: Counters


def count_processes(workers: int, corpus_bytes: int, min_bytes_per_worker: int) -> int:
    """Worker processes that the input pays for; 0 where the job is quicker in this process.

    A process takes one to three seconds to start.
    """
    if not min_bytes_per_worker:
        return workers
    paid = corpus_bytes // min_bytes_per_worker
    return min(workers, paid) if paid else 0


def run(job: Run) -> None:
    """Run a job to its end.

    Raises:
        UserError: the job found a mistake of the user's.
        WorkerDiedError: a worker process died.
    """
    try:
        if job.runner in LOCAL_NAMES:
            _run_local(job)
        else:
            with _create_pipeline(job) as pipeline:
                job.build(pipeline)
    except (UserError, WorkerDiedError):
        raise
    except Exception as error:
        _raise_user_error(error)
        raise


def _create_pipeline(job: Run) -> beam.Pipeline:
    try:
        return beam.Pipeline(runner=job.runner, argv=list(job.beam_arguments))
    except (ValueError, ImportError) as error:
        raise UserError(
            f"--runner {job.runner}",
            f"Beam cannot make it ({error})",
            "Give local, or the name of one of Beam's runners with its options behind --",
        ) from None


def _raise_user_error(error: Exception) -> None:
    """Raise what a worker reported as text as the user's error that it is."""
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    if found := _MESSAGE_OF_USER_ERROR.search(text):
        value, _, rest = found.group(1).partition(": ")
        cause, _, cure = rest.partition(". ")
        raise UserError(value, cause, cure.rstrip(".")) from None
    if found := _NO_SPACE.search(text):
        raise UserError(
            "--output, --temp-location",
            f"the disk is full ({found.group(0).strip()})",
            "Free some space, or put temporary files on another disk with --temp-location",
        ) from None


def _run_local(job: Run) -> None:
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    processes = job.processes
    # FnApiRunner has no hook for either; both are looked up in their modules when a job starts.
    fn_runner.ProgressRequester = _observe(job.counters)
    mode = "multi_processing" if processes else "in_memory"
    options = PipelineOptions(
        list(job.beam_arguments), direct_num_workers=max(1, processes), direct_running_mode=mode
    )
    if processes:
        _set_environment_of_workers()
    runner = _LocalRunner(
        progress_request_frequency=0.5 if processes else None,
        provision_info=fn_runner.ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(
                pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
            )
        ),
    )
    pipeline = beam.Pipeline(runner=runner, options=options)
    job.build(pipeline)
    with _WorkerWatch():
        pipeline.run().wait_until_finish()


def _set_environment_of_workers() -> None:
    paths = (str(_CHECKOUT), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # glibc gives large arrays back to the system at once, and each new one is then filled with
    # zeros again, page by page: measured 10 % of all processor time.
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        os.environ.setdefault(name, str(256 * 2**20))


class _LocalRunner(fn_runner.FnApiRunner):
    """FnApiRunner whose worker processes are `pipeline.worker`."""

    def run_via_runner_api(self, pipeline_proto: Any, options: PipelineOptions) -> Any:
        if options.view_as(DirectOptions).direct_running_mode == "multi_processing":
            # `exec` puts the worker in the shell's place, so that its death is seen as its own.
            command = f"exec {shlex.quote(sys.executable)} -m pipeline.worker"
            for environment in pipeline_proto.components.environments.values():
                if environment.urn == python_urns.SUBPROCESS_SDK:
                    environment.payload = command.encode()
        return super().run_via_runner_api(pipeline_proto, options)


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    """Beam's handler of a worker process, which tells when the process dies."""

    def start_worker(self) -> None:
        self.worker = local_job_service.SubprocessSdkWorker(
            self._worker_command_line, self.control_address, self.provision_info, self.worker_id
        )
        self.worker_thread = threading.Thread(name="run_worker", target=self._watch, daemon=True)
        self.worker_thread.start()

    def _watch(self) -> None:
        try:
            self.worker.run()
        except RuntimeError as error:
            _WorkerWatch.report(str(error))

    def stop_worker(self) -> None:
        # A worker in the middle of a bundle that nobody waits for any more would go on for minutes.
        self.worker_thread.join(timeout=_SECONDS_TO_STOP)
        if self.worker_thread.is_alive():
            _WorkerWatch.end_workers()


class _WorkerWatch:
    """While it is entered, a worker's death, Ctrl-C or a request to end raise in the main thread.

    The main thread waits for a bundle that will never end; only a signal reaches it there. The
    workers are ended first, because Beam waits for each of them on its way out.
    """

    _cause = ""
    _ended = False

    def __enter__(self) -> None:
        handlers = {
            signal.SIGUSR1: self._raise_death,
            signal.SIGINT: self._raise_interrupt,
            signal.SIGTERM: self._raise_interrupt,
        }
        self._previous = {number: signal.signal(number, of) for number, of in handlers.items()}
        _WorkerWatch._ended = False
        # The connections of a worker that dies break in Beam's threads, each with a trace of no
        # use.
        self._previous_hook, threading.excepthook = threading.excepthook, _hide_broken_connections
        logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        _WorkerWatch._ended = True
        threading.excepthook = self._previous_hook
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @classmethod
    def report(cls, cause: str) -> None:
        """Called in the thread of a worker that died."""
        if not cls._ended:
            cls._cause = cause
            os.kill(os.getpid(), signal.SIGUSR1)

    @classmethod
    def end_workers(cls) -> None:
        """Kill every worker process; what they report from now on is no news."""
        cls._ended = True
        logging.disable()  # Beam logs every one of them as a failure to close
        workers = psutil.Process().children(recursive=True)
        for worker in workers:
            worker.kill()
        # What a worker still writes would race with the removal of the temporary folder.
        psutil.wait_procs(workers, timeout=_SECONDS_TO_STOP)

    @classmethod
    def _raise_death(cls, _: int, __: FrameType | None) -> None:
        if not cls._ended:
            cls.end_workers()
            raise WorkerDiedError(cls._cause)

    @classmethod
    def _raise_interrupt(cls, _: int, __: FrameType | None) -> None:
        cls.end_workers()
        raise KeyboardInterrupt


def _hide_broken_connections(failure: threading.ExceptHookArgs) -> None:
    if not isinstance(failure.exc_value, grpc.RpcError):
        threading.__excepthook__(failure)


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def take(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, _read_counters(progress))

        return _ProgressRequester(worker_handler, instruction_id, frequency, take)

    return create


def _read_counters(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> dict[str, int]:
    values: dict[str, int] = {}
    for info in progress.monitoring_infos:
        namespace, name = monitoring_infos.parse_namespace_and_name(info)
        if namespace == NAMESPACE and monitoring_infos.is_counter(info):
            values[name] = values.get(name, 0) + monitoring_infos.extract_counter_value(info)
    return values
