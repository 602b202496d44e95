"""Files with nothing but ids, and an index of rows beside them or none."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from corpusmill.audit.token_files import BATCH_TOKENS, Aligned, TokenFile, TokenFolder, TokenRows
from corpusmill.knobs import knob
from corpusmill.location import Location

INDEX_NUMBERS = knob("index_numbers", 2**20, test=7)
"""The numbers of an index that are read at once."""
_MASK = np.dtype(np.uint8)
# Returns the lengths of rows, some at a time.
Lengths = Callable[[], Iterator[np.ndarray]]


@dataclass
class FlatTokens(TokenFile):
    """Ids without separators.

    Attributes:
        folder: of the file.
        file: its name in the folder.
        begin: the byte of the first id.
        stored: the ids that the file has room for.
        lengths: yields the lengths of rows; None for one row.
        mask: name of a file with a byte for each id, 0 where it is not learned; empty for none.
    """

    folder: Location = field(kw_only=True)
    file: str = ""
    begin: int = 0
    stored: int = 0
    lengths: Lengths | None = None
    mask: str = ""

    def read(self, every: int = 1) -> Iterator[TokenRows]:
        """Yield the rows that the index names and the file has."""
        with self.folder.open(self.file) as tokens:
            mask = self.folder.open(self.mask) if self.mask else None
            try:
                for number, part in enumerate(self._plan()):
                    if number % every == 0:
                        yield self._load(part, tokens, mask)
            finally:
                if mask:
                    mask.close()

    def _plan(self) -> Iterator[tuple[int, TokenRows]]:
        """Yield where batches begin, in ids, and the batches without their ids."""
        lengths = self.lengths() if self.lengths else iter([np.array([self.stored])])
        begin = row = 0
        for some in lengths:
            if some.min() < 0:
                self.faults.append("its index lets a row end before it begins")
                return
            ends = begin + np.cumsum(some)
            rows = int(np.searchsorted(ends, self.stored, side="right"))
            if rows < len(some):
                self.faults.append(
                    f"its index names {int(ends[-1]):,} ids and more, and it has {self.stored:,}"
                )
            yield from cut_batches(some[:rows], begin, row)
            begin = int(ends[rows - 1]) if rows else begin
            row += rows
            if rows < len(some):
                return
        if begin < self.stored:
            self.faults.append(
                f"its index ends after {begin:,} of {self.stored:,} ids, which no reader sees"
            )

    def _load(
        self, part: tuple[int, TokenRows], tokens: BinaryIO, mask: BinaryIO | None
    ) -> TokenRows:
        place, rows = part
        dtype, number = np.dtype(self.dtype), int(rows.offsets[-1])
        ids = _read_numbers(tokens, self.begin + place * dtype.itemsize, dtype, number)
        if mask is None:
            return rows._replace(ids=ids)
        learned = _read_numbers(mask, place, _MASK, number)
        return rows._replace(ids=ids, columns={Aligned.LEARNED: learned})


def cut_batches(
    lengths: npt.NDArray[np.int64], begin: int, row: int
) -> Iterator[tuple[int, TokenRows]]:
    """Yield where batches of rows begin, in ids, and the batches without their ids.

    Args:
        lengths: int64[rows].
        begin: where the first row begins.
        row: its number.
    """
    empty, ends, first = np.empty(0, np.int64), begin + np.cumsum(lengths), 0
    while first < len(ends):
        stop = int(np.searchsorted(ends, begin + BATCH_TOKENS, side="right"))
        if stop > first:
            offsets = np.append(0, ends[first:stop] - begin)
            yield begin, TokenRows(empty, offsets, first=row + first)
        else:  # a row that is longer than a batch
            stop = first + 1
            for place in range(begin, int(ends[first]), BATCH_TOKENS):
                end = min(place + BATCH_TOKENS, int(ends[first]))
                flags = place == begin, end == ends[first]
                yield place, TokenRows(empty, np.array([0, end - place]), {}, *flags, row + first)
        begin, first = int(ends[stop - 1]), stop


def _read_numbers(stream: BinaryIO, begin: int, dtype: np.dtype, number: int) -> np.ndarray:
    stream.seek(begin)
    content = stream.read(number * dtype.itemsize)
    if len(content) < number * dtype.itemsize:
        raise ValueError("it ends too early")
    return np.frombuffer(content, dtype)


def open_flat(
    folder: TokenFolder,
    name: str,
    token_format: str,
    dtype: str,
    begin: int = 0,
    stated: int | str | None = None,
) -> FlatTokens:
    """Open a file by its size, as one row, and note where that contradicts something.

    Args:
        folder: of the file.
        name: of the file.
        token_format: name of its format.
        dtype: NumPy name of the type of its ids.
        begin: the byte of the first id.
        stated: how many ids there are by something else; None without that.
    """
    title = f"{folder.location}/{name}"
    file = FlatTokens(title, token_format, dtype, folder=folder.location, file=name, begin=begin)
    size = np.dtype(dtype).itemsize
    file.stored, rest = divmod(max(0, folder.sizes[name] - begin), size)
    file.tokens = file.stored
    if rest:
        file.faults.append(f"it ends within an id: {rest} of {size} bytes are left")
    if stated not in {None, file.stored}:
        file.faults.append(f"it has {file.stored:,} ids, and {stated} by what it says")
    return file


def read_index(
    folder: Location, name: str, dtype: str, begin: int = 0, number: int | None = None
) -> Iterator[np.ndarray]:
    """Yield the numbers of an index, `INDEX_NUMBERS` at a time; fewer if it ends too early.

    Args:
        folder: of the index.
        name: of the index.
        dtype: NumPy name of the type of its numbers.
        begin: the byte of the first one.
        number: how many there are; None for all up to the end.
    """
    size = np.dtype(dtype).itemsize
    with folder.open(name) as stream:
        stream.seek(begin)
        while number is None or number > 0:
            wanted = min(INDEX_NUMBERS, number or INDEX_NUMBERS)
            content = stream.read(wanted * size)
            numbers = np.frombuffer(content, dtype, len(content) // size)
            if len(numbers):
                yield numbers
            if len(numbers) < wanted:
                return
            number = None if number is None else number - wanted
