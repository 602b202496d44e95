"""A build: prepared, run by an engine, and reported."""

from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console

from corpusmill.commands.command import Call
from corpusmill.corpus.filters.duplicates import NOTHING_LEFT
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.errors import UserError, count_things
from corpusmill.location import Location
from pipeline.console.progress import Work
from pipeline.console.run_log import log_event, log_findings
from pipeline.editing.appending import Appended
from pipeline.folders.changes import refuse_other
from pipeline.folders.output import Intent, check_output
from pipeline.folders.run_folder import RunFolder, name_units, run_folder, settle
from pipeline.folders.standing import APPEND, BUILD
from pipeline.recipe.build_options import Build
from pipeline.recipe.preparation import prepare
from pipeline.recipe.recipe import Recipe
from pipeline.runners.engine import Submitted
from pipeline.runners.launch import Launch, list_places, prepare_launch
from transforms.storage.files import locate


def describe_submission(output: Location, submitted: Submitted, change: str = "") -> str:
    """Say how one will know that a job has ended, or that it was only translated.

    Args:
        output: the folder that it writes into.
        submitted: the job.
        change: what it does to the data set in the folder ("the text has been added"); empty if
            it makes a new one.
    """
    if submitted.dry:
        return "a dry run: the job was translated and checked, and nothing was submitted"
    manifest = output / MANIFEST
    if change:
        return f"submitted; {change} once {manifest} changes"
    return f"submitted; the data set is complete once {manifest} exists"


if TYPE_CHECKING:
    from corpusmill.inspection.figures import Report

# Makes the recipe of a build, with a folder for temporary files.
Prepare = Callable[[Build, str, Console], Recipe]
_CHANGE = "the text has been added"


def build(command: Build, call: Call) -> int:
    """Build a data set, and print where it is and what is in it."""
    if run_build(command, call):
        # Imported here because a message about a mistake needs no report.
        from corpusmill.console.terminal_report import print_inspection  # noqa: PLC0415

        output = command.dataset.output
        call.console.print(f"the data set is in {output}")
        manifest, report = log_end(output)
        print_inspection(call.console, manifest, [], report)
    return 0


def run_build(command: Build, call: Call, prepare: Prepare = prepare) -> bool:
    """Build a data set.

    Args:
        command: the options.
        call: how the command was called.
        prepare: makes the recipe.

    Returns:
        Whether the data set is there; False if the job was only submitted or translated.
    """
    dataset, console = command.dataset, call.console
    places = list_places(dataset)
    launch = prepare_launch(command.run, call.engine_arguments, places, console, command.log)
    output, resume = locate(dataset.output), dataset.resume
    intent = Intent(APPEND if dataset.append else BUILD, dataset.replace, resume)
    standing = settle(check_output(output, launch.temp_location, intent))
    if resume and standing.manifest and not (standing.stopped or dataset.append):
        with TemporaryDirectory(prefix="corpusmill-") as scratch:
            refuse_other(output, standing.manifest, prepare(command, scratch, console))
        console.print("resuming: nothing is left to do, as the data set is complete")
        return True
    with run_folder(standing, intent, command.run.task_sizes, launch.outlives) as folder:
        recipe = prepare(command, folder.path, console)
        submitted = _build_in(folder, recipe, command, launch, call)
    if submitted.done and not submitted.dry:
        return True
    console.print(describe_submission(output, submitted, _CHANGE if dataset.append else ""))
    return False


def _build_in(
    folder: RunFolder, recipe: Recipe, command: Build, launch: Launch, call: Call
) -> Submitted:
    """Assemble the job of a recipe, and run it in the folder of the run, unless it is done."""
    dataset, console = command.dataset, call.console
    before = folder.standing.manifest
    appended = Appended(folder, before) if dataset.append and before else None
    if appended:
        recipe = appended.adapt(recipe)
        if dataset.resume and appended.has_added(recipe):
            console.print(f"resuming: nothing is left to do, as {_CHANGE}")
            return Submitted()
    with call.importing(launch.engine.unused_packages):
        # They import Beam. A mistake of the user's has been found by now.
        from pipeline.assembly import assemble_job  # noqa: PLC0415
        from pipeline.graph import build_dataset  # noqa: PLC0415

        launch.engine.load(recipe.work_bytes)

    place, range_bytes, rejects = folder.place, folder.range_bytes, dataset.max_rejects
    job = assemble_job(recipe, launch.engine, place, range_bytes, rejects, dataset.strict)
    if appended:
        job = appended.complete(job, dataset.existing, folder.path)
    folder.begin(job, recipe.files, appended.manifest if appended else None)
    if dataset.resume:
        done = name_units(folder.own.finished)
        console.print(f"resuming: {done} are finished" if done else "beginning anew")
    # Known documents are found by reading all text once more.
    read_bytes = recipe.read_bytes + (recipe.input_bytes if job.held else 0)
    work = Work(read_bytes, job.objective.repeats, job.plan.tasks, job.layout.shards)
    stages = partial(build_dataset, job=job)
    return _submit(
        folder, partial(launch.run, stages, work, recipe.work_bytes, folder.path), console
    )


def _submit(
    folder: RunFolder, run: Callable[[Callable[[], bool]], Submitted], console: Console
) -> Submitted:
    """Run a job, or hand it over."""
    try:
        return folder.submit(run)
    except UserError as error:
        if error.cure != NOTHING_LEFT:
            raise
        # As when a crawl has brought nothing new: the data set is as it should be.
        console.print(NOTHING_LEFT)
        return Submitted()


def log_end(output: str) -> "tuple[Manifest, Report]":
    """Log that a data set is built, and return its manifest and report."""
    from corpusmill.inspection.figures import summarize  # noqa: PLC0415  as above

    manifest = read_manifest(locate(output))
    report, names = summarize(manifest), ("rows", "tokens", "shards", "bytes")
    splits = {split.name: {name: getattr(split, name) for name in names} for split in report.splits}
    log_findings(report.findings)
    log_event(
        "run_finished",
        f"{count_things(manifest.rows, 'example')} in {output}",
        {"status": 0, "output": output, "splits": splits, "counts": manifest.counts},
    )
    return manifest, report
