"""A plan of a build: its tasks are counted, and the rest is estimated from a sample.

    {"format": "corpusmill-plan", "format_version": 1, "corpusmill_version": "0.1.0",
     "objective": {"name": "bert", "options": {...}, "repeats": 10},
     "corpus": {"bytes": 5000000000000, "files": 5000, "largest_file_bytes": 1000000000,
                "input_format": "text"},
     "runner": "DataflowRunner", "workers": 200,
     "sample": {"text": "...", "is_of_the_corpus": false, "bytes": 8000000},
     "counts": {"tasks": 75000, "ranges": 75000, "merges": 640, "shards": 99999,
                "shard_files": 299997, "documents": ..., "tokens": ..., "rows": ...,
                "row_tokens": ...},
     "bytes": {"output": ..., "temporary": ..., "most_at_once": ...},
     "processor_seconds": {"build": ..., "prepare": ...},
     "longest_seconds": {"task": ..., "shard": ...}, "seconds": ..., "exact": false,
     "stages": [{"name": "list tasks", "calls": 1, "bytes": ..., "memory_bytes": ..., "files": 1,
                 "requests": 1, "references": 0, "shuffled_bytes": 0, "seconds": ...}, ...],
     "manifest_bytes": ..., "worker_bytes": ...,
     "bounds": [{"name": "input files", "value": 5000, "most": 16777216, "cure": ...,
                 "is_fatal": true, "unit": "", "is_exceeded": false}, ...]}

Tasks, ranges, merges and shards are exact: the job cuts its work by the same functions. All else is
estimated from the sample; "exact" says that the sample is the whole corpus, and that documents,
tokens, rows and the bytes of shards are exact, too. "longest_seconds" are those of the largest
task, and of a shard, which are one worker's; "seconds" is what all workers take if they are busy
while there is a task or a shard for them. For "stages" see `pipeline.planning.stage_sizes`;
"worker_bytes" is what each worker reads beside its work: the tokenizer and the pool.

The sample of a plan that has no input is English text: Python's own documentation, which every
installation of Python has, without its code. That is less text than a sample needs, so that further
copies have the same words in another order: a copy of the text itself would compress far better
than a corpus does.
"""

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from math import ceil, isfinite
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import apache_beam as beam
from rich.console import Console

from corpusmill.commands.command import Call
from corpusmill.console.terminal import Terminal
from corpusmill.corpus.batches import MAX_FILES, OFFSET_BITS
from corpusmill.errors import UserError, option
from corpusmill.inspection.build_estimate import enlarge, estimate_build
from corpusmill.location import scheme_of
from pipeline.assembly import assemble_job, choose_range_bytes, choose_routes, cut_tasks
from pipeline.console.plan_report import print_plan
from pipeline.folders.run_folder import RunFolder
from pipeline.graph import Job, build_dataset
from pipeline.job_options import MAX_SHARDS
from pipeline.planning.plan_options import PlannedCorpus, PlanOptions
from pipeline.planning.sample import (
    Sample,
    add_work,
    measure_documents,
    measure_pool,
    read_sample,
)
from pipeline.planning.stage_sizes import Corpus, measure_manifest, size_stages
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.recipe import Recipe, prepare
from pipeline.runners.engine import Engine, Reach
from pipeline.runners.launch import make_engine
from pipeline.runners.local.engine import most_workers
from pipeline.runners.proto_checks import (
    LARGEST_PIPELINE,
    WHOLE,
    describe_pipeline,
    find_faults,
    without_folder,
)
from transforms.storage.files import locate

# No unit of work should be one worker's for longer, as more workers do not shorten it.
_MOST_SECONDS = 120
# What all processes of a build may hold together.
_MOST_MEMORY_BYTES = 2**31
# Flink sorts the references of one key in 100 MB of memory.
_MOST_REFERENCES = 2**18
# Readers unpack a shard at a time.
_SHARD_BYTES = 10**9


