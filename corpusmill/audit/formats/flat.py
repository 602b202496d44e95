"""Files with nothing but ids, and an index of rows beside them or none."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

import numpy as np

from corpusmill.audit.token_files import BATCH_TOKENS, Aligned, TokenFile, TokenFolder, TokenRows
from corpusmill.knobs import knob

INDEX_NUMBERS = knob("index_numbers", 2**20, test=7)
"""The numbers of an index that are read at once."""
_NO_IDS = np.empty(0, np.int64)
# Yields where rows end, in ids, and where their index lets them begin, or None if it does not say
# it; some rows at a time.
Index = Callable[[], Iterable[tuple[np.ndarray, np.ndarray | None]]]


@dataclass
class FlatTokens(TokenFile):
    """Ids without separators.

    Attributes:
        folder: of the file.
        file: its name in the folder.
        begin: the byte of the first id.
        index: tells the rows; None if the file keeps none apart.
        mask: name of a file with a byte for each id, 0 where it is not learned; empty for none.
        unit: what the index calls rows, in the plural.
        expected: the number of ids that something else says; None where nothing does.
    """

    folder: TokenFolder = field(kw_only=True)
    file: str = ""
    begin: int = 0
    index: Index | None = None
    mask: str = ""
    unit: str = "documents"
    expected: int | str | None = None

    def __post_init__(self) -> None:
        size, self.is_stream = np.dtype(self.dtype).itemsize, self.index is None
        stored, rest = divmod(max(0, self.folder.sizes[self.file] - self.begin), size)
        self.tokens = stored
        if rest:
            self.faults.append(f"it ends within an id: {rest} of {size} bytes are left")
        if self.expected not in {None, stored}:
            self.faults.append(f"it has {stored:,} ids, and {self.expected} by what it says")

    def read(self, every: int = 1) -> Iterator[TokenRows]:
        """Yield the rows that the index names and the file has."""
        dtype, names = np.dtype(self.dtype), [self.file, self.mask] if self.mask else [self.file]
        with ExitStack() as stack:
            streams = map(self.folder.location.open, names)
            tokens, *masks = [stack.enter_context(stream) for stream in streams]
            for place, rows in islice(self._plan(), 0, None, every):
                number, columns = int(rows.offsets[-1]), dict[Aligned, np.ndarray]()
                ids = _read_numbers(tokens, self.begin + place * dtype.itemsize, dtype, number)
                for mask in masks:
                    learned = _read_numbers(mask, place, np.dtype(np.uint8), number)
                    columns[Aligned.LEARNED] = learned
                yield rows._replace(ids=ids, columns=columns)

    def _plan(self) -> Iterator[tuple[int, TokenRows]]:
        """Yield where batches begin, in ids, and the batches without their ids."""
        stored, end, row, wrong, note = self.tokens or 0, 0, 0, 0, self.faults.append
        for ends, begins in self.index() if self.index else [(np.array([stored]), None)]:
            previous = np.append(end, ends[:-1])
            if (ends < previous).any():
                note("its index lets a row end before it begins")
                return
            wrong += 0 if begins is None else int(np.count_nonzero(begins != previous))
            rows = int(np.searchsorted(ends, stored, side="right"))
            yield from cut_batches(np.append(end, ends[:rows]), row)
            if rows < len(ends):
                note(f"its index names {ends[-1]:,} ids and more, and it has {stored:,}")
                return
            end, row = int(ends[-1]), row + rows
        if wrong:
            note(f"its index lets {wrong:,} {self.unit} begin elsewhere than the one before ends")
        if end < stored:
            note(f"its index ends after {end:,} of {stored:,} ids, which no reader sees")


def cut_batches(offsets: np.ndarray, row: int) -> Iterator[tuple[int, TokenRows]]:
    """Yield where batches of rows begin, in ids, and the batches without their ids.

    Args:
        offsets: int64[rows + 1], where rows begin, and where the last one ends.
        row: the number of the first row.
    """
    first = 0
    while first + 1 < len(offsets):
        begin, end = offsets[first : first + 2].tolist()
        stop = int(np.searchsorted(offsets, begin + BATCH_TOKENS, side="right")) - 1
        if stop > first:
            yield begin, TokenRows(_NO_IDS, offsets[first : stop + 1] - begin, first=row + first)
        else:  # a row that is longer than a batch
            stop = first + 1
            for place in range(begin, end, BATCH_TOKENS):
                length, is_last = min(BATCH_TOKENS, end - place), place + BATCH_TOKENS >= end
                piece = np.array([0, length])
                yield place, TokenRows(_NO_IDS, piece, {}, place == begin, is_last, row + first)
        first = stop


def _read_numbers(stream: BinaryIO, begin: int, dtype: np.dtype, number: int) -> np.ndarray:
    stream.seek(begin)
    content = stream.read(number * dtype.itemsize)
    if len(content) < number * dtype.itemsize:
        raise ValueError("it ends too early")
    return np.frombuffer(content, dtype)


def read_index(
    folder: TokenFolder, name: str, dtype: str, begin: int = 0, number: int | None = None
) -> Iterator[np.ndarray]:
    """Yield the numbers of an index, `INDEX_NUMBERS` at a time; fewer if it ends too early.

    Args:
        folder: of the index.
        name: of the index.
        dtype: NumPy name of the type of its numbers.
        begin: the byte of the first one.
        number: how many there are; None for all up to the end.
    """
    kind = np.dtype(dtype)
    stored = max(0, folder.sizes[name] - begin) // kind.itemsize
    total = stored if number is None else min(number, stored)
    with folder.location.open(name) as stream:
        for first in range(0, total, INDEX_NUMBERS):
            place, count = begin + first * kind.itemsize, min(INDEX_NUMBERS, total - first)
            yield _read_numbers(stream, place, kind, count)


def add_lengths(lengths: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield where rows end, from their lengths.

    Example:
        [4, 0] and [1] give [4, 4] and [5].
    """
    end = np.int64(0)
    for lengths_of_rows in lengths:
        ends = end + np.cumsum(lengths_of_rows, dtype=np.int64)
        end = ends[-1]
        yield ends
