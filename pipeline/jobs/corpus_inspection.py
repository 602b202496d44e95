"""`inspect-corpus`: measure a corpus, and what a build of it would give, in one pass."""

import json
from dataclasses import asdict, replace
from functools import partial
from tempfile import TemporaryDirectory
from time import time
from typing import Any

from corpusmill.commands.command import Call
from corpusmill.console.html_report import PAGE_BEGIN, render_corpus_page
from corpusmill.console.terminal_report import Origin, print_corpus
from corpusmill.corpus.filters.functions import NearPair
from corpusmill.dataset.accounting import split_files
from corpusmill.dataset.manifest_json import to_json
from corpusmill.errors import UserError, option
from corpusmill.inspection.corpus_numbers import (
    FORMAT,
    FORMAT_VERSION,
    NUMBERS_BEGIN,
    find_before_build,
    report_build,
)
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.console.progress import Work
from pipeline.console.run_log import log_event, log_findings
from pipeline.folders.run_folder import temporary_folder
from pipeline.recipe.preparation import prepare
from pipeline.runners.engine import Reach
from pipeline.runners.launch import Launch, list_places, prepare_launch
from transforms.recovery import Workplace
from transforms.storage.checksums import unseal
from transforms.storage.files import locate, open_file, read_file

# What the manifest of a built data set has besides.
_RESULTS = {"counts", "splits", "files"}


def inspect_corpus(command: InspectCorpus, call: Call) -> int:
    """Measure a corpus and print, or write, the report, which names the command as it was typed."""
    print_corpus(call.console, measure_corpus(command, call))
    return 0


def measure_corpus(command: InspectCorpus, call: Call, records: Any = None) -> dict[str, Any]:
    """Measure a corpus, and write the files that the command names.

    Args:
        command: the options.
        call: how the command was called.
        records: what is read in place of files; None where files are named.

    Returns:
        The numbers that `corpusmill.inspection.corpus_numbers` describes.
    """
    run, console = command.run, call.console
    page = call.locate(command.html) if command.html else None
    table = call.locate(command.json) if command.json else None
    if page:
        page.check_file("html", PAGE_BEGIN)
    if table:
        table.check_file("json", NUMBERS_BEGIN)
    if not run.wait:
        raise UserError(
            f"inspect-corpus {option('wait', False)}",
            "its report needs the result of the job",
            "Leave it out",
        )
    places = list_places(command.dataset)
    launch = prepare_launch(run, call.engine_arguments, places, console, command.log)
    if launch.engine.reach is not Reach.HERE and not run.temp_location:
        raise UserError(
            option("runner", run.runner),
            "its workers cannot reach this machine's folder of temporary files",
            f"Add a {option('temp_location')} that all of them reach",
        )
    numbers = _measure(command, launch, call, records)
    log_findings(report_build(numbers).findings)
    log_event("run_finished", "the corpus is measured", {"status": 0, "numbers": numbers})
    if table:
        content = json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"
        table.write(content.encode())
        console.print(f"all numbers are in {command.json}")
    if page:
        html = render_corpus_page(numbers, Origin(seconds=time(), commands=(call.typed,)))
        page.write(html.encode())
        console.print(f"the report with plots is in {command.html}")
    return numbers


def _measure(command: InspectCorpus, launch: Launch, call: Call, records: Any) -> dict[str, Any]:
    with (
        TemporaryDirectory(prefix="corpusmill-") as own_folder,
        temporary_folder(locate(own_folder), launch.temp_location) as temp_folder,
    ):
        recipe = prepare(command, temp_folder, call.console, records)
        with call.importing(launch.engine.unused_packages):
            # They import Beam. A mistake of the user's has been found by now.
            from corpusmill.dataset.editing import add_source_counts, add_unread  # noqa: PLC0415
            from pipeline import graph  # noqa: PLC0415
            from pipeline.assembly import assemble_job  # noqa: PLC0415
            from pipeline.jobs import build_work  # noqa: PLC0415
            from transforms.shuffle.trees import has_collected  # noqa: PLC0415

            launch.engine.load(recipe.work_bytes)

        place = Workplace(temp_folder, sizes=command.run.task_sizes)
        job = assemble_job(recipe, launch.engine, place)
        path = graph.numbers_path(job)
        launch.run(
            lambda pipeline: graph.measure_job(
                pipeline, job, recipe.tokenizer, command.sample_tokens
            ),
            Work(recipe.read_bytes, repeats=0, tasks=job.plan.tasks),
            job.corpus_bytes,
            temp_folder,
            partial(has_collected, path),
        )
        content = unseal(read_file(path), path)
        header, near = job.header, graph.compare_likeness(job)
        if near:
            header = replace(header, near_pairs=_read_pairs(near.table))
        timing = build_work.time_preparation(job, recipe)
    collected = json.loads(content)
    collected["counts"], unread, _ = split_files(collected["counts"])
    header, collected["counts"] = add_source_counts(add_unread(header, unread), collected["counts"])
    entries = {name: entry for name, entry in to_json(header).items() if name not in _RESULTS}
    numbers = {**entries, "format": FORMAT, "format_version": FORMAT_VERSION, **collected}
    numbers["build"]["exact"] &= recipe.documents.grouping is None
    named = command.named_size
    numbers["work"] = build_work.describe_work(numbers, job, recipe, launch.engine, timing, named)
    numbers["findings"] = [asdict(one) for one in find_before_build(header, numbers)]
    return numbers


def _read_pairs(table: str) -> tuple[NearPair, ...]:
    from corpusmill.corpus.filters.near_duplicates import read_shown  # noqa: PLC0415  kernels

    with open_file(table) as stream:
        return read_shown(stream)
