"""`inspect-corpus`: measure a corpus, and what a build of it would give, in one pass.

    plan ─ read ─┬─ tokenize ─┬─ measure tokens ─┐
                 │            └─ sample ─────────┼─ collect: build the sample, scale it
                 └─ measure text ────────────────┘

All stages but the last are fused. Only temporary files and the report are written.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from time import time
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.commands.command import Call, Command
from corpusmill.commands.files import check_file
from corpusmill.console.html_report import render_corpus_page
from corpusmill.console.origin import Origin
from corpusmill.console.terminal_report import print_corpus
from corpusmill.corpus.filters.duplicates import ROW_BYTES
from corpusmill.dataset.manifest_json import to_json
from corpusmill.errors import UserError, check_option
from corpusmill.inspection.corpus_measures import measure_tokens
from corpusmill.inspection.corpus_numbers import find_before_build, report_build
from corpusmill.objectives.random_documents import BYTES_OF_SIZES, candidate_limit
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.commands.builds import FORMAT_NAMES, AnyObjective, DefaultObjective, apply_preset
from pipeline.console.progress import Work
from pipeline.console.run_log import log_event, log_findings
from pipeline.graph import Job, plan_pool, plan_preparation, plan_tasks
from pipeline.preparation.assembly import assemble_job
from pipeline.preparation.build_options import BuildOptions
from pipeline.preparation.inputs import read_bytes
from pipeline.preparation.recipe import prepare
from pipeline.preparation.records import Records
from pipeline.preparation.run_folder import RunFolder
from pipeline.preparation.temporary_folder import temporary_folder
from pipeline.runners.engine import Reach
from pipeline.runners.launch import Launch, prepare_launch
from transforms.build import SORT_BYTES
from transforms.measure import LARGEST, CollectNumbers, CollectOptions, MeasureDocuments
from transforms.pool import CANDIDATES, POOL, WritePool
from transforms.read import REJECTS
from transforms.tally import COUNTS, SKETCHES

_NUMBERS = "numbers.json"
_MOST_SAMPLE_TOKENS = 10**9


@dataclass(frozen=True, kw_only=True)
class InspectCorpus(BuildOptions):
    """Measure a corpus, and estimate what a build of it would give, without building it.

    Temporary files are in the system's folder for them, or under --temp-location.
    """

    sample_tokens: int = 4_000_000
    """Size of the sample, in tokens, that is built to estimate what a build would give. For a
    corpus with fewer tokens the numbers are exact."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""
    json: str | None = None
    """Also write all numbers to this file. corpusmill/inspection/corpus_numbers.py lists them."""
    objective: AnyObjective = field(default_factory=DefaultObjective)
    """What a build would make. Its name comes after all other flags, followed by its own flags."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the sample is empty, or too large to be built in memory.
        """
        if self.dataset.source:
            cause = "a corpus is measured as a whole"
            raise UserError("--source", cause, "Give --input; measure each source by itself")
        is_valid = 1 <= self.sample_tokens <= _MOST_SAMPLE_TOKENS
        check_option("sample-tokens", self.sample_tokens, is_valid, f"1 to {_MOST_SAMPLE_TOKENS}")


def inspect_corpus(command: InspectCorpus, call: Call) -> int:
    """Measure a corpus and print, or write, the report, which names the command as it was typed."""
    print_corpus(call.console, measure_corpus(command, call))
    return 0


def measure_corpus(
    command: InspectCorpus, call: Call, records: Records | None = None
) -> dict[str, Any]:
    """Measure a corpus, and write the files that the command names.

    Args:
        command: the options.
        call: how the command was called.
        records: what is read in place of files; None where files are named.

    Returns:
        The numbers that `corpusmill.inspection.corpus_numbers` describes.
    """
    run, console = command.run, call.console
    for flag, path in (("--html", command.html), ("--json", command.json)):
        if path:
            check_file(flag, path)
    if not run.wait:
        raise UserError(
            "inspect-corpus --no-wait", "its report needs the result of the job", "Leave it out"
        )
    launch = prepare_launch(run, call.engine_arguments, command.dataset, console, command.log)
    if launch.engine.reach is not Reach.HERE and not run.temp_location:
        raise UserError(
            f"--runner {run.runner}",
            "its workers cannot reach this machine's folder of temporary files",
            "Add a --temp-location that all of them reach",
        )
    numbers = _measure(command, launch, console, records)
    log_findings(report_build(numbers).findings)
    log_event("run_finished", "the corpus is measured", {"status": 0, "numbers": numbers})
    if command.json:
        content = json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"
        call.files.write(command.json, content.encode())
        console.print(f"all numbers are in {command.json}")
    if command.html:
        page = render_corpus_page(numbers, Origin(seconds=time(), command=call.typed))
        call.files.write(command.html, page.encode())
        console.print(f"the report with plots is in {command.html}")
    return numbers


