"""A job runs on worker processes in Beam's FnApiRunner, with the cures of the engine.

Bundles are dealt to worker processes as these become idle.

Beam deals the elements of a stage out before the stage begins, the same number to each worker, so
that all wait for the slowest one. Here a stage has more bundles than there are workers, and a
worker that has finished one gets the next.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any

import grpc
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils import thread_pool_executor

from pipeline.console.progress import Counters
from pipeline.console.run_log import log_event
from pipeline.runners.beam_pipelines import read_counters
from pipeline.runners.engine import Run
from pipeline.runners.local.gate import Gate, behind_gate
from pipeline.runners.local.in_process import PROGRESS_SECONDS, run_pipeline
from pipeline.runners.local.worker_watch import WorkerWatch

# A part is the least that a worker gets. Parts that take less time than a bundle itself are joined.
_PARTS_PER_WORKER = 8
_BUNDLE_SECONDS = 0.1
# What Beam raises where the connection of a worker ends before its bundle does.
_BROKEN = "Channel closed prematurely"

_Part = Mapping[str, list[bytes]]
_Processed = tuple[beam_fn_api_pb2.InstructionResponse, list[Any]]


class DealtBundles(fn_runner.ParallelBundleManager):
    """Beam's manager of a stage, whose bundles are dealt one by one.

    A subclass has the counters of the run.
    """

    counters: Counters

    def process_bundle(
        self,
        inputs: Mapping[str, Any],
        expected_outputs: object,
        fired_timers: Mapping[Any, Any],
        expected_output_timers: object,
        dry_run: bool = False,
    ) -> _Processed:
        """Process all that a stage gets. None of our stages has timers."""
        if fired_timers:
            raise RuntimeError("a stage has timers, which cannot be dealt")
        parts = cut_inputs(inputs, _PARTS_PER_WORKER * self._num_workers)
        deal = Deal(parts, self._num_workers)
        process = partial(
            self._process,
            expected_outputs=expected_outputs,
            expected_output_timers=expected_output_timers,
            dry_run=dry_run,
        )
        handlers = self.bundle_context_manager.worker_handlers[: len(parts)]
        with thread_pool_executor.shared_unbounded_instance() as executor:
            processed = executor.map(partial(_work, deal, process), handlers)
        return _merge([*chain.from_iterable(processed)])

    def _process(self, handler: Any, bundle: _Part, **expected: Any) -> _Processed:
        """Let a worker process one bundle."""
        context = _OneWorker(self.bundle_context_manager, handler)
        tokens = self._cache_token_generator
        manager = fn_runner.BundleManager(context, self._progress_frequency, tokens)
        begin = time.time()
        with self.counters.working():
            try:
                result, splits = manager.process_bundle(bundle, fired_timers={}, **expected)
            except Exception as error:
                if isinstance(error, grpc.RpcError) or _BROKEN in str(error):
                    WorkerWatch.lose(handler)
                raise
        seconds = time.time() - begin
        counts = read_counters(result.process_bundle.monitoring_infos)
        self.counters.update(result.instruction_id, counts)
        fields = {"worker": handler.number, "stage": context.stage.name, "seconds": seconds}
        log_event("bundle_finished", f"{seconds:.3f} s", fields, logging.DEBUG)
        return result, splits


class _OneWorker:
    """The context of a stage, as if it had one worker alone: Beam would choose among all."""

    def __init__(self, context: Any, handler: Any) -> None:
        self._context, self.worker_handlers = context, [handler]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class Deal:
    """The parts of a stage's input that wait for a worker.

    Args:
        parts: what the stage gets, {input: encoded elements} of each part.
        workers: number of workers.
    """

    def __init__(self, parts: Sequence[_Part], workers: int) -> None:
        self._waiting, self._workers, self._lock = list(reversed(parts)), workers, Lock()

    def take(self, seconds: float) -> list[_Part]:
        """Take the parts of the next bundle; none if none waits.

        Args:
            seconds: how long a part takes; infinite if unknown. Many short ones are taken at once,
                but never more than this worker's share of those that wait.
        """
        with self._lock:
            share = -(-len(self._waiting) // self._workers)
            wanted = _BUNDLE_SECONDS / max(seconds, 1e-6)
            return [self._waiting.pop() for _ in range(min(share, max(1, int(wanted))))]

    def end(self) -> None:
        """Leave nothing for the others, because a part has failed."""
        with self._lock:
            self._waiting.clear()


def cut_inputs(inputs: Mapping[str, Any], number: int) -> list[_Part]:
    """Cut what a stage gets into at most this many parts; at least one, which may be empty."""
    cut = {name: buffer.partition(number) for name, buffer in inputs.items()}
    parts: list[_Part] = [{name: cut[name][index] for name in cut} for index in range(number)]
    return [part for part in parts if any(map(any, part.values()))] or parts[:1]


def join_parts(parts: Sequence[_Part]) -> _Part:
    """Join parts to one."""
    return {name: [*chain.from_iterable(part[name] for part in parts)] for name in parts[0]}


def _work(
    deal: Deal, process: Callable[[Any, _Part], _Processed], handler: Any
) -> list[_Processed]:
    """Process bundles by one worker until none waits."""
    processed, seconds = [], float("inf")
    try:
        while parts := deal.take(seconds):
            begin = time.perf_counter()
            processed.append(process(handler, join_parts(parts)))
            seconds = (time.perf_counter() - begin) / len(parts)
    except BaseException:
        deal.end()
        raise
    return processed


def _merge(processed: list[_Processed]) -> _Processed:
    """Add up the metrics of bundles."""
    infos = (result.process_bundle.monitoring_infos for result, _ in processed)
    merged = beam_fn_api_pb2.ProcessBundleResponse(
        monitoring_infos=monitoring_infos.consolidate(chain.from_iterable(infos))
    )
    splits = [split for _, listed in processed for split in listed]
    return beam_fn_api_pb2.InstructionResponse(process_bundle=merged), splits


def run_on_workers(run: Run, arguments: Sequence[str], gate: Gate) -> None:
    """Run a job on worker processes to its end.

    Args:
        run: the run.
        arguments: options for Beam.
        gate: where the workers reach this process.

    Raises:
        WorkerDiedError: a worker process died.
    """
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    # FnApiRunner has no hooks for these, but looks the names up in its module while a job runs.
    fn_runner.ProgressRequester = _observe(run.counters)
    counters = {"counters": run.counters}
    fn_runner.ParallelBundleManager = type("DealtBundles", (DealtBundles,), counters)
    options = PipelineOptions(
        list(arguments),
        direct_num_workers=len(run.workers),
        direct_running_mode="multi_processing",
    )
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    runner = fn_runner.FnApiRunner(
        progress_request_frequency=PROGRESS_SECONDS,
        provision_info=fn_runner.ExtendedProvisionInfo(provision),
    )
    with behind_gate(gate), WorkerWatch(run.workers):
        run_pipeline(run, runner, options)


_ProgressRequester = fn_runner.ProgressRequester


def _observe(counters: Counters) -> Callable[[Any, str, float | None], Any]:
    """Make Beam's requester of progress, with the callback that its caller leaves out."""

    def create(worker_handler: Any, instruction_id: str, frequency: float | None) -> Any:
        def update(progress: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
            counters.update(instruction_id, read_counters(progress.monitoring_infos))

        return _ProgressRequester(worker_handler, instruction_id, frequency, update)

    return create
