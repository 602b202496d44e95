"""The files that the workers of a run need which edits a data set."""

import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.dataset.editing import list_units
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest import MANIFEST, TOKENIZER
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.limits import FileLimits
from corpusmill.provenance.documents_table import DocumentsWriter
from pipeline.editing.edits import Source
from pipeline.folders.run_folder import RunFolder
from transforms.commit.contents import CommitWork, count_groups
from transforms.editing import EditDecision, Edited, EditPlan
from transforms.elements import WrittenFile
from transforms.storage.checksums import StoredFile
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_file, write_file


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
        """The size of the data set."""
        return sum(entry.bytes for entry in self.plan.manifest.entries.values())

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


def plan_removal(source: Source, folder: str) -> Edit:
    """Return what removes the chosen documents from a data set.

    Args:
        source: the data set.
        folder: of the run.
    """
    manifest, choice = source.manifest, source.choice
    # Copies of the manifest and of the ids are where all workers can read them.
    stored_manifest = StoredFile.write(
        join_path(folder, "source.json"), source.folder.read(MANIFEST)
    )
    stream = io.BytesIO()
    np.save(stream, choice.ids)
    documents = StoredFile.write(join_path(folder, "documents.npy"), stream.getvalue())
    tokenizer = join_path(folder, TOKENIZER)
    write_file(tokenizer, read_tokenizer(source.folder, manifest).encode())

    files = [unit.files for unit in list_units(manifest)]
    listed = _store_list(choice.table, folder, manifest.output.file_limits)
    plan = EditPlan(manifest, files, tokenizer, source.value, choice.reason, listed)
    return Edit(Edited(source.folder, stored_manifest, len(files), documents), plan)


def _store_list(table: pa.Table, folder: str, limits: FileLimits) -> WrittenFile:
    """Write a table of documents to a file in the folder of a run, and return the file."""
    path = join_path(folder, "removed.parquet")
    with create_file(path) as stream:
        sink = HashingWriter(stream)
        writer = DocumentsWriter(sink, limits)
        writer.add_rows(table)
        writer.close()
    return WrittenFile(0, 0, path, 0, 0, sink.bytes, sink.sha256)