@dataclass(frozen=True)
class Bound:
    """A bound.

    Attributes:
        name: what it bounds.
        value: how much of it the build takes.
        most: the bound.
        cure: what to do where the build takes more, as a sentence without its end.
        is_fatal: whether the build would fail then, in place of taking long.
        unit: of value and bound; empty for a number of things.
    """

    name: str
    value: float
    most: float
    cure: str
    is_fatal: bool = True
    unit: Literal["", "bytes", "seconds"] = ""

    @property
    def is_exceeded(self) -> bool:
        """Whether the build takes more than it may."""
        return self.value > self.most


def list_bounds(
    numbers: Mapping[str, Any], job: Job, engine: Engine, places: Sequence[str]
) -> list[Bound]:
    """List the bounds that hold for a build; those come first where it would fail.

    Args:
        numbers: of the plan (`pipeline.planning.planned_build`).
        job: the job of the whole corpus.
        engine: where it would run.
        places: the folders of temporary files and of the data set; empty for none.
    """
    is_here = engine.reach is Reach.HERE
    bounds = [
        *_bounds_of_files(numbers, job, engine),
        *(_bounds_here(numbers, engine, places) if is_here else _bounds_of_graph(job, engine)),
        *_bounds_of_workers(numbers),
    ]
    return sorted(bounds, key=lambda bound: not bound.is_fatal)


def _bounds_of_files(numbers: Mapping[str, Any], job: Job, engine: Engine) -> Iterator[Bound]:
    corpus, shards, cure = numbers["corpus"], job.layout.shards, "Split the corpus into builds"
    yield Bound("input files", corpus["files"], MAX_FILES, f"Join them, or s{cure[1:]}")
    largest = corpus["largest_file_bytes"]
    yield Bound("largest input file", largest, 2**OFFSET_BITS, "Split it", unit="bytes")
    if job.layout.train_shards == MAX_SHARDS:  # there are no names for more
        size = numbers["bytes"]["output"] / shards
        yield Bound("a shard", size, _SHARD_BYTES, cure, False, "bytes")
    built, most = job.corpus_bytes * job.objective.repeats, engine.largest_shard_bytes
    if isfinite(most):
        if built <= most * MAX_SHARDS:
            cure = f"Give --num-shards {ceil(built / most)}, as a shard is begun anew after a fault"
        yield Bound("text built into a shard", built / shards, most, cure, unit="bytes")


def _bounds_here(
    numbers: Mapping[str, Any], engine: Engine, places: Sequence[str]
) -> Iterator[Bound]:
    most, wanted = most_workers(), engine.options.workers
    cure = f"Give --workers {most}, or another --runner"
    yield Bound("workers of this machine", wanted, most, cure, False)
    path = locate(next(filter(None, places), ".")).local_path()
    if path and not any(map(scheme_of, places)):
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        free, most_bytes = shutil.disk_usage(existing).free, numbers["bytes"]["most_at_once"]
        cure = f"{existing} has no room: give a --temp-location and an --output that have"
        yield Bound("files on disk at once", most_bytes, free, cure, unit="bytes")


def _bounds_of_graph(job: Job, engine: Engine) -> Iterator[Bound]:
    pipeline = beam.Pipeline()
    with without_folder(pipeline):
        build_dataset(pipeline, job)
        proto = describe_pipeline(pipeline)
    cure = "Give fewer --num-shards or sources, or split the corpus into builds"
    yield Bound("graph of the job", proto.ByteSize(), LARGEST_PIPELINE, cure, unit="bytes")
    for fault in find_faults(proto):
        if fault.place != WHOLE:
            cure = f"It refuses {fault.place}: {fault.what}"
            yield Bound(f"faults for {engine.name}", 1, 0, cure)


