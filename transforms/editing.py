"""Write the shards of a data set again without some rows, each by a task of its own.

    numbers of units ─ edit ─┬─ the files that were written
                             └─ counts of what was removed

A unit is a shard with the provenance of its rows, or a table of documents
(`corpusmill.dataset.editing`). Workers read the manifest and the ids of documents themselves: only
numbers and names go through the engine.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO

import apache_beam as beam
import msgspec
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import split_distributions
from corpusmill.dataset.editing import Unit, list_units, remove_rows, rewrite_shard
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest import MANIFEST, TOKENIZER, FileEntry, Manifest, Shard
from corpusmill.dataset.manifest_entries import (
    Counts,
    Removal,
    as_mapping,
    base_name,
    removal_name,
    weigh,
    weigh_segments,
)
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.shards import damaged_file, read_tokenizer
from corpusmill.errors import UserError
from corpusmill.location import Location
from corpusmill.provenance.documents_table import (
    DocumentsTable,
    DocumentsWriter,
    Ids,
    copy_documents,
)
from corpusmill.provenance.spans_table import SpansFile, SpansWriter, copy_spans
from corpusmill.provenance.store import OriginStore, open_documents, open_spans
from transforms.coders import NamedOutputs
from transforms.commit.contents import CommitWork, Inputs, write_small
from transforms.commit.pointer import Committed
from transforms.elements import WrittenFile
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.shard_files import list_small
from transforms.storage.checksums import StoredFile, seal, unseal
from transforms.storage.file_systems import join_path
from transforms.storage.files import create_once, read_file, write_file
from transforms.tally import COUNTS, Count, Tally

# How much of a file is in memory while it is checked.
_CHECKED_BYTES = 2**20


@dataclass(frozen=True)
class EditPlan:
    """What the result of an edit is, as far as it is known before.

    Attributes:
        manifest: of the result, before anything is removed.
        files: the names of the files of all units (`transforms.editing.EditShards`).
        tokenizer: path of a copy of the tokenizer.
        value: what the user gave, for messages.
        reason: as `Removal` has it.
        listed: a file that lists the documents that are removed.
    """

    manifest: Manifest
    files: Sequence[Sequence[str]]
    tokenizer: str
    value: str
    reason: str
    listed: WrittenFile

    @property
    def bytes(self) -> int:
        """The size of the files that may tell of the documents, with their shards."""
        entries = self.manifest.entries
        return sum(entries[name].bytes for files in self.files for name in files)

    def decide(self, place: Workplace, is_awaited: bool) -> "EditDecision":
        """Write the plan where workers find it, and return what decides about the result.

        Args:
            place: where the run works.
            is_awaited: whether a command waits for the job.
        """
        path = join_path(place.temp_folder, "edit.json")
        entries = {**vars(self), "manifest": manifest_json.to_json(self.manifest)}
        write_file(path, seal(json.dumps(entries).encode()))
        return EditDecision(CommitWork(place, len(self.files), is_awaited), path)

    @classmethod
    def read(cls, path: str) -> "EditPlan":
        """Read what `decide` wrote."""
        entries: dict[str, Any] = json.loads(unseal(read_file(path), path))
        entries["manifest"] = manifest_json.from_json(entries["manifest"])
        entries["listed"] = WrittenFile(*entries["listed"])
        return cls(**entries)


@dataclass(frozen=True)
class EditDecision:
    """A `transforms.commit.contents.Decider` for what `EditShards` has written.

    Attributes:
        work: how much there is to do.
        plan: path of the `EditPlan`.
    """

    work: CommitWork
    plan: str

    def decide(self, inputs: Inputs) -> Committed:
        """Prepare every file of the data set.

        Raises:
            RuntimeError: units were lost.
            UserError: nothing would be left, or another run has taken the folder.
        """
        plan, place = EditPlan.read(self.plan), self.work.place
        counts, distributions = split_distributions(inputs.counts)
        if counts.get("removed.units") != len(plan.files):
            done, total = counts.get("removed.units", 0), len(plan.files)
            raise RuntimeError(f"{done:,} of {total:,} units were edited")
        entries = dict[str, FileEntry]()
        for file in sorted(inputs.written):
            name = plan.files[file.shard][file.part]
            # The entry of the file in whose place it comes, with what differs.
            known, written = plan.manifest.entries[name], f"v{place.version}/{base_name(name)}"
            changes: dict[str, Any] = {"file": written, "bytes": file.bytes, "sha256": file.sha256}
            if isinstance(known, Shard):
                changes |= {"rows": file.rows, "tokens": file.tokens}
            entries[name] = msgspec.structs.replace(known, **changes)
        manifest, listed = plan.manifest, plan.listed
        name = f"v{place.version}/{removal_name(len(manifest.removals))}"
        entries[name] = FileEntry(name, listed.bytes, listed.sha256)
        names = ("documents", "rows", "tokens", "segment_tokens")
        numbers = {name: counts.get(f"removed.{name}", 0) for name in names}
        removal = Removal(plan.reason, is_listed=True, **numbers)
        manifest = remove_rows(manifest, entries, removal, distributions)
        if not manifest.rows:
            cause = "no row would be left"
            raise UserError(plan.value, cause, "Check the condition with `corpusmill trace`")
        return write_small(manifest, plan.tokenizer, place)


FILES = "files"


@dataclass(frozen=True)
class Edited:
    """A data set, and what is removed from it.

    Attributes:
        folder: the folder with the files that the manifest lists; workers get a copy.
        manifest: a copy of the manifest, which stays when that of the folder changes.
        units: how many units may tell of these documents (`choose_units`).
        documents: the ids of the documents that are removed, uint64[n], ascending, as NumPy stores
            arrays.
    """

    folder: Location
    manifest: StoredFile
    units: int
    documents: StoredFile


@dataclass(frozen=True)
class _Loaded:
    """What a process has once: what is known of the data set. Beam shares no tuple."""

    manifest: Manifest
    units: Sequence[Unit]
    documents: Ids


def choose_units(folder: Location, manifest: Manifest, documents: Ids) -> list[Unit]:
    """List the units of a data set that may tell of some documents, or hold their tokens.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        documents: uint64[n], their ids.
    """
    files = OriginStore(folder, manifest).files_with(documents)
    return [unit for unit in list_units(manifest) if unit.files[-1] in files]


def list_names(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the files that may be written, in the folder of the version."""
    yield from (base_name(file) for unit in list_units(manifest) for file in unit.files)
    yield removal_name(len(manifest.removals))
    yield from list_small(manifest.output.format)


