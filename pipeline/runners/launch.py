"""From the options of a run to an engine that runs it: what all commands that need one share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from pipeline.console.progress import Counters, Work, show_progress
from pipeline.console.run_log import LogOptions, log_event
from pipeline.options import RunOptions
from pipeline.runners.arguments import complete, set_by_us
from pipeline.runners.local.runner import count_processes
from pipeline.runners.local.workers import start_workers
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Setting, check_shards, paths_of
from pipeline.runners.table import LOCAL, Runner, find_runner

# Engines deal ranges out beforehand, the same number to each worker.
_RANGES_PER_WORKER, _SMALLEST_RANGE_BYTES = 8, 2**20


@dataclass(frozen=True)
class Launch:
    """An engine, and the options of a run on it.

    Attributes:
        runner: the engine.
        options: as the user gave them.
        setting: the places of the job, and Beam's own options, complete.
        console: where a job that runs elsewhere is announced.
        log: where the log goes.
    """

    runner: Runner
    options: RunOptions
    setting: Setting
    console: Console
    log: LogOptions

    def choose_range_bytes(self, input_bytes: int) -> int:
        """Bytes of a range: the user's or the engine's, or less for workers to end together.

        Args:
            input_bytes: all there is to read.
        """
        most = self.options.range_bytes or self.runner.range_bytes
        parallelism = self.runner.parallelism(self.setting.arguments, self.options.workers)
        even = input_bytes // ((parallelism or 1) * _RANGES_PER_WORKER)
        return min(most, max(_SMALLEST_RANGE_BYTES, even))

    def run(
        self,
        build: Callable[[beam.Pipeline], None],
        corpus_bytes: int,
        tasks: int,
        work: Work,
        temp_folder: str,
    ) -> Submitted:
        """Run a job, with a progress line.

        Args:
            build: adds the job to a pipeline.
            corpus_bytes: of text.
            tasks: that the input was cut into.
            work: what there is to do.
            temp_folder: of the job's temporary files.

        Raises:
            UserError: the engine cannot run it, or the job found a mistake of the user's.
            WorkerDiedError: a worker process of the local runner died.
            JobFailedError: the engine ended the job for a reason that is known.
            JobCancelledError: somebody else cancelled the job.
        """
        options = self.options
        self.runner.refuse(replace(self.setting, tasks=tasks), options.workers)
        processes = 0
        if self.runner.name != LOCAL.name:
            check_shards(work.shards, corpus_bytes * work.repeats)
        else:
            processes = count_processes(options.workers, corpus_bytes, options.min_bytes_per_worker)
        # Before the progress line starts a thread.
        workers = start_workers(processes)
        counters = Counters()
        log_event(
            "run_started",
            f"{work.bytes / 1e6:,.0f} MB in {tasks} task{'s' * (tasks != 1)} on {self.runner.name}",
            {
                "runner": self.runner.name,
                "workers": processes,
                "bytes": work.bytes,
                "tasks": tasks,
                **self.setting.places,
            },
        )
        with show_progress(counters, work, options.progress, self.log):
            return self.runner.run(
                Run(
                    build,
                    self.runner.name,
                    self.setting.arguments,
                    counters,
                    workers,
                    options.wait,
                    temp_folder,
                    options.patience,
                    self._announce,
                    bool(self.runner.tie(self.setting.arguments)),
                )
            )

    def _announce(self, submitted: Submitted) -> None:
        if not submitted.job_id:
            return
        said = f"{self.runner.name}: job {submitted.job_id}"
        said += f", {submitted.url}" if submitted.url else ""
        self.console.print(said, markup=False, soft_wrap=True)
        job = {"runner": self.runner.name, "job_id": submitted.job_id, "url": submitted.url}
        log_event("job_submitted", said, job)


def prepare_launch(
    options: RunOptions,
    beam_arguments: Sequence[str],
    inputs: Sequence[str],
    output: str,
    console: Console,
    log: LogOptions | None = None,
) -> Launch:
    """Find the engine, complete its options and say those that we set.

    Raises:
        UserError: the engine cannot reach the places of the job.
    """
    runner = find_runner(options.runner)
    defaults = runner.defaults(beam_arguments)
    arguments = complete(beam_arguments, defaults)
    # The submitter opens files of object stores, too, with the very options of the workers.
    FileSystems.set_options(PipelineOptions(list(arguments)))
    paths = paths_of(inputs, output, options.temp_location)
    given = options.range_bytes is not None
    setting = Setting(options.runner, arguments, paths, 0, given, options.wait)
    launch = Launch(runner, options, setting, console, log or LogOptions())
    runner.refuse(launch.setting, options.workers)
    ours = set_by_us(beam_arguments, defaults)
    if ours:
        console.print(f"{runner.name}: {' '.join(ours)}", markup=False, soft_wrap=True)
    return launch
