"""A plan of a build: its sample is measured, its job is planned, and its work is put together."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apache_beam as beam
from rich.console import Console

from corpusmill.errors import UserError
from pipeline.graph import Job, build_dataset
from pipeline.options import parse_source
from pipeline.planning.limits import Setting
from pipeline.planning.options import PlanOptions
from pipeline.planning.problems import Problem, find_problems
from pipeline.planning.rates import compute_rates
from pipeline.planning.sample_parts import choose_parts, read_files
from pipeline.planning.sample_run import SampleRun, run_sample
from pipeline.planning.sample_text import write_sample_text
from pipeline.planning.schedule import Schedule, list_steps
from pipeline.planning.workload import Workload
from pipeline.preparation.assembly import (
    assemble_job,
    choose_range_bytes,
    choose_routes,
    cut_tasks,
)
from pipeline.preparation.inputs import InputFile, absolute
from pipeline.preparation.recipe import Recipe, prepare
from pipeline.preparation.run_folder import RunFolder
from pipeline.runners.engine import Engine, Reach
from pipeline.runners.plain_pipelines import without_folder
from pipeline.runners.proto_checks import ProtoFault, describe, find_faults
from transforms.plan import Plan
from transforms.storage.file_systems import scheme_of

# To load compiled kernels takes a process a second; what takes longer compiles them, once.
_MOST_LOADING_SECONDS = 1.0


class _Start(NamedTuple):
    """What it takes to start, in processor seconds.

    Attributes:
        seconds: of a command, until its first stage begins.
        loading_seconds: of a worker, to load the kernels.
    """

    seconds: float
    loading_seconds: float


class TaskCount(NamedTuple):
    """The tasks of a corpus.

    Attributes:
        tasks: their number.
        ranges: number of ranges.
        largest_bytes: size of the largest task.
    """

    tasks: int
    ranges: int
    largest_bytes: int


@dataclass(frozen=True)
class PlannedBuild:
    """A build as it is planned.

    Attributes:
        options: of the plan.
        recipe: what the data set would be made of.
        setting: the job's work, its steps, and where it would run.
        sample: what was measured.
        seconds: wall time of the measuring.
        problems: what would break, or take long.
    """

    options: PlanOptions
    recipe: Recipe
    setting: Setting
    sample: SampleRun
    seconds: float
    problems: Sequence[Problem]

    @property
    def file_bytes(self) -> float:
        """Mean size of the corpus' files."""
        return self.setting.work.input_bytes / self.setting.work.input_files


def plan_build(options: PlanOptions, engine: Engine, console: Console) -> PlannedBuild:
    """Plan a build.

    Args:
        options: of the plan.
        engine: where the job would run.
        console: where choices are announced that the user did not make.

    Raises:
        UserError: the options, the tokenizer or the input is not usable.
    """
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        recipe = prepare(_find_sample(options, folder), folder, console)
        job = assemble_job(recipe, engine, RunFolder(folder))
        before, began = time.process_time(), time.perf_counter()
        sample = _measure(job, recipe, options.dataset.sample, folder)
        seconds = time.perf_counter() - began
        planned = _enlarge(recipe, options)
        if not options.dataset.parts:
            # Files of the planned format may be smaller than their text.
            sample.stored_bytes /= expansion_of(planned)
        counted = count_tasks(planned, choose_range_bytes(planned, engine))
        job = _plan_job(job, planned, counted, engine)
    work = Workload(
        job,
        compute_rates(sample, job),
        sum(file.bytes for file in planned.files),
        len(planned.files),
        counted.largest_bytes,
        *_count_copies(planned),
    )
    setting = _set(options, job, work, engine, _Start(before, sample.loading_seconds))
    return PlannedBuild(options, planned, setting, sample, seconds, find_problems(setting))


def expansion_of(recipe: Recipe) -> float:
    """Return how many bytes of text a byte of the corpus' files has, as the job estimates it."""
    return recipe.text_bytes / sum(file.bytes for file in recipe.files)


def _find_sample(options: PlanOptions, folder: str) -> PlanOptions:
    """Return the options with an input: English text if there is none."""
    if options.dataset.parts:
        return options
    path = Path(folder) / "sample.txt"
    if options.documents.document_rule == "whole-file":
        cause = "the size of the files, each of them a document, is not known"
        raise UserError("--document-rule whole-file", cause, "Add some of the files as --input")
    rule = options.objective.choose_documents(options.documents).document_rule
    write_sample_text(path, options.dataset.sample, titled=rule == "wikitext-articles")
    dataset = replace(options.dataset, input=(str(path),))
    return replace(
        options, dataset=dataset, documents=replace(options.documents, input_format="text")
    )