def _measure(
    command: InspectCorpus, launch: Launch, console: Console, records: Records | None
) -> dict[str, Any]:
    with (
        TemporaryDirectory(prefix="corpusmill-") as own_folder,
        temporary_folder(own_folder, command.run.temp_location) as temp_folder,
    ):
        recipe = prepare(command, temp_folder, console, records)
        job = assemble_job(recipe, launch.engine, RunFolder(temp_folder))
        launch.run(
            lambda pipeline: measure_job(pipeline, job, recipe.tokenizer, command.sample_tokens),
            Work(recipe.read_bytes, repeats=0, tasks=job.plan.tasks),
            job.corpus_bytes,
            temp_folder,
        )
        content = read_bytes(_numbers_path(job)) or b""
    results = {"counts", "splits", "files"}
    header = {name: entry for name, entry in to_json(job.header).items() if name not in results}
    numbers = {**header, **json.loads(content)}
    workers = launch.engine.parallelism or command.run.workers
    numbers["build"]["temporary_bytes"] = estimate_temporary_bytes(numbers, job, workers)
    numbers["findings"] = [asdict(one) for one in find_before_build(job.header, numbers)]
    return numbers


def _numbers_path(job: Job) -> str:
    return str(FileSystems.join(job.place.temp_folder, _NUMBERS))


def measure_job(
    pipeline: beam.Pipeline, job: Job, tokenizer: TokenizerFile, sample_tokens: int
) -> None:
    """Add the stages to a pipeline.

    Args:
        pipeline: a new one.
        job: as for a build.
        tokenizer: the job's tokenizer.
        sample_tokens: the size of the sample.
    """
    measure = partial(
        measure_tokens,
        special=tokenizer.special,
        vocab_size=tokenizer.vocab_size,
        marked=bool(job.objective.words),
        cut=bool(job.tokenizing.cuts),
    )
    tasks, counts = plan_tasks(pipeline, job)
    measured = tasks | "MeasureDocuments" >> MeasureDocuments(
        plan_preparation(job, sample_tokens), measure
    )
    drawn = measured[CANDIDATES] | "WritePool" >> WritePool(plan_pool(job, sample_tokens))
    options = CollectOptions(
        job.objective,
        job.output_options,
        job.layout,
        job.commit.expected,
        _numbers_path(job),
    )
    counts += [measured[COUNTS], drawn[COUNTS]]
    _ = drawn[POOL] | "CollectNumbers" >> CollectNumbers(
        options, counts, measured[LARGEST], measured[REJECTS], (measured[SKETCHES],)
    )


def estimate_temporary_bytes(numbers: dict[str, Any], job: Job, workers: int) -> int:
    """Estimate the bytes of a build's temporary files, without those of its shards.

    Args:
        numbers: the numbers of the corpus.
        job: the build.
        workers: how many shards are sorted at once.
    """
    counts = numbers["counts"]
    documents, sentences, tokens = (
        counts.get(f"measure.{name}", 0) for name in ("documents", "sentences", "tokens")
    )
    width = np.dtype(job.tokenizing.token_dtype).itemsize
    # Ids, and Arrow's offsets of documents and sentences.
    document_bytes = documents * (8 + 4) + sentences * 4 + tokens * width
    pool_bytes = 0
    if pool_tokens := job.objective.pool_tokens:
        candidates = (candidate_limit(pool_tokens, job.corpus_bytes) + 1) / 2**64
        kept = min(1.0, pool_tokens / max(1, tokens))
        pool_bytes = round(candidates * (document_bytes + documents * BYTES_OF_SIZES))
        pool_bytes += round(kept * (document_bytes + documents * 4 + sentences * 4))
    levels = 2 if job.routes.two_levels else 1
    shuffled: int = document_bytes * levels
    if job.filters.drop_duplicates:
        shuffled += ROW_BYTES * counts.get("duplicates.documents", 0) * levels
    return shuffled + pool_bytes + _sorted_bytes(numbers["build"], workers)


def _sorted_bytes(build: dict[str, Any], workers: int) -> int:
    """Sum the bytes of the shards that are too large to be sorted in memory."""
    return sum(
        min(workers, split["shards"]) * split["built_bytes"]["value"] // split["shards"]
        for split in build["splits"].values()
        if split["built_bytes"]["value"] > SORT_BYTES * split["shards"]
    )


COMMAND = Command(InspectCorpus, inspect_corpus, apply_preset, FORMAT_NAMES)
