"""How a prepared job is given to an engine: checks, worker processes, progress, and the run."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from rich.console import Console

from corpusmill.errors import UserError, count_things, option, suggest
from corpusmill.location import Location
from pipeline.console.progress import Counters, Work, show_progress
from pipeline.console.run_log import LogOptions, log_event
from pipeline.job_options import DatasetOptions, InputOptions, RunOptions, parse_source
from pipeline.runners.engine import Engine, Run, Submitted
from transforms.storage.file_systems import set_beam_options
from transforms.storage.files import locate

if TYPE_CHECKING:
    import apache_beam as beam

# Each is imported when it is needed; only the local one is without importing Beam.
_LOCAL = "pipeline.runners.local.engine:LocalEngine"
_ENGINES = {
    "local": _LOCAL,
    "DirectRunner": _LOCAL,
    "FnApiRunner": _LOCAL,
    "PrismRunner": "pipeline.runners.prism:PrismEngine",
    "FlinkRunner": "pipeline.runners.flink.engine:FlinkEngine",
    "SparkRunner": "pipeline.runners.spark:SparkEngine",
    "DataflowRunner": "pipeline.runners.dataflow:DataflowEngine",
}
_OTHERS = "pipeline.runners.portable:PortableEngine"
_RANKS = "pipeline.runners.ranks.engine:RanksEngine"

# As much work as a shard is beside its text: files are made, written, digested and renamed.
_TEXT_BYTES_FOR_A_SHARD = 128 * 1024


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

    @property
    def temp_location(self) -> Location | None:
        """Where temporary files are; None for beside the output."""
        path = self.engine.options.temp_location
        return locate(path) if path else None

    @property
    def outlives(self) -> bool:
        """Whether a job may continue without this process."""
        return not self.engine.reason_to_wait

    def run(
        self,
        build: Callable[["beam.Pipeline"], None],
        work: Work,
        text_bytes: int,
        temp_folder: str,
        has_result: Callable[[], bool],
    ) -> Submitted:
        """Run a job, with a progress line.

        A job that has left its whole result has succeeded, whatever becomes of its engine then: a
        connection that breaks, a machine that is lost, a server that has forgotten its jobs.

        Args:
            build: adds the job's stages to a pipeline.
            work: how much there is to do.
            text_bytes: size of the text in the input.
            temp_folder: the folder of the job's temporary files.
            has_result: tells whether this very job has left its whole result.

        Raises:
            UserError: the engine cannot run it, or the job found a mistake of the user's.
            WorkerDiedError: a worker process on this machine died.
            JobFailedError: the job failed for a known reason.
            JobCancelledError: somebody else cancelled the job.
        """
        self.engine.check_shards(work.shards, text_bytes * work.repeats)
        # Before the progress line starts a thread.
        workers = self.engine.start_workers(text_bytes + work.shards * _TEXT_BYTES_FOR_A_SHARD)
        self._log_start(work, len(workers))
        if late := self.engine.suit_work(work.tasks, text_bytes):
            self.console.print(f"{self.engine.name}: {' '.join(late)}")
        run = Run(build, Counters(), temp_folder, workers, self._announce, late)
        with show_progress(run.counters, work, self.engine.options.progress, self.log):
            begin = time.monotonic()
            try:
                submitted = self.engine.run(run)
                if who := run.counters.describe_workers(time.monotonic() - begin):
                    self.console.print(who)
                    log_event("work_done", who, {"runner": self.engine.name})
                return submitted
            except Exception as error:
                is_there = False
                # A store's client may raise anything; then the failure of the job is told.
                with suppress(Exception):
                    is_there = has_result()
                if not is_there:
                    raise
                name, what = self.engine.name, f"{type(error).__name__}: {error}".partition("\n")[0]
                text = f"{name} reports a failure after the job had finished its work ({what})"
                self.console.print(text)
                log_event("failure_after_the_end", text, {"runner": name}, logging.WARNING)
                return Submitted()

    def _log_start(self, work: Work, workers: int) -> None:
        tasks, name = work.tasks, self.engine.name
        places: dict[str, list[str]] = {}
        for place, path in self.engine.places:
            places.setdefault(place, []).append(path)
        counts = {"workers": workers, "bytes": work.bytes, "tasks": tasks}
        log_event(
            "run_started",
            f"{work.bytes / 1e6:,.0f} MB in {count_things(tasks, 'task')} on {name}",
            {"runner": name, **counts, **places},
        )

    def _announce(self, submitted: Submitted) -> None:
        if not submitted.job_id:
            return
        name, job_id, url = self.engine.name, submitted.job_id, submitted.url
        text = f"{name}: job {job_id}{', ' * bool(url)}{url}"
        self.console.print(text)
        log_event("job_submitted", text, {"runner": name, "job_id": job_id, "url": url})


def list_places(dataset: InputOptions) -> list[tuple[str, str]]:
    """Return (option, path) of every place that a build names, or of all input."""
    places = [("input", path) for path in dataset.input]
    places += [("source", parse_source(source).path) for source in dataset.source]
    if isinstance(dataset, DatasetOptions):
        places.append(("output", dataset.output))
    return places


def prepare_launch(
    options: RunOptions,
    beam_arguments: Sequence[str],
    places: Sequence[tuple[str, str]],
    console: Console,
    log: LogOptions,
) -> Launch:
    """Set up the engine, check what it can reach, and print how options were set or changed.

    Args:
        options: where and how the job runs.
        beam_arguments: options for Beam itself, as the user gave them.
        places: (option, path) of every place that workers open, but that of temporary files.
        console: where this is printed.
        log: where the log goes.

    Raises:
        UserError: the engine cannot run a job with these options and places.
    """
    places = [*places]
    if options.temp_location:
        places.append(("temp_location", options.temp_location))
    for name, path in places:
        _check_name(name, path)
    options = replace(options, runner=resolve_name(options.runner))
    engine = load_engine(options.runner, (options.ranks or 1) > 1)(options, beam_arguments, places)
    # This process opens files in object stores as well, with the very options of the workers.
    set_beam_options(engine.arguments)
    engine.check()
    if engine.ours:
        console.print(f"{engine.name}: {' '.join(engine.ours)}")
    if engine.remark:
        console.print(engine.remark)
    return Launch(engine, console, log)


def is_local(runner: str) -> bool:
    """Whether a runner is the local one, by any of its names."""
    return _ENGINES.get(resolve_name(runner)) == _LOCAL


def load_engine(runner: str, has_ranks: bool = False) -> type[Engine]:
    """Import the class of an engine.

    Args:
        runner: a name that `resolve_name` returned.
        has_ranks: whether several processes share its work.

    Raises:
        UserError: there is no such runner, or it is not one whose work they can share.
    """
    if has_ranks and not is_local(runner):
        cause = "it has workers of its own, and ranks share the work of the local runner"
        raise UserError(option("runner", runner), cause, f"Leave {option('ranks')} out")
    if runner not in _ENGINES and "." not in runner:
        from apache_beam.options.pipeline_options import StandardOptions  # noqa: PLC0415  as above

        from pipeline.runners.portable import LOSING_RUNNERS  # noqa: PLC0415  imports Beam

        names = (*StandardOptions.KNOWN_RUNNER_NAMES, *LOSING_RUNNERS)
        known = [name.removesuffix("Runner") for name in names]
        if runner.lower().removesuffix("runner") not in map(str.lower, known):
            cure = suggest(runner.removesuffix("Runner"), ["local", *known], 1)
            cure += "Give local, or the name of one of Beam's runners with its options after --"
            raise UserError(option("runner", runner), "Beam has no runner of this name", cure)
    place = _RANKS if has_ranks else _ENGINES.get(runner, _OTHERS)
    module, _, name = place.partition(":")
    return cast(type[Engine], getattr(import_module(module), name))


def _check_name(name: str, path: str) -> None:
    """Refuse a folder that cannot be named to workers; input files are named in the plan."""
    if name == "input":
        return
    try:
        os.path.abspath(path).encode()  # noqa: PTH100  of a URL as well
    except UnicodeEncodeError:
        cause = "the name is not UTF-8, or that of a folder around it"
        raise UserError(option(name, path), cause, "Rename it, or give another folder") from None


def resolve_name(runner: str) -> str:
    """Return the name of an engine that we know as Beam finds it, or else the name as it is.

    Example:
        "flink", "FLINKRUNNER" and "apache_beam.runners.portability.flink_runner.FlinkRunner" are
        "FlinkRunner".
    """
    name = runner.rsplit(".", 1)[-1] if runner.startswith("apache_beam.") else runner
    names = {known.lower(): known for known in _ENGINES}
    return names.get(name.lower()) or names.get(f"{name.lower()}runner", runner)