def _bounds_of_workers(numbers: Mapping[str, Any]) -> Iterator[Bound]:
    workers, counts = numbers["workers"], numbers["counts"]
    tasks, shards, longest = counts["tasks"], counts["shards"], numbers["longest_seconds"]
    cure = f"Give --workers {tasks}, a smaller --range-bytes, or smaller files"
    yield Bound("workers, a task each", workers, tasks, cure, False)
    cure = f"Give --num-shards {workers}, or fewer --workers"
    yield Bound("workers, a shard each", workers, shards, cure, False)
    cure = "Give a smaller --range-bytes"
    if counts["ranges"] == numbers["corpus"]["files"]:
        cure += ", or files that are smaller, or not compressed, as one worker reads a file"
    yield Bound("time of a task", longest["task"], _MOST_SECONDS, cure, False, "seconds")
    cure = "Give more --num-shards"
    yield Bound("time of a shard", longest["shard"], _MOST_SECONDS, cure, False, "seconds")
    yield from _bounds_of_stages(numbers["stages"])


# What lowers the largest number of a stage; for all others, the number of shards does.
_CURES = {
    "draw pool": "Give fewer --pool-tokens",
    "merge": "Give a smaller --merge-bytes",
}


def _bounds_of_stages(stages: Sequence[Mapping[str, Any]]) -> Iterator[Bound]:
    """Yield what the largest calls of all stages take; these tell which stage that is."""

    def bound(
        name: str, number: str, most: float, unit: Literal["", "bytes", "seconds"], is_fatal: bool
    ) -> Bound:
        stage = max(stages, key=lambda stage: float(stage[number]))
        cures = (cure for begin, cure in _CURES.items() if stage["name"].startswith(begin))
        cure = f'It is "{stage["name"]}". {next(cures, "Split the corpus into builds")}'
        return Bound(name, stage[number], most, cure, is_fatal, unit)

    yield bound("time to read and write", "seconds", _MOST_SECONDS, "seconds", False)
    yield bound("memory of a call", "memory_bytes", _MOST_MEMORY_BYTES, "bytes", True)
    yield bound("references of a call", "references", _MOST_REFERENCES, "", True)


_HEADING = re.compile(r"[*=\-^~]{3,}")


def write_sample_text(path: Path, num_bytes: int, titled: bool = False) -> int:
    """Write at least so many bytes of text: a paragraph a line, an empty line between documents.

    The same version of Python writes the same text.

    Args:
        path: the file.
        num_bytes: how many bytes are wanted.
        titled: whether each document begins with a title as in WikiText.

    Returns:
        The size of the file.
    """
    documents = [(name, list(_paragraphs(text))) for name, text in sorted(topics.items())]
    words = [word for _, paragraphs in documents for line in paragraphs for word in line]
    generator, size = random.Random(0), 0  # noqa: S311  no secret
    with path.open("w", encoding="utf-8") as file:
        while size < num_bytes:
            rest = iter(words)
            for name, paragraphs in documents:
                lines = [f" = {name} = ", ""] if titled else []
                lines += [" ".join(next(rest) for _ in line) for line in paragraphs]
                size += file.write("\n".join([*lines, "", ""]))
            generator.shuffle(words)
    return path.stat().st_size


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the words of each paragraph that is neither a heading nor code, which is indented."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip() and not paragraph.startswith(" ") and not _HEADING.search(paragraph):
            yield paragraph.split()


class TaskCount(NamedTuple):
    """The tasks of a corpus.

    Attributes:
        tasks: their number.
        ranges: number of ranges.
        largest_share: share of the corpus' bytes in the largest task.
    """

    tasks: int
    ranges: int
    largest_share: float


def plan_build(options: PlanOptions, engine: Engine, console: Console) -> dict[str, Any]:
    """Plan a build, and return the numbers that the module's docstring lists.

    Args:
        options: of the plan.
        engine: where the job would run.
        console: where choices are announced that the user did not make.

    Raises:
        UserError: the options, the tokenizer or the input is not usable.
    """
    dataset, run = options.dataset, options.run
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        recipe = prepare(_find_sample(options, folder), folder, console)
        job = assemble_job(recipe, engine, RunFolder(folder, sizes=run.task_sizes))
        sample = read_sample(
            job, recipe.files, min(dataset.sample, dataset.total or dataset.sample)
        )
        recipe = _enlarge(recipe, options)
        if not dataset.parts:
            # Files of the planned format may be smaller than their text.
            sample = replace(sample, stored_bytes=sample.stored_bytes / _expansion_of(recipe))
        counted = count_tasks(recipe, choose_range_bytes(recipe, engine))
        job = _plan_job(job, recipe, counted, engine)
        workers = engine.count_busy(job.corpus_bytes)
        numbers = _describe_plan(recipe, dataset, sample) | {
            "runner": engine.name,
            "workers": workers,
        }
        counts, build = _estimate(job, recipe, sample, workers)
        numbers |= _list_work(job, counted, workers, counts, build)
        numbers |= _list_stages(job, recipe, counted, counts, build)
        bounds = list_bounds(numbers, job, engine, (run.temp_location or "", dataset.output))
    return numbers | {
        "bounds": [asdict(bound) | {"is_exceeded": bound.is_exceeded} for bound in bounds]
    }


