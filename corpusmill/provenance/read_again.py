"""Where the input of a data set is, and its documents read again and compared with their digests.

A document is found by its place. Where files are read in ranges, a short range before the place is
most often enough, and the rest of a large file is not read.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.text_hashes import digests_of
from corpusmill.corpus.batches import OFFSET_BITS, TEXT_SCHEMA, FileRange
from corpusmill.corpus.decompression import is_compressed
from corpusmill.corpus.input_formats import piece_bits, read_file, reads_in_ranges
from corpusmill.knobs import knob
from corpusmill.location import Location, locate


class UnreadableTextError(Exception):
    """The text of a document cannot be read again; the message says why."""


# What is wrong with the file of a document that has another text.
CHANGED = "is not what it was when the data set was built"

# Opens a file as it is stored.
Open = Callable[[], AbstractContextManager[BinaryIO]]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Inputs:
    """Where the files of a corpus are.

    Attributes:
        places: files, folders and URLs of folders, as a build takes them; none is the present
            folder without the folders in it, which may hold any number of other files.
    """

    places: Sequence[str] = ()

    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open each file that may be the one of a name in the manifest, the likeliest first.

        Several have the same name where folders were given, or generations have one each.

        Raises:
            UnreadableTextError: there is none.
        """
        seen = set[tuple[str, str]]()
        for folder, known in self._candidates(name):
            if (place := (folder.url, known)) in seen:
                continue
            with suppress(OSError), folder.open(known) as stream:
                seen.add(place)
                yield stream
        if not seen:
            if not self.places:
                cause = f"{name} is not in the present folder: name another with --input"
                raise UnreadableTextError(cause)
            raise UnreadableTextError(f"{name} was not found in {', '.join(self.places)}")

    def _candidates(self, name: str) -> Iterator[tuple[Location, str]]:
        # Folders that all files have in common are not part of the name, but a source is.
        ends = list(dict.fromkeys([name, name.partition("/")[2] or name]))
        for file in self._files:
            if file.name == PurePosixPath(name).name:
                yield locate(str(file.parent)), file.name
        for folder in self._folders:
            yield folder, name
        for folder, files in self._listed:
            yield from ((folder, file) for end in ends for file in files
                        if file != name and (file.endswith(f"/{end}") or file == end))  # fmt: skip

    @property
    def _files(self) -> Iterator[Path]:
        return (Path(place) for place in self.places if Path(place).is_file())

    @property
    def _folders(self) -> Iterator[Location]:
        return (locate(place) for place in self.places or (".",) if not Path(place).is_file())

    @cached_property
    def _listed(self) -> list[tuple[Location, list[str]]]:
        """The files of each folder, which are listed if a file is not where its name says."""
        return [(folder, list(folder.list())) for folder in self._folders if self.places]


def is_read_in_ranges(file: FileRange) -> bool:
    """Return whether a document of a file is found without reading all that is before it."""
    options = file.options
    # The place in a table is not a byte of a range.
    is_table = bool(piece_bits(options))
    return not is_table and not is_compressed(file.file) and reads_in_ranges(options)


GAP_BYTES = knob("gap_bytes", 2**16, test=10)
"""Documents of the corpus that lie farther apart are read by themselves."""
TOGETHER_BYTES = knob("together_bytes", 2**24, test=3_000)
"""The bytes of a file whose documents are read again together."""
REACH_BYTES = knob("reach_bytes", 2**16, test=10)
"""How far before its place a document is looked for; then 16 times as far, three times."""


def list_ranges(file: FileRange, first: int, last: int) -> Iterator[FileRange]:
    """Yield the ranges of a file in which to look for documents, short ones first.

    Args:
        file: the whole file.
        first: the place of the first document.
        last: the place of the last document.
    """
    name, number, options = file.file, file.file_index, file.options
    if is_read_in_ranges(file):
        # The rest of a document that was cut is read by the range of the document's beginning.
        # Up to the beginning of the longest file.
        reaches = (0, *(REACH_BYTES * 16**power for power in range(4)), 2**OFFSET_BITS)
        for begin in dict.fromkeys(max(0, first - reach) for reach in reaches):
            yield FileRange(name, number, options, begin, last + 1)
    # Places of a format of another package need not be bytes.
    yield FileRange(name, number, options)


def find_again(open_file: Open, file: FileRange, wanted: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield those of some documents of a file that still have the texts that they had.

    Args:
        open_file: opens the file.
        file: the whole file.
        wanted: the documents, ascending by id; with the columns `document`, `length` and `digest`
            of the table of documents (`corpusmill.provenance.documents_table`).

    Yields:
        Rows of TEXT_SCHEMA, ascending by id, none of them empty.
    """
    if not is_read_in_ranges(file):
        missing = wanted.num_rows
        for documents in _find(open_file, file, wanted):
            missing -= documents.num_rows
            yield documents
            if not missing:
                break
        return
    # Where they begin in the file.
    ids = wanted.column("document").to_numpy()
    places = (ids & np.uint64(2**OFFSET_BITS - 1)).astype(np.int64)
    lengths = wanted.column("length").to_numpy().astype(np.int64)
    for begin, end in _group(places, lengths):
        own, found = wanted.slice(begin, end - begin), list[pa.RecordBatch]()
        bounds = (int(places[begin]), int(places[end - 1]))
        for part in list_ranges(file, *bounds):
            found = list(_find(open_file, part, own))
            if sum(batch.num_rows for batch in found) == own.num_rows:
                break
        yield from found


def _find(open_file: Open, part: FileRange, wanted: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield those of some documents that a range of a file holds with their texts."""
    ids = wanted.column("document").to_numpy()
    digests = wanted.column("digest").to_numpy()
    with open_file() as stream:
        for batch in read_file(stream, part):
            read = batch.documents.select(TEXT_SCHEMA.names)
            places = np.searchsorted(ids, read.column("document").to_numpy())
            known = ids[np.minimum(places, len(ids) - 1)] == read.column("document").to_numpy()
            if not known.any():
                continue
            if not known.all():
                read, places = read.filter(pa.array(known)), places[known]
            same: Flags = digests_of(read) == digests[places]
            if same.any():
                yield read if same.all() else read.filter(pa.array(same))


def _group(
    places: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield the first document, and the one after the last, of those that are read together.

    Args:
        places: int64[documents], ascending, where they begin.
        lengths: int64[documents], their bytes.

    Example:
        places [0, 100, 900,000] and lengths [90, 90, 90] give (0, 2) and (2, 3).
    """
    is_far = places[1:] - places[:-1] - lengths[:-1] > GAP_BYTES
    is_next = places[1:] // TOGETHER_BYTES != places[:-1] // TOGETHER_BYTES
    begins = [0, *(np.flatnonzero(is_far | is_next) + 1).tolist()]
    yield from zip(begins, [*begins[1:], len(places)], strict=True)
