"""Documents of a data set that are read again: which ones, and where their files are now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import OFFSET_BITS, document_id
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.hub.data_sets import is_hub_path
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.corpus_entry import SourceFile
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.provenance import Generation
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.provenance.documents import documents_schema
from corpusmill.provenance.random_choice import choose_candidates
from corpusmill.provenance.read_again import is_read_in_ranges, measure_reading, read_again
from corpusmill.provenance.records import UnreadableTextError
from corpusmill.provenance.store import OriginStore
from pipeline.preparation.inputs import InputFile, is_local, list_inputs
from pipeline.preparation.rebuilding import MOST_COMPARED, checksum_of
from transforms.ranges import FILE_BYTES
from transforms.recalled_parts import CURE, RecalledPart
from transforms.storage.files import open_file
from transforms.storage.parallel import map_ahead

if TYPE_CHECKING:
    from transforms.recall import Recall

_FLAG = "--earlier-input"
# The documents of a task; a line of the plan lists them.
_MOST_IN_TASK = 2**16


class Recalling:
    """Documents of a data set that may be random ones of the text that is added to it.

    Args:
        folder: of the data set.
        manifest: of the data set, with provenance.
        documents: the rules of documents.
        pool_tokens: the budget of the pool.

    Raises:
        UserError: a file of provenance is damaged.
    """

    def __init__(
        self, folder: Folder, manifest: Manifest, documents: DocumentOptions, pool_tokens: int
    ) -> None:
        if manifest.provenance is None:
            raise ValueError("the data set has no provenance")
        self._files, self._provenance = _name_files(manifest), manifest.provenance
        self._options = replace(documents, keep_fields=())
        store, columns = OriginStore(folder, manifest), documents_schema().names
        tables = (table for split in manifest.splits for table in store.tables(split, columns))
        chosen, self._limit = choose_candidates(tables, manifest.seed, pool_tokens)
        self._number = chosen.num_rows
        self._by_file = dict(_split_by_file(chosen))
        self._found: Mapping[int, InputFile] = {}

    def find_files(self, inputs: Sequence[str], temp_folder: str) -> None:
        """Find the files that the documents are in, and check that they are what they were.

        Args:
            inputs: where the input of the data set is now.
            temp_folder: as `pipeline.preparation.inputs.list_inputs` has it.

        Raises:
            UserError: a file is missing or has changed.
        """
        listed = _list_files(inputs, temp_folder, self._options.suffixes) if inputs else []
        named: dict[str, list[InputFile]] = {}
        for file in listed:
            for name in {_last_part(_escape(file.path)), _last_part(file.name)}:
                named.setdefault(name, []).append(file)
        found, compared = list[tuple[int, list[InputFile], bool]](), 0
        for number in self._by_file:
            entry = self._files[number]
            compared += entry.bytes
            places = _select(entry, named.get(_last_part(entry.path), []), inputs)
            found.append((number, places, compared <= MOST_COMPARED))
        self._found = dict(map_ahead(self._prove, found))

    def _prove(self, one: tuple[int, list[InputFile], bool]) -> tuple[int, InputFile]:
        """Return the file, of several that it may be, that has the text of the documents."""
        number, places, is_compared = one
        entry = self._files[number]
        for place in places:
            if is_compared and entry.crc32c and is_local(place.path):
                if checksum_of(place) == entry.crc32c:
                    return number, place
            elif self._has_first(number, place):
                return number, place
        cause = f"{entry.path} has other text than when the data set was built"
        raise UserError(f"{_FLAG} {places[0].path}", cause, CURE)

    def _has_first(self, number: int, place: InputFile) -> bool:
        file = FileRange(self._files[number].path, number, self._options)
        first = self._by_file[number].slice(0, 1)
        try:
            return any(read_again(partial(open_file, place.path), file, first))
        except UnreadableTextError:
            return False

    def plan(self, path: str, added: Generation, task_bytes: int) -> "Recall":
        """Write the plan by which the documents are read, once their files are found.

        Args:
            path: path of the plan.
            added: the generation that is added to the data set.
            task_bytes: largest size of a task that has more than one part.
        """
        # These need Beam, and mistakes are found without it.
        from transforms.plan import write_plan  # noqa: PLC0415
        from transforms.recall import Recall  # noqa: PLC0415

        files = [file.path for file in self._found.values()]
        plan = write_plan(path, _group(self._cut(task_bytes), task_bytes), files)
        generations = (*self._provenance.generations, added)
        provenance = replace(self._provenance, generations=generations)
        return Recall(plan, self._number, self._limit, provenance)

    def _cut(self, task_bytes: int) -> Iterator[tuple[RecalledPart, int]]:
        """Yield the parts of tasks in the order of the documents, each with its size."""
        for number, documents in self._by_file.items():
            file, name = self._found[number], self._files[number].path
            own = self._own_number(number)
            moved = document_id(number - own, 0)
            in_ranges = is_read_in_ranges(FileRange(name, own, self._options))
            sizes = measure_reading(documents)
            pieces = np.cumsum(sizes) // task_bytes
            is_cut = (np.diff(pieces) > 0) | (np.arange(1, len(sizes)) % _MOST_IN_TASK == 0)
            # A file that is read whole is read once.
            cuts = (np.flatnonzero(is_cut) + 1).tolist() if in_ranges else []
            for begin, end in zip([0, *cuts], [*cuts, len(sizes)], strict=True):
                rows = documents.slice(begin, end - begin)
                ids = rows.column("document").to_numpy() - np.uint64(moved)
                facts = (rows.column(column).to_pylist() for column in rows.schema.names[1:])
                part = RecalledPart(file.path, name, own, moved, ids.tolist(), *facts)
                read = int(sizes[begin:end].sum()) if in_ranges else file.cost
                yield part, FILE_BYTES + read

    def _own_number(self, file: int) -> int:
        """Return the number that a file had when its documents were built, before any merge."""
        first = np.array([document_id(file, 0)], np.uint64)
        return int(self._provenance.own_ids(first)[0]) >> OFFSET_BITS


def _name_files(manifest: Manifest) -> Sequence[SourceFile]:
    """Return the files of a data set, without the names of their sources, which are no folders."""
    files = manifest.corpus.files
    if not manifest.corpus.sources:
        return files
    return [replace(file, path=file.path.partition("/")[2]) for file in files]


def _split_by_file(documents: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of each file, and its documents."""
    files = documents.column("document").to_numpy() >> np.uint64(OFFSET_BITS)
    numbers, begins = np.unique(files, return_index=True)
    ends = [*begins.tolist()[1:], len(files)]
    for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True):
        yield number, documents.slice(begin, end - begin)


