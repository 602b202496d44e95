"""The files that the workers of a run need which edits a data set."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.dataset.editing import list_units
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest import MANIFEST, TOKENIZER, Manifest
from corpusmill.dataset.manifest_entries import base_name, removal_name
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.provenance.documents_table import DocumentsWriter
from pipeline.editing.edits import Source
from transforms.commit.contents import CommitWork
from transforms.editing import EditDecision, Edited, EditPlan, choose_units
from transforms.elements import WrittenFile
from transforms.recovery import Workplace
from transforms.shard_files import list_small
from transforms.storage.checksums import StoredFile
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_once, write_file


@dataclass(frozen=True)
class Edit:
    """What a run edits, and what comes of it.

    Attributes:
        source: the data set that is read.
        plan: the result, as far as it is known.
    """

    source: Edited
    plan: EditPlan

    @property
    def units(self) -> int:
        """Number of units of the data set."""
        return self.source.units

    @property
    def bytes(self) -> int:
        """The size of the files that may tell of the documents, with their shards."""
        entries = self.plan.manifest.entries
        return sum(entries[name].bytes for files in self.plan.files for name in files)

    def decide(self, place: Workplace, is_awaited: bool) -> EditDecision:
        """Write the plan where workers find it, and return what decides about the result.

        Args:
            place: where the run works.
            is_awaited: whether a command waits for the job.
        """
        path = join_path(place.temp_folder, "edit.json")
        self.plan.write(path)
        return EditDecision(CommitWork(place, self.units, is_awaited), path)


def list_names(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the files that may be written, in the folder of the version."""
    yield from (base_name(file) for unit in list_units(manifest) for file in unit.files)
    yield removal_name(len(manifest.removals))
    yield from list_small(manifest.output.format)


def plan_removal(source: Source, place: Workplace) -> Edit:
    """Return what removes the chosen documents from a data set.

    Args:
        source: the data set.
        place: where the run works.
    """
    manifest, choice, folder = source.manifest, source.choice, place.temp_folder
    # Copies of the manifest and of the ids are where all workers can read them.
    stored_manifest = StoredFile.write(
        join_path(folder, "source.json"), source.folder.read(MANIFEST)
    )
    stream = io.BytesIO()
    np.save(stream, choice.ids)
    documents = StoredFile.write(join_path(folder, "documents.npy"), stream.getvalue())
    tokenizer = join_path(folder, TOKENIZER)
    write_file(tokenizer, read_tokenizer(source.folder, manifest).encode())

    files = [unit.files for unit in choose_units(source.folder, manifest, choice.ids)]
    listed = _store_list(choice.table, place, manifest)
    plan = EditPlan(manifest, files, tokenizer, source.value, choice.reason, listed)
    return Edit(Edited(source.folder, stored_manifest, len(files), documents), plan)


def _store_list(table: pa.Table, place: Workplace, manifest: Manifest) -> WrittenFile:
    """Write the table of the documents that are removed, and return its file."""
    path = place.final_path(f"v{place.version}/{removal_name(len(manifest.removals))}")
    with create_once(path, place.scratch) as stream:
        sink = HashingWriter(stream)
        writer = DocumentsWriter(sink)
        writer.add_rows(table)
        writer.close()
    return WrittenFile(0, 0, path, 0, 0, sink.bytes, sink.sha256)
