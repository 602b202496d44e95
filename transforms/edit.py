"""Write the shards of a data set again without some rows, each by a task of its own.

    numbers of units ─ edit ─┬─ the files that were written
                             └─ counts of what was removed

A unit is a shard with the provenance of its rows, a table of documents, or another file
(`corpusmill.dataset.editing`). Workers read the manifest and the ids of documents themselves: only
numbers and names go through the engine.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.document_facts import DOCUMENT_COLUMNS
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.dataset.distributions import Counts, as_mapping, weigh, weigh_segments
from corpusmill.dataset.editing import Unit, list_units
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.rewriting import rewrite_shard
from corpusmill.dataset.shards import damaged_file
from corpusmill.dataset.storage import Folder
from corpusmill.provenance.documents import DocumentsTable, DocumentsWriter
from corpusmill.provenance.removal import Selection, copy_documents, copy_spans, find_removed
from corpusmill.provenance.spans import SpansFile, SpansWriter
from transforms.coders import NamedOutputs
from transforms.elements import WrittenFile
from transforms.recovery.journal import Journal, Output
from transforms.recovery.workplace import Workplace
from transforms.storage.files import create_file, new_path
from transforms.stored_files import StoredFile
from transforms.tally import COUNTS, Count, Tally
from transforms.work_log import run_once

FILES = "files"
_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class StoredSelection:
    """A selection of documents, in a file that every worker can read.

    Attributes:
        ids: uint64[n] as NumPy stores arrays.
        keeps: as `Selection` has it.
    """

    ids: StoredFile
    keeps: bool = False

    def load(self) -> Selection:
        """Read it.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return Selection(np.load(io.BytesIO(self.ids.read())), self.keeps)


@dataclass(frozen=True)
class Edited:
    """A data set, and what is removed from it.

    Attributes:
        folder: the folder with the files that the manifest lists; workers get a copy.
        manifest: a copy of the manifest, which stays when that of the folder changes.
        units: how many units it has (`list_units`).
        selection: the documents that are removed; None for none.
        is_copied: whether files that stay as they are are copied, for a data set in another folder.
    """

    folder: Folder
    manifest: StoredFile
    units: int
    selection: StoredSelection | None = None
    is_copied: bool = False


@dataclass(frozen=True)
class _Loaded:
    """What is known of a data set."""

    manifest: Manifest
    units: Sequence[Unit]
    selection: Selection | None


@dataclass(frozen=True)
class _AllLoaded:
    """What a process has once: what is known of each data set."""

    data_sets: Sequence[_Loaded]


class _Editor:
    """Edits the units of a data set.

    Args:
        edited: the data set, and what is removed.
        loaded: its manifest and units.
        temp_folder: where files are written.
        tally: where it is counted what is removed.
    """

    def __init__(self, edited: Edited, loaded: _Loaded, temp_folder: str, tally: Tally) -> None:
        self._edited, self._folder, self._tally = edited, edited.folder, tally
        self._manifest, self._selection = loaded.manifest, loaded.selection
        self._temp_folder = temp_folder

    def edit(self, number: int, unit: Unit) -> Iterator[WrittenFile]:
        """Yield the files of a unit that are written; none if all stay as they are."""
        written: list[WrittenFile] = []
        if self._selection and unit.split:
            edit = self._edit_rows if unit.shard else self._edit_documents
            written += edit(number, unit, self._selection.within(unit.generation.first_id))
        if not written and self._edited.is_copied:
            written += (self._copy(number, part, unit) for part in range(len(unit.files)))
        self._tally.add("read.bytes", sum(self._manifest.entries[n].bytes for n in unit.files))
        yield from written

    def _edit_rows(self, number: int, unit: Unit, selection: Selection) -> Iterator[WrittenFile]:
        assert unit.shard  # noqa: S101  by the caller
        self._check(unit.files[-1:])
        with SpansFile(self._folder.open(unit.files[-1])) as spans:
            kept = np.ones(len(spans), np.bool_)
            kept[find_removed(spans, selection)] = False
            if kept.all():
                return
            self._check(unit.files[:-1])
            with ExitStack() as files:
                paths = [self._path(number) for _ in unit.files]
                sinks = [HashingWriter(files.enter_context(create_file(path))) for path in paths]
                shard = unit.shard.file
                removed = rewrite_shard(self._folder, self._manifest, shard, kept, sinks[:-1])
                writer = SpansWriter(sinks[-1])
                copy_spans(spans, writer, kept)
                writer.close()
        self._count(unit.split, removed, int((~kept).sum()))
        rows, tokens = int(kept.sum()), unit.shard.tokens - weigh(removed["length"])
        for part, (path, sink) in enumerate(zip(paths, sinks, strict=True)):
            content = (0, 0) if part else (rows, tokens)
            yield WrittenFile(number, part, path, *content, sink.bytes, sink.sha256)

    def _count(self, split: str, removed: Mapping[str, Counts], rows: int) -> None:
        self._tally.add("removed.rows", rows)
        self._tally.add("removed.tokens", weigh(removed["length"]))
        self._tally.add("removed.segment_tokens", weigh_segments(removed))
        for name, counts in removed.items():
            for value, number in as_mapping(counts).items():
                self._tally.add(f"removed.{split}.{name}.{value}", number)

    def _edit_documents(
        self, number: int, unit: Unit, selection: Selection
    ) -> Iterator[WrittenFile]:
        self._check(unit.files)
        path = self._path(number)
        with create_file(path) as stream, self._folder.open(unit.files[0]) as source:
            sink, table = HashingWriter(stream), DocumentsTable(source)
            writer = DocumentsWriter(sink, table.schema.names[len(DOCUMENT_COLUMNS) :])
            removed = copy_documents(table, writer, selection)
            writer.close()
        if removed:
            self._tally.add("removed.documents", removed)
            yield WrittenFile(number, 0, path, 0, 0, sink.bytes, sink.sha256)

    def _copy(self, number: int, part: int, unit: Unit) -> WrittenFile:
        name, path = unit.files[part], self._path(number)
        content = (0, 0) if part or not unit.shard else (unit.shard.rows, unit.shard.tokens)
        with create_file(path) as stream, self._folder.open(name) as source:
            sink = HashingWriter(stream)
            while block := source.read(_BLOCK_BYTES):
                sink.write(block)
        self._compare(name, sink.sha256)
        return WrittenFile(number, part, path, *content, sink.bytes, sink.sha256)

    def _check(self, names: Sequence[str]) -> None:
        """Refuse files whose bytes are not those of the manifest, before rows are taken from them.

        Raises:
            UserError: a file is damaged.
        """
        for name in names:
            digest = sha256()
            with self._folder.open(name) as stream:
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
            self._compare(name, digest.hexdigest())

    def _compare(self, name: str, digest: str) -> None:
        if digest != self._manifest.entries[name].sha256:
            raise damaged_file(self._folder, name, f"its bytes do not match {MANIFEST}")

    def _path(self, number: int) -> str:
        return new_path(self._temp_folder, f"shard-{number}")


