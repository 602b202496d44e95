"""How the job is run. All that is particular to a runner is here and in worker_watch.py.

The local runner is Beam's FnApiRunner, in this process or with worker processes, with these cures
of what was measured on it (Beam 2.77):

- its data plane's timed flush loses elements without a word: switched off;
- a worker process that dies hangs the job for ever: a watch on each ends it at once;
- it gives worker processes empty options: they are passed on.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from corpusmill.faults import UserError
from pipeline.options import LOCAL_NAMES
from pipeline.progress import Counters
from pipeline.worker_watch import WorkerDiedError, WorkerWatch
from pipeline.workers import Worker
from transforms.tally import NAMESPACE

_MESSAGE_OF_USER_ERROR = re.compile(
    r"corpusmill\.faults\.UserError: (.*?)(?: \[while running.*|\n|$)", re.DOTALL
)
_NO_SPACE = re.compile(r"No space left on device[^\n\[]*|Disk quota exceeded[^\n\[]*")


@dataclass(frozen=True)
class Run:
    """One run of a pipeline.

    Attributes:
        build: adds the job to a pipeline.
        runner: "local" or the name of one of Beam's.
        workers: of the local runner; without any it runs in this process.
        beam_arguments: Beam's own options.
        counters: filled while the job runs.
    """

    build: Callable[[beam.Pipeline], None]
    runner: str
    workers: list[Worker]
    beam_arguments: tuple[str, ...]
    counters: Counters


def count_processes(runner: str, workers: int, corpus_bytes: int, min_bytes_per_worker: int) -> int:
    """Worker processes that the input pays for; 0 where the job is quicker in this process."""
    if runner not in LOCAL_NAMES:
        return 0
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
    # FnApiRunner has no hook for either; both are looked up in their modules when a job starts.
    fn_runner.ProgressRequester = _observe(job.counters)
    mode = "multi_processing" if job.workers else "in_memory"
    options = PipelineOptions(
        list(job.beam_arguments),
        direct_num_workers=max(1, len(job.workers)),
        direct_running_mode=mode,
    )
    runner = fn_runner.FnApiRunner(
        progress_request_frequency=0.5 if job.workers else None,
        provision_info=fn_runner.ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(
                pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
            )
        ),
    )
    pipeline = beam.Pipeline(runner=runner, options=options)
    job.build(pipeline)
    with WorkerWatch(job.workers):
        pipeline.run().wait_until_finish()


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
