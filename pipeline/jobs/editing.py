"""Data sets that are edited: `drop`.

Such a run is not resumed. If it is stopped before readers see the new data set, the old one is as
it was; if it is stopped later, the next command that changes the data set first finishes the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from corpusmill.arrays.distinct import are_among
from corpusmill.commands.command import Call
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import open_data_set, read_manifest
from corpusmill.errors import NoMatchError, UserError, count_things, option
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids, documents_schema
from corpusmill.provenance.search import search_tables
from corpusmill.provenance.store import OriginStore, list_removed, read_column
from pipeline.commands.drop import Drop
from pipeline.console.progress import Work
from pipeline.folders.run_folder import run_folder
from pipeline.folders.standing import EDIT, Intent, Standing, check_output, settle
from pipeline.jobs.build import describe_submission
from pipeline.runners.launch import Launch, prepare_launch
from transforms.storage.files import locate

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.editing import EditDecision, Edited

# So many documents are named in a message.
_MOST_SHOWN = 5

_INTENT = Intent(EDIT)


@dataclass(frozen=True)
class Choice:
    """Documents of a data set that a user has chosen.

    Attributes:
        table: the documents, ascending by id, without kept fields.
        reason: how they were chosen, in SQL.
    """

    table: pa.Table
    reason: str

    @property
    def ids(self) -> Ids:
        """Their ids, uint64[n], ascending."""
        ids: Ids = self.table.column("document").to_numpy()
        return ids


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

    is_done = run_edit(launch, call, standing, (folder, manifest), choice)
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


def describe_choice(where: str | None, documents: Sequence[int]) -> str:
    """Return the options of a choice as a condition of SQL.

    Raises:
        UserError: not one of them is given, or an id is not valid.
    """
    if (where is None) == (not documents):
        cause = "it is not clear which documents are meant"
        raise UserError(f"{option('where')} {option('document')}", cause, "Give one of them")
    if invalid := [number for number in documents if not 0 <= number < 2**64]:
        raise UserError(option("document", invalid[0]), "no document has this id", "Give 0 or more")
    return where if where is not None else f"document IN ({', '.join(map(str, documents))})"


def choose_documents(
    folder: Location, manifest: Manifest, where: str | None, documents: Sequence[int]
) -> Choice:
    """Find the documents that a user has chosen.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        where: a condition of SQL; None to choose by ids.
        documents: the ids.

    Raises:
        UserError: the data set has no such document, or the condition is not valid.
    """
    reason, store = describe_choice(where, documents), OriginStore(folder, manifest)
    if where is None:
        tables = store.find_tables(np.unique(np.array(documents, np.uint64)))
    else:
        tables = search_tables(store, where)
    schema = documents_schema()
    found = [table.select(schema.names).cast(schema) for table in tables]
    table = pa.concat_tables([schema.empty_table(), *found]).sort_by("document")
    missing = np.setdiff1d(np.array(documents, np.uint64), table.column("document").to_numpy())
    # A command that is given again may name documents that are gone.
    names = list_removed(manifest) if len(missing) else ()
    for removed in read_column(folder, names, "document"):
        missing = np.setdiff1d(missing, removed)
    for number in missing.tolist():
        cause = "the data set holds no such document"
        raise UserError(option("document", number), cause, "Give an id of `corpusmill trace`")
    return Choice(table, reason)


def find_copies(folder: Location, manifest: Manifest, choice: Choice) -> Ids:
    """Return the documents with the text of a chosen one that are not chosen, uint64[n], ascending.

    Args:
        folder: of the data set.
        manifest: of the data set.
        choice: the chosen documents.

    Raises:
        UserError: a file of provenance is damaged.
    """
    store, known = (
        OriginStore(folder, manifest),
        np.unique(choice.table.column("digest").to_numpy()),
    )
    copies: list[Ids] = [np.zeros(0, np.uint64)]
    for split in manifest.splits:
        for table in store.tables(split, ["document", "digest"]):
            is_copy = are_among(table.column("digest").to_numpy(), known)
            copies.append(table.column("document").to_numpy()[is_copy])
    return np.setdiff1d(np.concatenate(copies), choice.ids)


def add_copies(folder: Location, manifest: Manifest, choice: Choice, copies: Ids) -> Choice:
    """Return a choice with the copies that `find_copies` found."""
    schema, store = documents_schema(), OriginStore(folder, manifest)
    found = [table.select(schema.names).cast(schema) for table in store.find_tables(copies)]
    table = pa.concat_tables([choice.table, *found]).sort_by("document")
    reason = f"digest IN (SELECT digest FROM documents WHERE {choice.reason})"  # noqa: S608
    return Choice(table, reason)


def check_editable(manifest: Manifest, value: str) -> None:
    """Refuse a data set whose rows cannot be told apart by their documents.

    Args:
        manifest: of the data set.
        value: what the user gave, for the message.

    Raises:
        UserError: it is refused.
    """
    cause = ""
    if manifest.provenance is None:
        cause = "it was built without provenance"
    elif not manifest.provenance.has_spans:
        cause = f"its objective {manifest.objective.name} does not tell whose tokens a row holds"
    elif manifest.output.shard_format.joined:
        cause = f"all shards of a split are one file in {manifest.output.format}"
    if cause:
        cause = f"rows cannot be chosen by their documents, as {cause}"
        raise UserError(value, cause, "Build it again, without the text that is to be removed")


def run_edit(
    launch: Launch,
    call: Call,
    standing: Standing,
    data_set: tuple[Location, Manifest],
    choice: Choice,
) -> bool:
    """Run the job that removes documents from a data set.

    Args:
        launch: the engine.
        call: how the command was called.
        standing: how the folder stands.
        data_set: its folder, and its manifest.
        choice: the documents.

    Returns:
        Whether they are removed; False if the job was only submitted or translated.
    """
    options, value = launch.engine.options, f"drop {standing.output}"
    with run_folder(standing, _INTENT, options.task_sizes, launch.outlives) as run:
        with call.importing(launch.engine.unused_packages):
            from transforms import editing  # noqa: PLC0415

        run.begin_work(editing.list_names(data_set[1]))
        edited, plan = editing.plan_removal(
            *data_set, choice.table, choice.reason, value, run.place
        )
        with call.importing(launch.engine.unused_packages):
            launch.engine.load(plan.bytes)
        decision = plan.decide(run.place, options.wait)
        build = partial(add_stages, edited=edited, decision=decision)
        work = Work(plan.bytes, repeats=0, tasks=edited.units)
        submitted = run.submit(partial(launch.run, build, work, plan.bytes, run.path))
    is_done = submitted.done and not submitted.dry
    if not is_done:
        change = "the documents have been removed"
        call.console.print(describe_submission(standing.output, submitted, change))
    return is_done


def add_stages(pipeline: "beam.Pipeline", edited: "Edited", decision: "EditDecision") -> None:
    """Add the job's stages to a pipeline."""
    import apache_beam as beam  # noqa: PLC0415  Beam takes a second

    from transforms.commit.commit import CommitDataset  # noqa: PLC0415
    from transforms.editing import FILES, EditShards  # noqa: PLC0415
    from transforms.elements import LinesFile, ReadRange  # noqa: PLC0415
    from transforms.tally import COUNTS  # noqa: PLC0415

    written = pipeline | "EditShards" >> EditShards(edited, decision.work.place)
    rejects = pipeline | "NoRejects" >> beam.Create([]).with_output_types(LinesFile)
    ranges = pipeline | "NoRanges" >> beam.Create([]).with_output_types(ReadRange)
    _ = written[FILES] | "CommitDataset" >> CommitDataset(
        decision, [written[COUNTS]], rejects, ranges
    )
