"""The files that the workers of a run need which edits data sets."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.dataset.editing import follow, join_manifests, list_units
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest import MANIFEST, TOKENIZER, Manifest
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.limits import FileLimits
from corpusmill.location import Location
from corpusmill.provenance.documents_table import DocumentsWriter, Ids
from pipeline.editing.edits import Choice
from pipeline.folders.run_folder import RunFolder
from transforms.commit.contents import CommitWork, count_groups
from transforms.editing import EditDecision, Edited, EditPlan, StoredSelection
from transforms.elements import WrittenFile
from transforms.storage.checksums import StoredFile
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_file, write_file


@dataclass(frozen=True)
class Edit:
    """What a run edits, and what comes of it.

    Attributes:
        sources: the data sets that are read.
        plan: the result, as far as it is known.
        bytes: the size of the data sets.
    """

    sources: Sequence[Edited]
    plan: EditPlan
    bytes: int

    @property
    def units(self) -> int:
        """Number of units of all data sets."""
        return len(self.plan.files)

    def decide(self, run: RunFolder, is_awaited: bool) -> EditDecision:
        """Write the plan where workers find it, and return what decides about the result.

        Args:
            run: the folder of the run.
            is_awaited: whether a command waits for the job.
        """
        path = join_path(run.path, "edit.json")
        self.plan.write(path)
        files_a_unit = max(1, *(len(files) for files in self.plan.files))
        groups = count_groups(self.units * files_a_unit, run.place)
        work = CommitWork(run.place, self.units, files_a_unit, groups, self.units, is_awaited)
        return EditDecision(work, path)


class Source(NamedTuple):
    """A data set, and the documents in it that a user has chosen.

    Attributes:
        folder: its folder.
        manifest: its manifest.
        choice: the documents.
        value: what the user gave, for messages.
    """

    folder: Location
    manifest: Manifest
    choice: Choice
    value: str


class Part(NamedTuple):
    """A data set that is joined with others.

    Attributes:
        folder: its folder.
        manifest: its manifest.
        left_out: uint64[n], the ids of documents that are left out.
    """

    folder: Location
    manifest: Manifest
    left_out: Ids


def plan_choice(source: Source, folder: str, keeps: bool, stale: Sequence[str] = ()) -> Edit:
    """Return what removes the chosen documents from a data set, or makes one of them alone.

    Args:
        source: the data set.
        folder: of the run.
        keeps: whether they are kept and all others left out; otherwise they are removed.
        stale: names of the files of an earlier data set, which is replaced.
    """
    manifest, choice = source.manifest, source.choice
    reason = f"NOT ({choice.reason})" if keeps else choice.reason
    listed = None if keeps else _store_list(choice.table, folder, manifest.output.file_limits)
    part = Part(source.folder, manifest, choice.ids)
    files = [unit.files for unit in list_units(manifest)]
    edited = replace(_store_source(part, 0, len(files), folder, keeps), is_copied=keeps)
    tokenizer = _store_tokenizer(source.folder, manifest, folder)
    plan = EditPlan(manifest, files, tokenizer, source.value, reason, listed, stale)
    return Edit([edited], plan, _sum_bytes(manifest))


def plan_merge(parts: Sequence[Part], folder: str, stale: Sequence[str]) -> Edit:
    """Return what joins data sets to one.

    Args:
        parts: the data sets, in their order.
        folder: of the run.
        stale: names of the files of an earlier data set, which is replaced.
    """
    manifest, *later = (part.manifest for part in parts)
    units = [list_units(part.manifest) for part in parts]
    files = [unit.files for unit in units[0]]
    for added, own in zip(later, units[1:], strict=True):
        renamed, names = follow(added, manifest)
        manifest = join_manifests(manifest, renamed)
        files += [tuple(names[file] for file in unit.files) for unit in own]
    edited = [
        _store_source(part, number, len(own), folder)
        for number, (part, own) in enumerate(zip(parts, units, strict=True))
    ]
    is_less = any(len(part.left_out) for part in parts)
    plan = EditPlan(
        manifest,
        files,
        _store_tokenizer(parts[0].folder, manifest, folder),
        "merge",
        "their text is in an earlier part" if is_less else None,
        stale=stale,
    )
    return Edit(edited, plan, sum(_sum_bytes(part.manifest) for part in parts))


def _store_source(part: Part, number: int, units: int, folder: str, keeps: bool = False) -> Edited:
    """Copy the manifest of a data set, and write what is removed, where all workers can read it."""
    copy = join_path(folder, f"source-{number}.json")
    manifest = StoredFile.write(copy, part.folder.read(MANIFEST))
    selection = None
    if len(part.left_out) or keeps:
        stream = io.BytesIO()
        np.save(stream, part.left_out)
        path = join_path(folder, f"documents-{number}.npy")
        selection = StoredSelection(StoredFile.write(path, stream.getvalue()), keeps)
    return Edited(part.folder, manifest, units, selection, is_copied=True)


def _store_tokenizer(folder: Location, manifest: Manifest, run_folder: str) -> str:
    path = join_path(run_folder, TOKENIZER)
    write_file(path, read_tokenizer(folder, manifest).encode())
    return path


def _sum_bytes(manifest: Manifest) -> int:
    return sum(entry.bytes for entry in manifest.entries.values())


def _store_list(table: pa.Table, folder: str, limits: FileLimits) -> WrittenFile:
    """Write a table of documents to a file in the folder of a run, and return the file."""
    path = join_path(folder, "removed.parquet")
    with create_file(path) as stream:
        sink = HashingWriter(stream)
        writer = DocumentsWriter(sink, limits)
        writer.add_rows(table)
        writer.close()
    return WrittenFile(0, 0, path, 0, 0, sink.bytes, sink.sha256)
