"""The local engine, which needs nothing but Python; worker_watch.py watches its workers.

It is Beam's FnApiRunner, in this process or with worker processes. It cures three faults that were
measured (Beam 2.77):

- the timed flush of its data plane silently loses elements: it is switched off;
- a worker process that dies makes the job hang for ever: a watch on each worker ends the job;
- it gives worker processes empty options: they get ours.
"""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from pipeline.console.progress import Counters, repeat
from pipeline.runners.engine import Engine, Reach, Run, Submitted
from pipeline.runners.live_counters import read_counters
from pipeline.runners.local.worker_watch import WorkerWatch
from pipeline.runners.local.workers import Worker, most_workers, start_workers
from transforms.tally import shown_here

_PROGRESS_SECONDS = 0.5


class LocalEngine(Engine):
    """Beam's local runner, in this process or with worker processes of it."""

    name = "local"
    # No shard is ever retried here.
    largest_shard_bytes = float("inf")
    reach = Reach.HERE
    reason_to_wait = "it runs in this process"

    @property
    def parallelism(self) -> int:
        """The number of workers: not more than this machine can hold."""
        return min(self.options.workers, most_workers())

    @property
    def remark(self) -> str:
        """Say that there are fewer workers than the user wants."""
        wanted, workers = self.options.workers, self.parallelism
        cause = "as many as this machine's cores and memory can hold"
        return f"--workers {wanted}: {workers} are used, {cause}" if workers < wanted else ""

    def count_workers(self, text_bytes: int) -> int:
        """Return how many of the wanted workers the input is worth; 0 if this process is faster."""
        workers, min_bytes = self.options.workers, self.options.min_bytes_per_worker
        return min(workers, text_bytes // min_bytes) if min_bytes else workers

    def start_workers(self, text_bytes: int) -> list[Worker]:
        """Start the worker processes that the input is worth, as far as this machine holds them."""
        return start_workers(min(self.parallelism, self.count_workers(text_bytes)))

    def submit(self, run: Run) -> Submitted:
        """Run a job to its end.

        Raises:
            WorkerDiedError: a worker process died.
        """
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
        # FnApiRunner has no hook for this, but looks the name up in its module when a job starts.
        fn_runner.ProgressRequester = _observe(run.counters)
        options = PipelineOptions(
            list(self.arguments),
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
        before = shown_here()

        def copy_counters() -> None:
            run.counters.update("here", shown_here() - before)

        with WorkerWatch(run.workers), repeat(_PROGRESS_SECONDS, copy_counters):
            pipeline.run().wait_until_finish()
        return Submitted()


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Make Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def update(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, read_counters(progress.monitoring_infos))

        return _ProgressRequester(worker_handler, instruction_id, frequency, update)

    return create
