"""What each command does. The dataclasses are the command line: their docstrings are its help."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import tyro
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.arrays.columns import arrow_schema
from corpusmill.dataset.manifest import (
    MANIFEST,
    SUCCESS,
    TOKENIZER,
    columns_of,
    decode,
    output_options_of,
    special_tokens_of,
)
from corpusmill.dataset.verify import verify as find_problems
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.formats.shard_names import check_splits
from corpusmill.inspection.decoded_examples import decode_examples
from corpusmill.inspection.figures import summarize
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.words.words import load_words
from pipeline.assembly import assemble_job, estimate_read_bytes
from pipeline.builds import Build
from pipeline.graph import build_dataset
from pipeline.html_report import render_page
from pipeline.inputs import absolute, choose_format, list_inputs, read_bytes, say_hub_files
from pipeline.launch import prepare_launch
from pipeline.output import check_output, list_folder, write_text
from pipeline.probe import prove_tokenizer, read_probe
from pipeline.progress import Work
from pipeline.run_folder import RunFolder, refuse_a_living_run, run_folder, say_finished
from pipeline.run_log import log_event
from pipeline.terminal_report import print_inspection
from transforms.files import open_file
from transforms.journal import count_finished


@dataclass(frozen=True)
class Inspect:
    """Show decoded examples and the distributions of a data set."""

    folder: tyro.conf.Positional[str]
    """The data set."""
    examples: int = 3
    """How many examples to decode, from the first shard of each split; where lengths are parted, of
    its fullest one."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""


@dataclass(frozen=True)
class Verify:
    """Check every byte, row and count of a data set against its manifest."""

    folder: tyro.conf.Positional[str]
    """The data set."""


def build(command: Build, beam_arguments: tuple[str, ...], console: Console) -> int:
    """Build a data set, and say where it is and what is in it."""
    dataset = command.dataset
    launch = prepare_launch(
        command.run, beam_arguments, dataset.input, dataset.output, console, command.log
    )
    pattern = command.output_options.shard_name
    check_splits(pattern, dataset.validation_share > 0)
    refuse_a_living_run(dataset.output)
    stale = check_output(dataset.output, dataset.replace, pattern, dataset.resume)
    asked = command.objective.choose_documents(command.documents)
    tokenizer = read_tokenizer(dataset.tokenizer, read_bytes, command.tokenizer_options)
    words = load_words(command.objective.bind(tokenizer).words)
    with run_folder(dataset.output, command.run.temp_location, dataset.resume) as folder:
        files = list_inputs(dataset.input, folder.path, asked.suffixes)
        say_hub_files(files, console)
        documents = choose_format(files, asked, console)
        job = assemble_job(
            command.objective,
            tokenizer,
            documents,
            dataset,
            command.output_options,
            launch,
            files,
            folder,
            memoize=prove_tokenizer(tokenizer, read_probe(files, documents), console, words),
        )
        folder.begin(job.header, job.layout, job.range_bytes, files, stale)
        if dataset.resume:
            _say_what_is_finished(folder, console)
        work = Work(
            estimate_read_bytes(files), job.objective.repeats, job.plan.tasks, job.layout.shards
        )
        submitted = launch.run(
            lambda pipeline: build_dataset(pipeline, job),
            job.corpus_bytes,
            job.plan.tasks,
            work,
            folder.path,
        )
        folder.handed_over = not (submitted.done or submitted.dry)
    if submitted.dry:
        console.print("a dry run: the job was translated and checked, and nothing was submitted")
        return 0
    if not submitted.done:
        success = FileSystems.join(dataset.output, SUCCESS)
        said = f"submitted; the data set is complete once {success} is there"
        console.print(said, markup=False, soft_wrap=True)
        return 0
    console.print(f"the data set is in {dataset.output}")
    manifest = _read_manifest(dataset.output)
    _log_end(dataset.output, manifest)
    print_inspection(console, manifest, [], summarize(manifest))
    return 0


def _say_what_is_finished(folder: RunFolder, console: Console) -> None:
    finished = count_finished(folder.path)
    said = f"going on: finished are {say_finished(finished)}" if finished else "beginning anew"
    console.print(said, markup=False)


def _log_end(output: str, manifest: dict[str, Any]) -> None:
    splits = {
        name: {
            "rows": split["rows"],
            "tokens": split["tokens"],
            "shards": len(split["shards"]),
            "bytes": sum(shard["bytes"] for shard in split["shards"]),
        }
        for name, split in manifest["splits"].items()
    }
    rows = sum(split["rows"] for split in splits.values())
    log_event(
        "run_finished",
        f"{rows:,} examples in {output}",
        {"status": 0, "output": output, "splits": splits, "counts": manifest["counts"]},
    )


def inspect(command: Inspect, console: Console) -> int:
    """Print decoded examples and the report of a data set."""
    manifest = _read_manifest(command.folder)
    tokenizer_json = (read_bytes(FileSystems.join(command.folder, TOKENIZER)) or b"").decode()
    report = summarize(manifest)
    examples = []
    for split in manifest["splits"].values():
        shard = _shard_to_show(split["shards"])
        rows = _first_rows(command.folder, shard, manifest, command.examples)
        examples += decode_examples(rows, tokenizer_json, special_tokens_of(manifest))
    print_inspection(console, manifest, examples, report)
    if command.html:
        write_text(command.html, render_page(manifest, examples, report))
        console.print(f"the report with plots is in {command.html}")
    return 0


def verify(command: Verify, console: Console) -> int:
    """Print what is wrong with a data set; the exit status is 1 where anything is."""
    root = absolute(command.folder)

    def open_listed(name: str) -> BinaryIO:
        return open_file(FileSystems.join(root, *name.split("/")))

    problems = find_problems(list_folder(command.folder), open_listed, command.folder)
    for problem in problems:
        console.print(f"{problem.file}: {problem.what}", markup=False, highlight=False)
    if problems:
        console.print(f"{command.folder}: {len(problems)} problems")
        return 1
    manifest = _read_manifest(command.folder)
    shards = sum(len(split["shards"]) for split in manifest["splits"].values())
    rows = sum(split["rows"] for split in manifest["splits"].values())
    console.print(
        f"{command.folder}: all {shards} shards with {rows:,} examples are as they were written"
    )
    return 0


def _shard_to_show(shards: list[dict[str, Any]]) -> str:
    """The first shard; of shards that are parted by length one that has most rows."""
    parted = shards[0].get("bin") is not None
    return str((max(shards, key=lambda shard: shard["rows"]) if parted else shards[0])["file"])


def _first_rows(folder: str, shard: str, manifest: dict[str, Any], count: int) -> pa.RecordBatch:
    """At most `count` rows of a shard."""
    options, columns = output_options_of(manifest), columns_of(manifest)
    of = FORMATS[options.output_format]
    with ExitStack() as files:
        paths = [
            FileSystems.join(absolute(folder), name)
            for name in part_names(shard, of.suffixes(options))
        ]
        streams = [files.enter_context(open_file(path)) for path in paths]
        nothing = pa.RecordBatch.from_pylist([], arrow_schema(columns, options.is_padded))
        return next(of.read(streams, columns, options, max(1, count)), nothing)


def _read_manifest(folder: str) -> dict[str, Any]:
    content = read_bytes(FileSystems.join(folder, MANIFEST))
    if content is None:
        raise UserError(folder, f"it holds no {MANIFEST}", "Give the folder that a build wrote")
    return decode(content, folder)
