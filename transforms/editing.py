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
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import split_distributions
from corpusmill.dataset.editing import Unit, list_units, remove_rows, rewrite_shard
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest import MANIFEST, FileEntry, Manifest, Shard
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
from corpusmill.dataset.shards import damaged_file
from corpusmill.errors import UserError
from corpusmill.location import Location
from corpusmill.provenance.documents_table import DocumentsTable, DocumentsWriter, Ids
from corpusmill.provenance.removal import copy_documents, copy_spans
from corpusmill.provenance.spans_table import SpansFile, SpansWriter
from corpusmill.provenance.store import OriginStore, open_documents, open_spans
from transforms.coders import NamedOutputs
from transforms.commit.contents import CommitWork, Inputs, write_small
from transforms.commit.pointer import Committed
from transforms.elements import WrittenFile
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.storage.checksums import StoredFile, seal, unseal
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

    def write(self, path: str) -> None:
        """Write it to a file."""
        entries = {**vars(self), "manifest": manifest_json.to_json(self.manifest)}
        write_file(path, seal(json.dumps(entries).encode()))

    @classmethod
    def read(cls, path: str) -> "EditPlan":
        """Read what `write` wrote."""
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
            entries[name] = _entry(plan, name, file, place.version)
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


def _entry(plan: EditPlan, name: str, file: WrittenFile, version: int) -> FileEntry:
    """Return the entry of a file that takes the place of another one."""
    known, written = plan.manifest.entries[name], f"v{version}/{base_name(name)}"
    changes: dict[str, Any] = {"file": written, "bytes": file.bytes, "sha256": file.sha256}
    if isinstance(known, Shard):
        changes |= {"rows": file.rows, "tokens": file.tokens}
    return msgspec.structs.replace(known, **changes)


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


class _Editor:
    """Edits the units of a data set.

    Args:
        folder: of the data set.
        loaded: its manifest and units, and what is removed.
        place: where the run works.
        tally: where it is counted what is removed.
    """

    def __init__(self, folder: Location, loaded: _Loaded, place: Workplace, tally: Tally) -> None:
        self._folder, self._place, self._tally = folder, place, tally
        self._manifest, self._documents = loaded.manifest, loaded.documents

    def edit(self, number: int, unit: Unit) -> Iterator[WrittenFile]:
        """Yield the files of a unit that are written; none if all stay as they are."""
        edit = self._edit_rows if unit.shard else self._edit_documents
        yield from edit(number, unit)
        self._tally.add("read.bytes", sum(self._manifest.entries[n].bytes for n in unit.files))

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


class _Edit(beam.DoFn):
    """Edit a unit by its number."""

    def __init__(self, edited: Edited, place: Workplace) -> None:
        self._edited, self._place, self._shared = edited, place, Shared()

    def setup(self) -> None:
        self._journal = Journal(self._place)
        self._loaded = self._shared.acquire(self._load, tag=self._place.temp_folder)

    def _load(self) -> _Loaded:
        edited = self._edited
        manifest = decode(edited.manifest.read(), edited.folder.url)
        documents = np.load(io.BytesIO(edited.documents.read()))
        units = choose_units(edited.folder, manifest, documents)
        return _Loaded(manifest, units, documents)

    def process(self, element: int) -> Iterator[WrittenFile]:
        work = partial(self._make, element)
        for tag, value in run_once(self._journal, f"shard-{element}", work):
            yield TaggedOutput(tag, value) if tag else value

    def _make(self, number: int) -> Iterator[Output]:
        tally, loaded = Tally(), self._loaded
        editor = _Editor(self._edited.folder, loaded, self._place, tally)
        yield from (("", file) for file in editor.edit(number, loaded.units[number]))
        tally.add("removed.units", 1)
        yield from tally.outputs()


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
