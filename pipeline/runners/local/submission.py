"""A job runs in Beam's FnApiRunner, with the cures of `pipeline.runners.local.engine`."""

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from corpusmill.console.compilation import say_that_kernels_are_compiled
from pipeline.console.progress import Counters, repeat
from pipeline.runners.engine import Run
from pipeline.runners.live_counters import read_counters
from pipeline.runners.local.worker_watch import WorkerWatch
from transforms.tally import shown_here

_PROGRESS_SECONDS = 0.5


def run_locally(run: Run, arguments: Sequence[str]) -> None:
    """Run a job to its end.

    Args:
        run: the run; without workers this process does their work.
        arguments: options for Beam.

    Raises:
        WorkerDiedError: a worker process died.
    """
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    # FnApiRunner has no hook for this, but looks the name up in its module when a job starts.
    fn_runner.ProgressRequester = _observe(run.counters)
    options = PipelineOptions(
        list(arguments),
        direct_num_workers=max(1, len(run.workers)),
        direct_running_mode="multi_processing" if run.workers else "in_memory",
    )
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    runner = fn_runner.FnApiRunner(
        progress_request_frequency=_PROGRESS_SECONDS if run.workers else None,
        provision_info=fn_runner.ExtendedProvisionInfo(provision),
    )
    pipeline = beam.Pipeline(runner=runner, options=options)
    run.build(pipeline)
    before, say = shown_here(), [say_that_kernels_are_compiled]

    def look() -> None:
        run.counters.update("here", shown_here() - before)
        if say and any(worker.compiling.value for worker in run.workers):
            say.pop()()

    with WorkerWatch(run.workers), repeat(_PROGRESS_SECONDS, look):
        pipeline.run().wait_until_finish()


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Make Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def update(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, read_counters(progress.monitoring_infos))

        return _ProgressRequester(worker_handler, instruction_id, frequency, update)

    return create
