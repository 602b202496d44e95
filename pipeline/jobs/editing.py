"""Data sets that are edited: `drop`, `subset` and `merge`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from corpusmill.commands.command import Call
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import open_data_set, read_manifest
from corpusmill.errors import NoMatchError, UserError, count_things, option
from corpusmill.limits import ReadingLimits
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids
from pipeline.commands.drop import Drop
from pipeline.commands.merge import Merge
from pipeline.commands.subset import Subset
from pipeline.console.progress import Work
from pipeline.editing.appending import Opened, check_mergeable, find_known, refuse_known
from pipeline.editing.edits import (
    Choice,
    add_copies,
    check_editable,
    choose_documents,
    describe_choice,
    find_copies,
    record_of,
)
from pipeline.folders.output import EDIT, Intent, Standing, check_output, list_stale
from pipeline.folders.run_folder import run_folder, settle
from pipeline.jobs.build import describe_submission
from pipeline.runners.launch import Launch, prepare_launch
from transforms.storage.files import locate

if TYPE_CHECKING:
    import apache_beam as beam

    from pipeline.editing.edit_files import Edit
    from transforms.editing import EditDecision

# So many documents are named in a message.
_MOST_SHOWN = 5

# Returns what is edited, from the folder of the run.
Plan = Callable[[str], "Edit"]


@dataclass(frozen=True)
class Target:
    """The folder that a command which edits data sets writes into.

    Attributes:
        standing: how the folder stands.
        intent: what the command does there.
        value: what the user gave, for those who find the run stopped.
    """

    standing: Standing
    intent: Intent
    value: str

    @property
    def output(self) -> Location:
        """The folder."""
        return self.standing.output

    @property
    def stale(self) -> Sequence[str]:
        """Names of the files of an earlier data set, which is replaced."""
        return () if self.intent.changes else list_stale(self.standing)


def drop(command: Drop, call: Call) -> int:
    """Remove documents from a data set, and say what was removed."""
    run_drop(command, call)
    return 0


def run_drop(command: Drop, call: Call) -> bool:
    """Remove documents from a data set, and say what was removed.

    Returns:
        Whether it is done; False if the job was only submitted or translated.

    Raises:
        UserError: the data set cannot be changed, or has no such document.
    """
    run = command.run
    describe_choice(command.where, command.document)
    launch = prepare_launch(
        run, call.engine_arguments, [("drop", command.data_set)], call.console, command.log
    )
    output = locate(command.data_set)
    intent = Intent(EDIT, changes=True, resumable=False)
    found = check_output(output, launch.temp_location, intent)
    standing = settle(found, EDIT)
    if found.generation:
        call.console.print(f"finished what a command that was stopped had begun in {output}")
    folder, manifest = open_data_set(output)
    check_editable(manifest, str(output))
    choice = choose_documents(folder, manifest, command.where, command.document)
    if not choice.table.num_rows:
        error = _refuse_no_match(choice, str(output), manifest)
        if command.must_match:
            raise error
        call.console.print(f"{output} stays as it is: {error}")
        return True
    copies = find_copies(folder, manifest, choice)
    if command.copies and len(copies):
        choice = add_copies(folder, manifest, choice, copies)
    elif len(copies):
        call.console.print(_describe_copies(copies))
    target = Target(standing, intent, f"drop {output}")

    is_done = run_edit(launch, call, target, _choose((folder, manifest, choice), target, False))
    if is_done:
        removal = read_manifest(output).removals[-1]
        documents, rows = count_things(removal.documents, "document"), removal.rows
        call.console.print(
            f"{output}: removed {documents}, and the {count_things(rows, 'row')} with "
            f"{count_things(removal.tokens, 'token')} that held any of their text"
        )
        limits = launch.engine.options.thresholds.reading
        call.console.print(_empty_cache(folder, manifest, read_manifest(output), limits))
    return is_done


def _refuse_no_match(choice: Choice, data_set: str, manifest: Manifest) -> NoMatchError:
    """Return the error for a choice of no document, which says what there is to choose from."""
    documents = count_things(manifest.counts.get("tokenize.documents", 0), "document")
    files = manifest.corpus.files
    cure = f"It has {documents} of {count_things(len(files), 'file')}, such as {files[0].path}; "
    cure += f"`corpusmill trace {data_set} --row 0` shows one, and --where tries a condition"
    return NoMatchError(choice.reason, "no document matches", cure)


def _describe_copies(copies: Ids) -> str:
    """Say which documents have the same text as those that are removed, and stay."""
    shown = ", ".join(map(str, copies[:_MOST_SHOWN].tolist()))
    more = f" and {len(copies) - _MOST_SHOWN:,} more" if len(copies) > _MOST_SHOWN else ""
    others = count_things(
        len(copies),
        "other document has the same digest, and stays",
        "other documents have the same digest, and stay",
    )
    return f"{others}: {shown}{more}; --copies removes such documents, too"


def _empty_cache(folder: Location, before: Manifest, after: Manifest, limits: ReadingLimits) -> str:
    """Remove what readers have unpacked of replaced shards, and say what is out of reach."""
    # Imported here because no other command of the job needs readers.
    from corpusmill.reading.cache.shard_cache import (  # noqa: PLC0415
        default_cache_folder,
        remove_unpacked,
    )

    kept = {shard.sha256 for split in after.splits.values() for shard in split.shards}
    cache, removed = default_cache_folder(), 0
    for split in before.splits.values():
        replaced = [shard for shard in split.shards if shard.sha256 not in kept]
        removed += remove_unpacked(folder, before, replaced, cache, limits)
    return (
        f"removed {count_things(removed, 'unpacked piece')} of replaced shards from {cache}; the "
        "caches of other machines, users and cache_folder keep theirs until they are deleted"
    )


def subset(command: Subset, call: Call) -> int:
    """Make a data set of some documents of another one, and say what is in it."""
    run_subset(command, call)
    return 0


def run_subset(command: Subset, call: Call) -> bool:
    """Make a data set of some documents of another one, and say what is in it.

    Returns:
        Whether it is there; False if the job was only submitted or translated.

    Raises:
        UserError: the data set has no such document, or the folder cannot be written to.
    """
    describe_choice(command.where, command.document)
    launch, [(name, folder, manifest)] = open_sources(command, call, [command.data_set])
    check_editable(manifest, name)
    target = check_new(command, launch, f"subset {name}")
    choice = choose_documents(folder, manifest, command.where, command.document)
    if not choice.table.num_rows:
        raise UserError(*_refuse_no_match(choice, name, manifest).args)

    is_there = run_edit(launch, call, target, _choose((folder, manifest, choice), target, True))
    if is_there:
        made = read_manifest(target.output)
        call.console.print(
            f"the data set is in {target.output}: {made.rows:,} of {manifest.rows:,} rows, which "
            f"hold text of {count_things(choice.table.num_rows, 'chosen document')} alone"
        )
    return is_there


def _choose(chosen: tuple[Location, Manifest, Choice], target: Target, keeps: bool) -> Plan:
    """Return the plan that removes the chosen documents of a data set, or keeps them alone."""

    def plan(folder: str) -> "Edit":
        from pipeline.editing.edit_files import Source, plan_choice  # noqa: PLC0415  imports Beam

        return plan_choice(Source(*chosen, target.value), folder, keeps, target.stale)

    return plan


def open_sources(
    command: Subset | Merge, call: Call, data_sets: Sequence[str]
) -> tuple[Launch, list[Opened]]:
    """Set up the engine of a command that makes a data set of others, and open these.

    Raises:
        UserError: the new data set would take the place of one of them, or one cannot be read.
    """
    output, folders = command.output, [call.locate(one) for one in data_sets]
    place = locate(output)
    if any(place.is_within(folder) or folder.is_within(place) for folder in folders):
        cause = "it is the folder of a data set that is read, or one in or around it"
        cure = "Give another folder; `corpusmill drop` changes a data set where it is"
        raise UserError(option("output", output), cause, cure)
    places = [*(("data_set", data_set) for data_set in data_sets), ("output", output)]
    launch = prepare_launch(command.run, call.engine_arguments, places, call.console, command.log)
    return launch, [(str(folder), *open_data_set(folder)) for folder in folders]


def check_new(command: Subset | Merge, launch: Launch, value: str) -> Target:
    """Check the folder of a data set that is made of others.

    Args:
        command: the command.
        launch: its engine.
        value: what the user gave.

    Raises:
        UserError: the folder is in use.
    """
    intent = Intent(EDIT, replaces=command.replace, resumable=False)
    standing = check_output(locate(command.output), launch.temp_location, intent)
    return Target(settle(standing, EDIT), intent, value)


def run_edit(launch: Launch, call: Call, target: Target, plan: Plan) -> bool:
    """Run the job of a command that edits data sets.

    Args:
        launch: the engine.
        call: how the command was called.
        target: the folder that the job writes into.
        plan: returns what is edited.

    Returns:
        Whether the result is there; False if the job was only submitted or translated.
    """
    options = launch.engine.options
    with run_folder(target.standing, target.intent, options.thresholds, launch.outlives) as run:
        with call.importing(launch.engine.unused_packages):
            import pipeline.editing.edit_files  # noqa: F401, PLC0415
        run.write_record(record_of(target.value))
        edit = plan(run.path)
        with call.importing(launch.engine.unused_packages):
            launch.engine.load(edit.bytes)
        build = partial(add_stages, edit=edit, decision=edit.decide(run, options.wait))
        work = Work(edit.bytes, repeats=0, tasks=edit.units)
        submitted = launch.run(build, work, edit.bytes, run.path, lambda: run.is_committed)
        run.handed_over = not (submitted.done or submitted.dry)
        if submitted.done:
            run.check_committed()
    is_there = submitted.done and not submitted.dry
    if not is_there:
        change = "the documents have been removed" if target.intent.changes else ""
        call.console.print(describe_submission(target.output, submitted, change))
    return is_there


def add_stages(pipeline: "beam.Pipeline", edit: "Edit", decision: "EditDecision") -> None:
    """Add the job's stages to a pipeline."""
    import apache_beam as beam  # noqa: PLC0415  Beam takes a second

    from transforms.commit.commit import CommitDataset  # noqa: PLC0415
    from transforms.editing import FILES, EditShards  # noqa: PLC0415
    from transforms.elements import LinesFile, ReadRange  # noqa: PLC0415
    from transforms.tally import COUNTS  # noqa: PLC0415

    edited = pipeline | "EditShards" >> EditShards(edit.sources, decision.work.place)
    rejects = pipeline | "NoRejects" >> beam.Create([]).with_output_types(LinesFile)
    ranges = pipeline | "NoRanges" >> beam.Create([]).with_output_types(ReadRange)
    _ = edited[FILES] | "CommitDataset" >> CommitDataset(
        decision, [edited[COUNTS]], rejects, ranges
    )