def _describe_plan(recipe: Recipe, dataset: PlannedCorpus, sample: Sample) -> dict[str, Any]:
    """Return the entries that say what would be built, and of what text the sample is."""
    objective, text = recipe.objective, "English text (Python's documentation)"
    if (expansion := _expansion_of(recipe)) > 1:
        text += f", taken to be {expansion:g} times as large as its file"
    return {
        "format": "corpusmill-plan",
        "format_version": 1,
        "corpusmill_version": version("corpusmill"),
        "objective": {
            "name": objective.name,
            "options": asdict(recipe.objective_options),
            "repeats": objective.repeats,
        },
        "corpus": {
            "bytes": _sum_bytes(recipe.files),
            "files": len(recipe.files),
            "largest_file_bytes": max(file.bytes for file in recipe.files),
            "input_format": recipe.reading.describe("input_format"),
        },
        "sample": {
            "text": " ".join(dataset.parts) or text,
            "is_of_the_corpus": bool(dataset.parts),
            "bytes": round(sample.stored_bytes),
        },
    }


def _list_work(
    job: Job, counted: TaskCount, workers: int, counts: Mapping[str, int], build: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of what is made, and of what it takes."""
    shards, split, seconds = job.layout.shards, build["splits"]["train"], build["processor_seconds"]
    output, temporary = split["bytes"]["value"], build["temporary_bytes"]
    task = seconds["prepare"] * counted.largest_share
    return {
        "counts": {
            "tasks": counted.tasks,
            "ranges": counted.ranges,
            "merges": sum(job.routes.count_merges(counted.tasks)[-1:]),
            "shards": shards,
            "shard_files": shards * len(job.names.parts),
            "documents": counts["measure.documents"],
            "tokens": counts["measure.tokens"],
            "rows": split["rows"]["value"],
            "row_tokens": split["tokens"]["value"],
        },
        "bytes": {"output": output, "temporary": temporary, "most_at_once": output + temporary},
        "processor_seconds": seconds,
        "longest_seconds": {"task": task, "shard": seconds["build"] / shards},
        "seconds": max(task, seconds["prepare"] / workers)
        + seconds["build"] / shards * -(-shards // workers),
        "exact": build["exact"],
    }


def _list_stages(
    job: Job, recipe: Recipe, counted: TaskCount, counts: Mapping[str, int],
    build: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Return the entries of what each stage takes."""
    corpus = Corpus(
        files=len(recipe.files),
        ranges=counted.ranges,
        largest_task_bytes=counted.largest_share * _sum_bytes(recipe.files),
        documents=counts["measure.documents"],
        stored_bytes=measure_documents(counts, job),
        pool_bytes=measure_pool(counts, job),
        output_bytes=build["splits"]["train"]["bytes"]["value"],
        built_bytes=build["splits"]["train"]["built_bytes"]["value"],
    )
    return {
        "stages": [stage.to_json() for stage in size_stages(job, corpus)],
        "manifest_bytes": measure_manifest(job, corpus.files),
        "worker_bytes": round(len(recipe.tokenizer.json) + corpus.pool_bytes),
    }


def _expansion_of(recipe: Recipe) -> float:
    """Return how many bytes of text a byte of the corpus' files has, as the job estimates it."""
    return recipe.text_bytes / _sum_bytes(recipe.files)


def _sum_bytes(files: Sequence[InputFile]) -> int:
    return sum(file.bytes for file in files)


def _find_sample(options: PlanOptions, folder: str) -> PlanOptions:
    """Return the options with an input: English text if there is none."""
    if options.dataset.parts:
        return options
    path = Path(folder) / "sample.txt"
    if options.documents.document_rule == "whole-file":
        cause = "the size of the files, each of them a document, is not known"
        raise UserError(
            option("document_rule", "whole-file"),
            cause,
            f"Add some of the files as {option('input')}",
        )
    rule = options.objective.choose_documents(options.documents).document_rule
    write_sample_text(path, options.dataset.sample, titled=rule == "wikitext-articles")
    dataset = replace(options.dataset, input=(str(path),))
    documents = replace(options.documents, input_format="text")
    return replace(options, dataset=dataset, documents=documents)


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
    return TaskCount(tasks * times, ranges * times, largest / _sum_bytes(files))


def _plan_job(job: Job, recipe: Recipe, counted: TaskCount, engine: Engine) -> Job:
    """Return the job of the whole corpus, from that of the sample."""
    return replace(
        job,
        plan=job.plan._replace(tasks=counted.tasks, ranges=counted.ranges),
        range_bytes=choose_range_bytes(recipe, engine),
        documents=recipe.reading,
        corpus_bytes=recipe.text_bytes,
        routes=choose_routes(recipe, job.place.sizes, counted.tasks),
        commit=replace(job.commit, tasks=counted.tasks),
    )


def _estimate(
    job: Job, recipe: Recipe, sample: Sample, workers: int
) -> tuple[dict[str, int], dict[str, Any]]:
    """Estimate the counts of the corpus, and a build of it, as `inspect-corpus` does."""
    _refuse_nothing(recipe, len(sample.documents))
    corpus_bytes, pool = _sum_bytes(recipe.files), sample.to_pool()
    times, (taken, built) = corpus_bytes / sample.stored_bytes, _count_copies(recipe)
    # Hardly a document of a small sample would be in the validation split.
    layout = replace(job.layout, validation_shards=0, sources=())
    scale = enlarge(pool, times * built)
    build = estimate_build(job.objective, pool, scale, layout, job.output_options)
    _refuse_nothing(recipe, build["sample"]["rows"])
    build["exact"] &= layout == job.layout
    sizes = {
        "documents": len(pool.documents),
        "sentences": len(pool.sentence_offsets) - 1,
        "tokens": len(pool.token_ids),
    }
    counts = {f"measure.{name}": round(size * times * taken) for name, size in sizes.items()}
    counts["duplicates.documents"] = round(sizes["documents"] * times)
    add_work(build, counts, job, sample, corpus_bytes, workers)
    return counts, build


def _refuse_nothing(recipe: Recipe, number: int) -> None:
    if not number:
        cause = "a sample of it makes no examples"
        cure = (
            "Look at it with `corpusmill inspect-corpus`, or give a larger "
            f"{option('sample_bytes')}"
        )
        named = recipe.dataset.input or recipe.dataset.source
        raise UserError(option("input", named), cause, cure)


def _count_copies(recipe: Recipe) -> tuple[float, float]:
    """Return the share of the text that is taken, and how often the text is built on average."""
    sizes = {source: _sum_bytes(source.files) for source in recipe.sources}
    total = sum(sizes.values())
    if not total:
        return 1.0, 1.0
    taken = sum(size * min(1.0, source.repeat) for source, size in sizes.items()) / total
    return taken, sum(size * source.repeat for source, size in sizes.items()) / total


def plan(options: PlanOptions, call: Call) -> int:
    """Plan a build, and print the plan."""
    engine = make_engine(options.run, call.engine_arguments)
    # Standard output is for the JSON alone.
    console = Terminal(stderr=True) if options.json else call.console
    numbers = plan_build(options, engine, console)
    if options.json:
        call.console.print(*json.dumps(numbers, indent=1).split("\n"), sep="\n")
    else:
        print_plan(call.console, numbers)
    return 0