def plan_removal(
    folder: Location, manifest: Manifest, table: pa.Table, reason: str, value: str, place: Workplace
) -> tuple[Edited, EditPlan]:
    """Plan how documents are removed from a data set, and write what workers need.

    Args:
        folder: of the data set.
        manifest: of the data set.
        table: the documents, ascending by id, without kept fields.
        reason: as `Removal` has it.
        value: what the user gave, for messages.
        place: where the run works.

    Returns:
        The data set that is read, and the result, as far as it is known.
    """
    # Copies of the manifest and of the ids are where all workers can read them.
    temporary, stream = place.temp_folder, io.BytesIO()
    stored_manifest = StoredFile.write(join_path(temporary, "source.json"), folder.read(MANIFEST))
    ids = table.column("document").to_numpy()
    np.save(stream, ids)
    documents = StoredFile.write(join_path(temporary, "documents.npy"), stream.getvalue())
    tokenizer = join_path(temporary, TOKENIZER)
    write_file(tokenizer, read_tokenizer(folder, manifest).encode())

    path = place.final_path(f"v{place.version}/{removal_name(len(manifest.removals))}")
    with create_once(path, place.scratch) as file:
        sink = HashingWriter(file)
        writer = DocumentsWriter(sink)
        writer.add_rows(table)
        writer.close()
    place.folder.sync([path])
    listed = WrittenFile(0, 0, path, 0, 0, sink.bytes, sink.sha256)
    files = [unit.files for unit in choose_units(folder, manifest, ids)]
    plan = EditPlan(manifest, files, tokenizer, value, reason, listed)
    return Edited(folder, stored_manifest, len(files), documents), plan