if TYPE_CHECKING:
    from pipeline.editing.edit_files import Edit


def merge(command: Merge, call: Call) -> int:
    """Join data sets, and say what the result holds."""
    run_merge(command, call)
    return 0


def run_merge(command: Merge, call: Call) -> bool:
    """Join data sets, and say what the result holds.

    Returns:
        Whether it is there; False if the job was only submitted or translated.

    Raises:
        UserError: the data sets cannot be joined, or the folder cannot be written to.
    """
    launch, opened = open_sources(command, call, command.data_sets)
    check_mergeable(opened)
    target = check_new(command, launch, f"merge {' '.join(command.data_sets)}")
    known_documents = [np.zeros(0, np.uint64)] * len(opened)
    if command.existing != "allow":
        known_documents = find_known(opened, launch.engine.options.thresholds.stages)
    if command.existing == "refuse":
        refuse_known(opened, known_documents)

    def plan(folder: str) -> "Edit":
        from pipeline.editing import edit_files  # noqa: PLC0415  imports Beam

        parts = [
            edit_files.Part(data_set, manifest, left_out)
            for (_, data_set, manifest), left_out in zip(opened, known_documents, strict=True)
        ]
        return edit_files.plan_merge(parts, folder, target.stale)

    is_there = run_edit(launch, call, target, plan)
    if is_there:
        manifest = read_manifest(target.output)
        skipped = sum(map(len, known_documents))
        left_out = count_things(skipped, "document was", "documents were")
        rows = count_things(manifest.rows, "row") + (f"; {left_out} left out" if skipped else "")
        call.console.print(f"the data set is in {target.output}: {rows}")
    return is_there
