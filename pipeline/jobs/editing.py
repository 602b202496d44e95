"""Data sets that are edited: `drop`."""

from functools import partial
from typing import TYPE_CHECKING

from corpusmill.commands.command import Call
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import open_data_set, read_manifest
from corpusmill.errors import NoMatchError, count_things
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids
from pipeline.commands.drop import Drop
from pipeline.console.progress import Work
from pipeline.editing.edits import (
    Choice,
    Source,
    add_copies,
    check_editable,
    choose_documents,
    describe_choice,
    find_copies,
)
from pipeline.folders.run_folder import run_folder
from pipeline.folders.standing import EDIT, Intent, Standing, check_output, settle
from pipeline.jobs.build import describe_submission
from pipeline.runners.launch import Launch, prepare_launch
from transforms.storage.files import locate

if TYPE_CHECKING:
    import apache_beam as beam

    from pipeline.editing.edit_files import Edit
    from transforms.editing import EditDecision

# So many documents are named in a message.
_MOST_SHOWN = 5

_INTENT = Intent(EDIT)


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
    standing = settle(check_output(output, launch.temp_location, _INTENT))
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

    is_done = run_edit(launch, call, standing, Source(folder, manifest, choice, f"drop {output}"))
    after = read_manifest(output)
    if is_done and len(after.removals) <= len(manifest.removals):
        call.console.print(f"{output}: removed, and replaced by another command since")
    elif is_done:
        removal = after.removals[-1]
        documents, rows = count_things(removal.documents, "document"), removal.rows
        call.console.print(
            f"{output}: removed {documents}, and the {count_things(rows, 'row')} with "
            f"{count_things(removal.tokens, 'token')} that held any of their text"
        )
        call.console.print(_empty_cache(folder, manifest, after))
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


def _empty_cache(folder: Location, before: Manifest, after: Manifest) -> str:
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
        removed += remove_unpacked(folder, before, replaced, cache)
    return (
        f"removed {count_things(removed, 'unpacked piece')} of replaced shards from {cache}; the "
        "caches of other machines, users and cache_folder keep theirs until they are deleted"
    )


def run_edit(launch: Launch, call: Call, standing: Standing, source: Source) -> bool:
    """Run the job that removes the chosen documents from a data set.

    Args:
        launch: the engine.
        call: how the command was called.
        standing: how the folder stands.
        source: the data set, and the documents.

    Returns:
        Whether they are removed; False if the job was only submitted or translated.
    """
    options = launch.engine.options
    with run_folder(standing, _INTENT, options.task_sizes, launch.outlives) as run:
        with call.importing(launch.engine.unused_packages):
            from pipeline.editing import edit_files  # noqa: PLC0415
        run.begin_work(edit_files.list_names(source.manifest))
        edit = edit_files.plan_removal(source, run.place)
        with call.importing(launch.engine.unused_packages):
            launch.engine.load(edit.bytes)
        build = partial(add_stages, edit=edit, decision=edit.decide(run.place, options.wait))
        work = Work(edit.bytes, repeats=0, tasks=edit.units)
        submitted = run.submit(partial(launch.run, build, work, edit.bytes, run.path))
    is_done = submitted.done and not submitted.dry
    if not is_done:
        change = "the documents have been removed"
        call.console.print(describe_submission(standing.output, submitted, change))
    return is_done


def add_stages(pipeline: "beam.Pipeline", edit: "Edit", decision: "EditDecision") -> None:
    """Add the job's stages to a pipeline."""
    import apache_beam as beam  # noqa: PLC0415  Beam takes a second

    from transforms.commit.commit import CommitDataset  # noqa: PLC0415
    from transforms.editing import FILES, EditShards  # noqa: PLC0415
    from transforms.elements import LinesFile, ReadRange  # noqa: PLC0415
    from transforms.tally import COUNTS  # noqa: PLC0415

    edited = pipeline | "EditShards" >> EditShards(edit.source, decision.work.place)
    rejects = pipeline | "NoRejects" >> beam.Create([]).with_output_types(LinesFile)
    ranges = pipeline | "NoRanges" >> beam.Create([]).with_output_types(ReadRange)
    _ = edited[FILES] | "CommitDataset" >> CommitDataset(
        decision, [edited[COUNTS]], rejects, ranges
    )