class _Edit(beam.DoFn):
    """Edit a unit by its number, unless the journal says that it is finished."""

    def __init__(self, edited: Edited, place: Workplace) -> None:
        self._edited, self._folder, self._place = edited, edited.folder, place
        self._shared = Shared()

    def setup(self) -> None:
        self._journal = Journal(self._place)
        loaded = self._shared.acquire(self._load, tag=self._place.temp_folder)
        self._manifest, self._units = loaded.manifest, loaded.units
        self._documents = loaded.documents

    def _load(self) -> _Loaded:
        manifest = decode(self._edited.manifest.read(), self._folder.url)
        documents = np.load(io.BytesIO(self._edited.documents.read()))
        return _Loaded(manifest, choose_units(self._folder, manifest, documents), documents)

    def process(self, element: int) -> Iterator[WrittenFile]:
        work = partial(self._make, element)
        for tag, value in run_once(self._journal, f"shard-{element}", work):
            yield TaggedOutput(tag, value) if tag else value

    def finish_bundle(self) -> None:
        self._journal.sync()

    def _make(self, number: int) -> Iterator[Output]:
        """Yield the files of a unit that are written, none if all stay as they are; and counts."""
        self._tally, unit = Tally(), self._units[number]
        edit = self._edit_rows if unit.shard else self._edit_documents
        yield from (("", file) for file in edit(number, unit))
        size = sum(self._manifest.entries[name].bytes for name in unit.files)
        self._tally.add("read.bytes", size)
        self._tally.add("removed.units", 1)
        yield from self._tally.outputs()

    def _edit_rows(self, number: int, unit: Unit) -> Iterator[WrittenFile]:
        assert unit.shard  # noqa: S101  by the caller
        self._check(unit.files[-1:])
        name = unit.files[-1]
        with open_spans(self._folder, name) as spans:
            if len(spans) != unit.shard.rows:
                raise ValueError(f"it tells of {len(spans):,} rows, which its shard does not have")
            kept = np.ones(len(spans), np.bool_)
            kept[spans.find_rows(self._documents)] = False
        if kept.all():
            return
        self._check(unit.files[:-1])
        with SpansFile(self._folder.open(name)) as spans, ExitStack() as files:
            sinks = [HashingWriter(files.enter_context(self._create(file))) for file in unit.files]
            shard = unit.shard.file
            data_set = (self._folder, self._manifest, shard)
            removed = rewrite_shard(*data_set, kept, sinks[:-1])
            writer = SpansWriter(sinks[-1])
            copy_spans(spans, writer, kept)
            writer.close()
        self._count(unit.split, removed, int((~kept).sum()))
        rows, tokens = int(kept.sum()), unit.shard.tokens - weigh(removed["length"])
        for part, (file, sink) in enumerate(zip(unit.files, sinks, strict=True)):
            content = (0, 0) if part else (rows, tokens)
            path = self._path(file)
            yield WrittenFile(number, part, path, *content, sink.bytes, sink.sha256)

    def _count(self, split: str, removed: Mapping[str, Counts], rows: int) -> None:
        self._tally.add("removed.rows", rows)
        self._tally.add("removed.tokens", weigh(removed["length"]))
        self._tally.add("removed.segment_tokens", weigh_segments(removed))
        for name, counts in removed.items():
            for value, number in as_mapping(counts).items():
                self._tally.add(f"removed.{split}.{name}.{value}", number)

    def _edit_documents(self, number: int, unit: Unit) -> Iterator[WrittenFile]:
        self._check(unit.files)
        # All of it is read before any of it is written, so that what fails can be told.
        with open_documents(self._folder, unit.files[0]) as table:
            ids = (part.column("document").to_numpy() for part in table.groups())
            removed = sum(int(are_among(own, self._documents).sum()) for own in ids)
        if not removed:
            return
        [file] = unit.files
        with self._create(file) as stream, self._folder.open(file) as source:
            sink, table = HashingWriter(stream), DocumentsTable(source)
            fields = table.schema.names[len(DOCUMENT_COLUMNS) :]
            writer = DocumentsWriter(sink, fields)
            copy_documents(table, writer, self._documents)
            writer.close()
        self._tally.add("removed.documents", removed)
        yield WrittenFile(number, 0, self._path(file), 0, 0, sink.bytes, sink.sha256)

    def _check(self, names: Sequence[str]) -> None:
        """Refuse files whose bytes are not those of the manifest, before rows are taken from them.

        Raises:
            UserError: a file is damaged.
        """
        for name in names:
            digest = sha256()
            with self._folder.open(name) as stream:
                while block := stream.read(_CHECKED_BYTES):
                    digest.update(block)
            if digest.hexdigest() != self._manifest.entries[name].sha256:
                raise damaged_file(self._folder, name, f"its bytes do not match {MANIFEST}")

    def _path(self, file: str) -> str:
        """Return the path of a file that takes the place of another one."""
        return self._place.final_path(f"v{self._place.version}/{base_name(file)}")

    def _create(self, file: str) -> AbstractContextManager[BinaryIO]:
        return create_once(self._path(file), self._place.scratch)


class EditShards(beam.PTransform):
    """Write files of a data set again without the rows of some documents.

    Returns the collections FILES and COUNTS. A `WrittenFile` has the number of its unit as its
    shard, and as its part its place among the unit's files. The counts hold the distributions of
    the rows that were removed, as ("removed.<split>.<name>.<value>", number).

    Args:
        edited: the data set, and what is removed.
        place: where the run works.
    """

    def __init__(self, edited: Edited, place: Workplace) -> None:
        super().__init__()
        self._edited, self._place = edited, place

    def expand(self, begin: beam.pvalue.PBegin) -> NamedOutputs:
        """Spread the units over all workers."""
        return (
            begin
            | "CreateUnits" >> beam.Create([self._edited.units]).with_output_types(int)
            | "NumberUnits" >> beam.FlatMap(lambda number: [*range(number)]).with_output_types(int)
            | "SpreadUnits" >> beam.Reshuffle()
            | "EditUnit"
            >> beam.ParDo(_Edit(self._edited, self._place))
            .with_output_types(WrittenFile, **{COUNTS: Count})
            .with_outputs(COUNTS, main=FILES)
        )

    def display_data(self) -> dict[str, str]:
        """Show what is edited."""
        return {"folder": self._edited.folder.url}
