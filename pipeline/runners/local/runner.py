"""The local runner, which needs nothing but Python. Its watch is in worker_watch.py.

It is Beam's FnApiRunner, in this process or with worker processes, with these cures
of what was measured on it (Beam 2.77):

- its data plane's timed flush loses elements without a word: switched off;
- a worker process that dies hangs the job for ever: a watch on each ends it at once;
- it gives worker processes empty options: they are passed on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from pipeline.console.progress import Counters
from pipeline.runners.live_counters import read_counters
from pipeline.runners.local.worker_watch import WorkerWatch
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach


def reach(_: Sequence[str]) -> Reach:
    """Workers are processes of this machine."""
    return Reach.HERE


def tie(_: Sequence[str]) -> str:
    """All of it."""
    return "it runs in this process"


def parallelism(_: Sequence[str], workers: int) -> int | None:
    """The workers that are asked for."""
    return workers


def count_processes(workers: int, corpus_bytes: int, min_bytes_per_worker: int) -> int:
    """Worker processes that the input pays for; 0 where the job is quicker in this process."""
    if not min_bytes_per_worker:
        return workers
    paid = corpus_bytes // min_bytes_per_worker
    return min(workers, paid) if paid else 0


def submit(job: Run) -> Submitted:
    """Run a job to its end.

    Raises:
        WorkerDiedError: a worker process died.
    """
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
    return Submitted()


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def take(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, read_counters(progress.monitoring_infos))

        return _ProgressRequester(worker_handler, instruction_id, frequency, take)

    return create