def _measure(job: Job, recipe: Recipe, num_bytes: int, folder: str) -> SampleRun:
    parts = choose_parts(recipe.files, recipe.documents, num_bytes, folder)
    sample = run_sample(job, parts, folder)
    if not sample.counts["tokenize.documents"]:
        # The parts are between the blocks of the files.
        sample = run_sample(job, read_files(recipe.files, num_bytes), folder)
    if not sample.counts["build.examples"]:
        cause = "a sample of it makes no examples"
        cure = "Look at it with `corpusmill inspect-corpus`, or give a larger --sample-bytes"
        named = recipe.dataset.input or recipe.dataset.source
        raise UserError(f"--input {' '.join(named)}", cause, cure)
    return sample


def _enlarge(recipe: Recipe, options: PlanOptions) -> Recipe:
    """Return the recipe for files of the planned size, which need not exist."""
    total, size = options.dataset.total, options.dataset.file
    if total is None:
        return recipe
    number = -(-total // size)
    documents = recipe.documents
    if not options.dataset.parts and options.documents.input_format != "auto":
        documents = replace(documents, input_format=options.documents.input_format)
    suffix = "".join(Path(recipe.files[0].name).suffixes[-2:])
    file = InputFile(f"part{suffix}", total // number, f"part{suffix}")
    return replace(recipe, files=[file] * number, documents=documents)


def count_tasks(recipe: Recipe, range_bytes: int) -> TaskCount:
    """Count the tasks of a corpus as the job cuts them.

    A file of several ranges shares no task with another one, since two of its ranges are larger
    than a task. Of equal files only one is therefore cut, if it has several.

    Args:
        recipe: with the corpus.
        range_bytes: the length of the longest range.
    """
    files = recipe.files
    times = len(files) if all(file is files[0] for file in files) else 1
    first = replace(recipe, files=files[:1])
    if times == 1 or sum(1 for _ in cut_tasks(first, range_bytes)) == 1:
        first, times = recipe, 1
    tasks = ranges = largest = 0
    for task in cut_tasks(first, range_bytes):
        ends = (files[part.file_index].bytes if part.end is None else part.end for part in task)
        size = sum(end - part.start for end, part in zip(ends, task, strict=True))
        tasks, ranges, largest = tasks + 1, ranges + len(task), max(largest, size)
    return TaskCount(tasks * times, ranges * times, largest)


def _count_copies(recipe: Recipe) -> tuple[float, float]:
    """Return the share of the text that is taken, and how often it is taken on average."""
    sizes = {source: sum(file.bytes for file in source.files) for source in recipe.sources}
    total = sum(sizes.values())
    if not total:
        return 1.0, 1.0
    taken = sum(size * min(1.0, source.repeat) for source, size in sizes.items()) / total
    copies = sum(size * source.repeat for source, size in sizes.items()) / total
    return taken, copies / taken


def _plan_job(job: Job, recipe: Recipe, counted: TaskCount, engine: Engine) -> Job:
    """Return the job of the whole corpus, from that of the sample."""
    return replace(
        job,
        plan=Plan(job.plan.path, counted.tasks, counted.ranges),
        range_bytes=choose_range_bytes(recipe, engine),
        documents=recipe.documents,
        corpus_bytes=recipe.text_bytes,
        routes=choose_routes(recipe, counted.tasks),
        commit=replace(job.commit, tasks=counted.tasks),
    )


def _check_graph(job: Job) -> tuple[int, tuple[ProtoFault, ...]]:
    """Return the size of the graph that an engine gets, and for what engines would refuse it."""
    pipeline = beam.Pipeline()
    with without_folder(pipeline):
        build_dataset(pipeline, job)
        proto = describe(pipeline)
    return proto.ByteSize(), tuple(find_faults(proto))


def _set(options: PlanOptions, job: Job, work: Workload, engine: Engine, start: _Start) -> Setting:
    is_here = engine.reach is Reach.HERE
    dataset, temp_location = options.dataset, options.run.temp_location or options.dataset.output
    places = [*dataset.input, dataset.output, temp_location]
    places += [parse_source(source).path for source in dataset.source]
    in_store = not is_here or any(scheme_of(place) for place in places)
    workers = max(1, engine.count_workers(job.corpus_bytes))
    steps = list_steps(work, options.machine, in_store)
    loading = min(start.loading_seconds, _MOST_LOADING_SECONDS)
    schedule = Schedule(
        steps,
        workers,
        start.seconds + loading if is_here else options.machine.start_seconds,
        start.seconds + workers * loading,
    )
    folder = absolute(temp_location or ".")
    graph = _check_graph(job)
    return Setting(work, schedule, engine, options.machine, *graph, in_store, folder)