def _list_files(
    inputs: Sequence[str], temp_folder: str, suffixes: Sequence[str]
) -> Sequence[InputFile]:
    try:
        return list_inputs(inputs, temp_folder, suffixes)
    except UserError as error:
        value = error.value.replace("--input", _FLAG, 1)
        raise UserError(value, error.cause, error.cure) from None


def _select(
    entry: SourceFile, named: Sequence[InputFile], inputs: Sequence[str]
) -> list[InputFile]:
    """Return the files that may be one of the data set, by their names and sizes.

    Raises:
        UserError: there is none.
    """
    if is_hub_path(entry.path):  # the name holds the commit
        return [InputFile(entry.path, entry.bytes, entry.path)]
    given = f"{_FLAG} {' '.join(inputs)}".rstrip()
    places = [file for file in named if _has_name(file, entry.path)]
    if not places:
        cause = f"documents of the data set are in {entry.path}, which is not there"
        if not inputs:
            cause = f"documents of the data set are in {entry.path}, and it is not said where"
        cure = "Give the input of the data set's builds, or --random-documents new"
        raise UserError(given, cause, cure)
    if same := [file for file in places if file.bytes == entry.bytes]:
        return same
    cause = f"{entry.path} had {entry.bytes:,} bytes when the data set was built, and has now "
    raise UserError(f"{_FLAG} {places[0].path}", f"{cause}{places[0].bytes:,}", CURE)


def _has_name(file: InputFile, name: str) -> bool:
    path = _escape(file.path)
    return name in {path, file.name} or path.endswith(f"/{name}")


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def _escape(path: str) -> str:
    """Return a path as the manifest has it, in UTF-8."""
    return path.encode(errors="backslashreplace").decode()


def _group(
    parts: Iterator[tuple[RecalledPart, int]], task_bytes: int
) -> Iterator[list[RecalledPart]]:
    """Group neighboring parts into tasks."""
    task: list[RecalledPart] = []
    room, documents = task_bytes, 0
    for part, size in parts:
        documents += len(part.documents)
        if task and (size > room or documents > _MOST_IN_TASK):
            yield task
            task, room, documents = [], task_bytes, len(part.documents)
        task.append(part)
        room -= size
    if task:
        yield task
