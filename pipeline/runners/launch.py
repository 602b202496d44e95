"""How a prepared job is given to an engine: checks, worker processes, progress, and the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from pipeline.console.progress import Counters, Work, show_progress
from pipeline.console.run_log import LogOptions, log_event
from pipeline.graph import Job
from pipeline.options import RunOptions
from pipeline.runners.dataflow import DataflowEngine
from pipeline.runners.engine import Engine, Run, Submitted
from pipeline.runners.flink.engine import FlinkEngine
from pipeline.runners.local.engine import LocalEngine
from pipeline.runners.portable import PortableEngine
from pipeline.runners.prism import PrismEngine

ENGINES: dict[str, type[Engine]] = {
    "local": LocalEngine,
    "DirectRunner": LocalEngine,
    "FnApiRunner": LocalEngine,
    "PrismRunner": PrismEngine,
    "FlinkRunner": FlinkEngine,
    "DataflowRunner": DataflowEngine,
}

_LONGEST_RANGE_BYTES, _SHORTEST_RANGE_BYTES = 64 * 2**20, 2**20
# Engines deal ranges out in advance, the same number to each worker.
_RANGES_PER_WORKER = 8


@dataclass(frozen=True)
class Launch:
    """An engine, and where its run is reported.

    Attributes:
        engine: the engine, with the options of the run.
        console: where a job that runs elsewhere is announced.
        log: where the log goes.
    """

    engine: Engine
    console: Console
    log: LogOptions

    def choose_range_bytes(self, input_bytes: int) -> int:
        """Return the longest range: the user's choice, or one that lets workers end together.

        Args:
            input_bytes: the size of the input.
        """
        longest = self.engine.options.range_bytes or _LONGEST_RANGE_BYTES
        even = input_bytes // ((self.engine.parallelism or 1) * _RANGES_PER_WORKER)
        return min(longest, max(_SHORTEST_RANGE_BYTES, even))

    def run(self, job: Job, build: Callable[[beam.Pipeline, Job], None], work: Work) -> Submitted:
        """Run a job, with a progress line.

        Args:
            job: what is built or measured.
            build: adds the job's stages to a pipeline.
            work: how much there is to do, for the progress line.

        Raises:
            UserError: the engine cannot run it, or the job found a mistake of the user's.
            WorkerDiedError: a worker process on this machine died.
            JobFailedError: the job failed for a known reason.
            JobCancelledError: somebody else cancelled the job.
        """
        self.engine.check(job.plan.tasks)
        self.engine.check_shards(work.shards, job.corpus_bytes * work.repeats)
        # Before the progress line starts a thread.
        workers = self.engine.start_workers(job.corpus_bytes)
        self._log_start(job, work, len(workers))
        run = Run(
            lambda pipeline: build(pipeline, job),
            Counters(),
            job.temp_folder,
            workers,
            self._announce,
        )
        with show_progress(run.counters, work, self.engine.options.progress, self.log):
            return self.engine.run(run)

    def _log_start(self, job: Job, work: Work, workers: int) -> None:
        tasks, name = job.plan.tasks, self.engine.name
        places: dict[str, list[str]] = {}
        for flag, path in self.engine.places:
            places.setdefault(flag.strip("-").replace("-", "_"), []).append(path)
        counts = {"workers": workers, "bytes": work.bytes, "tasks": tasks}
        log_event(
            "run_started",
            f"{work.bytes / 1e6:,.0f} MB in {tasks} task{'s' * (tasks != 1)} on {name}",
            {"runner": name, **counts, **places},
        )

    def _announce(self, submitted: Submitted) -> None:
        if not submitted.job_id:
            return
        name, job_id, url = self.engine.name, submitted.job_id, submitted.url
        text = f"{name}: job {job_id}{', ' * bool(url)}{url}"
        self.console.print(text, markup=False, soft_wrap=True)
        log_event("job_submitted", text, {"runner": name, "job_id": job_id, "url": url})


def prepare_launch(
    options: RunOptions,
    beam_arguments: Sequence[str],
    inputs: Sequence[str],
    output: str,
    console: Console,
    log: LogOptions | None = None,
) -> Launch:
    """Set up the engine, check what it can reach, and print the options that we set for it.

    Raises:
        UserError: the engine cannot run a job with these options and places.
    """
    places = [("--input", path) for path in inputs]
    places += [("--output", output), ("--temp-location", options.temp_location or "")]
    create = ENGINES.get(options.runner, PortableEngine)
    engine = create(options, beam_arguments, [place for place in places if place[1]])
    # This process opens files in object stores as well, with the very options of the workers.
    FileSystems.set_options(PipelineOptions(list(engine.arguments)))
    engine.check()
    if engine.ours:
        console.print(f"{engine.name}: {' '.join(engine.ours)}", markup=False, soft_wrap=True)
    return Launch(engine, console, log or LogOptions())
