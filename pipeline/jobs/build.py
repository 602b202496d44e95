"""A build: prepared, run by an engine, and reported; also one that adds to a data set."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console

from corpusmill.commands.command import Call
from corpusmill.corpus.document_options import make_texts
from corpusmill.corpus.filters.duplicates import NOTHING_LEFT
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import from_json
from corpusmill.dataset.shards import read_manifest
from corpusmill.errors import UserError, count_things, option
from corpusmill.formats.output_options import tells_parts_apart
from corpusmill.location import Location
from corpusmill.provenance.store import list_tables
from pipeline.console.progress import Work
from pipeline.console.run_log import log_event, log_findings
from pipeline.folders.changes import compare_files, compare_generations, refuse_other
from pipeline.folders.run_folder import RunFolder, name_units, run_folder
from pipeline.folders.standing import APPEND, BUILD, Intent, check_output, settle
from pipeline.job_options import Build
from pipeline.recipe.preparation import prepare
from pipeline.recipe.recipe import Recipe
from pipeline.runners.engine import Submitted
from pipeline.runners.launch import Launch, list_places, prepare_launch
from transforms.elements import group_by_cost
from transforms.storage.file_systems import join_path
from transforms.storage.files import locate

if TYPE_CHECKING:
    from corpusmill.inspection.figures import Report
    from pipeline.graph import Job

# Makes the recipe of a build, with a folder for temporary files.
Prepare = Callable[[Build, str, Console], Recipe]
_CHANGE = "the text has been added"
_APPEND_OPTION = option("append")
_ALIKE = (
    "near-duplicates are looked for in the files that are given; to compare new text with that of "
    "the data set, give the files of both, with names by which the new ones come last, and "
    "--existing skip"
)
# The tables of documents that a task reads: about four million documents.
_MOST_TABLE_BYTES = 64 * 2**20


def describe_submission(output: Location, submitted: Submitted, change: str = "") -> str:
    """Say how one will know that a job has ended, or that it was only translated.

    Args:
        output: the folder that it writes into.
        submitted: the job.
        change: what it does to the data set in the folder ("the text has been added"); empty if
            it makes a new one.
    """
    if submitted.dry:
        return "a dry run: the job was translated, and nothing was submitted"
    manifest = output / MANIFEST
    if change:
        return f"submitted; {change} once {manifest} changes"
    return f"submitted; the data set is complete once {manifest} exists"


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
        if recipe.filters.near_duplicates:
            console.print(_ALIKE)
    folder.begin(job, recipe.files, appended.manifest if appended else None)
    if dataset.resume:
        done = name_units(folder.own.finished)
        console.print(f"resuming; finished so far: {done}" if done else "beginning anew")
    # Known documents are found by reading all text once more.
    read_bytes = recipe.read_bytes + (recipe.input_bytes if job.held else 0)
    work = Work(read_bytes, job.objective.repeats, job.plan.tasks, job.layout.shards)
    stages = partial(build_dataset, job=job)
    try:
        return folder.submit(partial(launch.run, stages, work, recipe.work_bytes, folder.path))
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


class Appended:
    """The data set to which a run adds a generation.

    Args:
        run: the folder of the run; if that is resumed, it knows the data set as it was.
        manifest: of the data set.

    Attributes:
        manifest: of the data set, as it was when the run began.

    Raises:
        UserError: nothing can be added to the data set.
    """

    def __init__(self, run: RunFolder, manifest: Manifest) -> None:
        self._folder, self._is_resumed = run.own.output, run.earlier is not None
        self.manifest = from_json(run.earlier["appended_to"]) if run.earlier else manifest
        if cause := why_alone(self.manifest):
            cause = f"nothing can be added, as {cause}"
            raise UserError(
                f"{_APPEND_OPTION} {self._folder}", cause, "Build it anew with all text"
            )

    def adapt(self, recipe: Recipe) -> Recipe:
        """Return a recipe that continues the data set.

        Raises:
            UserError: its options or its tokenizer are not those of the data set, or only one of
                both has sources with names.
        """
        names = ", ".join(source.name for source in self.manifest.corpus.sources)
        if recipe.sources and not names:
            cause = "the input has sources with names, and the data set has none"
            raise UserError(_APPEND_OPTION, cause, f"Give {option('input')}")
        if names and not recipe.sources:
            cause = f"the data set has sources with names ({names}), and the input has none"
            raise UserError(
                _APPEND_OPTION,
                cause,
                f"Give {option('source', 'NAME=PATH')}, with one of them or another",
            )
        generations = self.manifest.provenance.generations if self.manifest.provenance else ()
        first, tag = len(self.manifest.corpus.files), f"more{len(generations)}"
        sources = [
            replace(source, first_file=first + source.first_file) for source in recipe.sources
        ]
        recipe = replace(recipe, first_file=first, tag=tag, sources=sources)
        recipe = self._share_options(recipe) if names else recipe
        if changes := compare_generations(self.manifest, recipe.header):
            cause = f"the data set was built with other options: {changes}"
            cure = "Give the options of the data set, which `corpusmill config` prints"
            raise UserError(_APPEND_OPTION, cause, cure)
        return recipe

    def _share_options(self, recipe: Recipe) -> Recipe:
        """Return a recipe whose sources have in common what those of the data set have.

        Raises:
            UserError: a source keeps a field that the data set does not keep.
        """
        common = self.manifest.corpus.documents
        for name in recipe.documents.keep_fields:
            if name not in common.keep_fields:
                held = ", ".join(common.keep_fields) or "none"
                cause = f"the data set does not keep this field of any source; it keeps {held}"
                raise UserError(
                    f"{_APPEND_OPTION} {option('keep_fields', name)}", cause, "Leave it out"
                )
        return replace(recipe, documents=make_texts(common, recipe.documents.text_maker))

    def has_added(self, recipe: Recipe) -> bool:
        """Whether the last generation was made of some files, and they are as they were.

        If the run is resumed, it has not yet added them.

        Args:
            recipe: of the input.

        Raises:
            UserError: it was made of them with sources that were taken more or less often.
        """
        generations = self.manifest.provenance.generations if self.manifest.provenance else ()
        if self._is_resumed or len(generations) < 2:
            return False
        files = self.manifest.corpus.files[generations[-1].first_file :]
        last = replace(self.manifest, corpus=replace(self.manifest.corpus, files=files))
        if [*compare_files(last, recipe.files, self._folder.written_at(MANIFEST))]:
            return False
        repeats = [source.repeat for source in generations[-1].layout.sources]
        if repeats != [source.repeat for source in recipe.sources]:
            taken = ", ".join(f"@{repeat:g}" for repeat in repeats)
            cause = f"the text has been added, with the repeats {taken}"
            cure = f"Give these, or leave {option('resume')} out to add the text once more"
            raise UserError(f"{_APPEND_OPTION} {option('resume')}", cause, cure)
        return True

    def complete(self, job: "Job", existing: str, folder: str) -> "Job":
        """Return a job that compares documents with those of the data set.

        Args:
            job: the job.
            existing: what becomes of documents that are there already, as `DatasetOptions` has it.
            folder: of the run.
        """
        if existing == "allow":
            return job
        # This needs Beam, and mistakes are found without it.
        from transforms.corpus.known_texts import Held  # noqa: PLC0415
        from transforms.corpus.plan import write_plan  # noqa: PLC0415

        entries = self.manifest.entries
        tables = (((name,), entries[name].bytes) for name in list_tables(self.manifest))
        groups = group_by_cost(tables, _MOST_TABLE_BYTES)
        plan = write_plan(join_path(folder, "held.jsonl"), groups)
        return replace(job, held=Held(self._folder, plan, existing == "refuse"))


def why_alone(manifest: Manifest) -> str:
    """Return why a data set can have one generation only; empty if it can have several."""
    if manifest.provenance is None:
        return "it was built without provenance, which tells its documents apart from new ones"
    if manifest.output.shard_format.joined:
        return f"all shards of a split are one file in {manifest.output.format}"
    if not tells_parts_apart(manifest.output.options.shard_name):
        pattern = manifest.output.options.shard_name
        return f"its shards are named {pattern}, and new ones would take the place of old ones"
    return ""