class _Edit(beam.DoFn):
    """Edit a unit by its number; the units of several data sets follow one another."""

    def __init__(self, data_sets: Sequence[Edited], place: Workplace) -> None:
        self._data_sets, self._place, self._shared = data_sets, place, Shared()

    def setup(self) -> None:
        self._journal = Journal(self._place)
        self._loaded = self._shared.acquire(self._load, tag=self._place.temp_folder)

    def _load(self) -> _AllLoaded:
        return _AllLoaded([_load(edited) for edited in self._data_sets])

    def process(self, element: int) -> Iterator[WrittenFile]:
        work = partial(self._make, element)
        for tag, value in run_once(self._journal, f"shard-{element}", work):
            yield TaggedOutput(tag, value) if tag else value

    def _make(self, number: int) -> Iterator[Output]:
        local, tally = number, Tally()
        for edited, loaded in zip(self._data_sets, self._loaded.data_sets, strict=True):
            if local < len(loaded.units):
                editor = _Editor(edited, loaded, self._place.temp_folder, tally)
                yield from (("", file) for file in editor.edit(number, loaded.units[local]))
                break
            local -= len(loaded.units)
        tally.add("removed.units", 1)
        yield from tally.outputs()


def _load(edited: Edited) -> _Loaded:
    manifest = decode(edited.manifest.read(), edited.folder.url)
    selection = edited.selection.load() if edited.selection else None
    return _Loaded(manifest, list_units(manifest), selection)


class _NumberUnits(beam.DoFn):
    """List the numbers of all units."""

    def process(self, element: int) -> Iterator[int]:
        yield from range(element)


class EditShards(beam.PTransform):
    """Write files of data sets again without the rows of some documents.

    Returns the collections FILES and COUNTS. A `WrittenFile` has the number of its unit as its
    shard, and as its part its place among the unit's files. The counts hold the distributions of
    the rows that were removed, as ("removed.<split>.<name>.<value>", number).

    Args:
        data_sets: the data sets, whose units are numbered one after the other.
        place: where the run works.
    """

    def __init__(self, data_sets: Sequence[Edited], place: Workplace) -> None:
        super().__init__()
        self._data_sets, self._place = data_sets, place

    def expand(self, begin: beam.pvalue.PBegin) -> NamedOutputs:
        """Spread the units over all workers."""
        units = sum(edited.units for edited in self._data_sets)
        return (
            begin
            | "CreateUnits" >> beam.Create([units]).with_output_types(int)
            | "NumberUnits" >> beam.ParDo(_NumberUnits()).with_output_types(int)
            | "SpreadUnits" >> beam.Reshuffle()
            | "EditUnit"
            >> beam.ParDo(_Edit(self._data_sets, self._place))
            .with_output_types(WrittenFile, **{COUNTS: Count})
            .with_outputs(COUNTS, main=FILES)
        )

    def display_data(self) -> dict[str, str]:
        """Show what is edited."""
        return {"folders": ", ".join(edited.folder.url for edited in self._data_sets)}
