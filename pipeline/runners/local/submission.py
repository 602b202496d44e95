"""A job runs in Beam's FnApiRunner, with the cures of `pipeline.runners.local.engine`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms import userstate

from corpusmill.console.compilation import say_that_kernels_are_compiled
from pipeline.console.progress import Counters, repeat
from pipeline.runners.engine import Run
from pipeline.runners.live_counters import read_counters
from pipeline.runners.local.dealing import DealtBundles
from pipeline.runners.local.worker import end_bundles_at_once
from pipeline.runners.local.worker_watch import WorkerWatch
from pipeline.runners.plain_pipelines import without_folder
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
    end_bundles_at_once()
    # FnApiRunner has no hooks for these, but looks the names up in its module while a job runs.
    fn_runner.ProgressRequester = _observe(run.counters)
    counters = {"counters": run.counters}
    fn_runner.ParallelBundleManager = type("DealtBundles", (DealtBundles,), counters)
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
    # Each stage asks for views of the options, and Beam parses them anew for each view.
    object.__setattr__(options, "view_as", cache(options.view_as))
    before, say = shown_here(), [say_that_kernels_are_compiled]

    def look() -> None:
        run.counters.update("here", shown_here() - before)
        if say and any(worker.compiling.value for worker in run.workers):
            say.pop()()

    with _quick_graphs():
        pipeline = beam.Pipeline(runner=runner, options=options)
        with without_folder(pipeline):
            run.build(pipeline)
            with WorkerWatch(run.workers), repeat(_PROGRESS_SECONDS, look):
                pipeline.run().wait_until_finish()


@contextmanager
def _quick_graphs() -> Iterator[None]:
    """Let Beam look for states and timers once in each class of stages, and not 20 times in each.

    None of our stages has any. The signatures of all methods are read for that, which takes longer
    than the rest of the graph.
    """
    look, specs = userstate.get_dofn_specs, dict[type, Any]()

    def look_once(dofn: beam.DoFn) -> Any:
        kind = type(dofn)
        if kind not in specs:
            specs[kind] = look(dofn)
        return specs[kind]

    userstate.get_dofn_specs = look_once
    try:
        yield
    finally:
        userstate.get_dofn_specs = look


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Make Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def update(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, read_counters(progress.monitoring_infos))

        return _ProgressRequester(worker_handler, instruction_id, frequency, update)

    return create
