"""Files of rejects: lines of JSON, of which few have details and all tell every place.

The first rejects of each file and reason are a line each:

    {"file": "a.txt", "offset": 7, "length": 2, "reason": "invalid-utf-8", "detail": ...}

All others of the same reason in one window of the file share a line:

    {"file": "a.txt", "reason": "invalid-utf-8", "number": 6, "bytes": 15,
     "offsets": [900, 3, -4], "lengths": [2, 3, -3, 1]}

The offsets are 900, 903, 906, 909, 912 and 915: the first one is told, then the difference of each
from the one before. The lengths are 2, 3, 3, 3, 3 and 1. A negative number says how many more times
the number before it stands there. The rows of tables have their numbers as well ("row", "rows").

Which lines a file has depends on the rejects alone, and not on how the input was divided: files of
neighboring parts are joined to the file of the whole.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from corpusmill.corpus.batches import TOLD_REJECTS, Reject, RejectColumns
from corpusmill.knobs import knob

REJECT_WINDOW = knob("reject_window", 2**20)
"""The bytes of a file, or rows of a table, whose other rejects share a line."""

# The fewest equal numbers that are written as one number and how often it occurs.
_FEWEST_EQUAL = 4

_Numbers = npt.NDArray[np.int64]


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object:
        """Write some bytes."""


class RejectWriter:
    """Writes rejects, which come in the order of the corpus.

    Args:
        sink: where the lines go.

    Attributes:
        number: rejects that were added.
    """

    def __init__(self, sink: _Sink) -> None:
        self._sink, self.number = sink, 0
        self._file, self._window = "", -1
        # How many rejects of each reason in the file were told.
        self._told = Counter[str]()
        self._rejects: list[Reject] = []
        self._columns: list[RejectColumns] = []

    def add(self, rejects: Sequence[Reject], columns: Sequence[RejectColumns] = ()) -> None:
        """Add rejects of neighboring places in one file."""
        pieces: list[tuple[int, Reject | RejectColumns]] = [
            (reject.place // REJECT_WINDOW, reject) for reject in rejects
        ]
        pieces += [piece for some in columns for piece in self._divide(some)]
        for window, piece in sorted(pieces, key=lambda piece: piece[0]):
            if (piece.file, window) != (self._file, self._window):
                self._enter(piece.file, window)
            if isinstance(piece, Reject):
                self._rejects.append(piece)
            else:
                self._columns.append(piece)
        self.number += len(rejects) + sum(map(len, columns))

    def close(self) -> None:
        """Write what was held back."""
        self._enter("", -1)

    def _divide(self, columns: RejectColumns) -> Iterator[tuple[int, RejectColumns]]:
        windows = columns.places // REJECT_WINDOW
        bounds = [0, *(np.flatnonzero(np.diff(windows)) + 1).tolist(), len(windows)]
        for first, last in pairwise(bounds):
            rows = None if columns.rows is None else columns.rows[first:last]
            places = columns.offsets[first:last], columns.lengths[first:last]
            yield int(windows[first]), RejectColumns(columns.file, columns.reason, *places, rows)

    def _enter(self, file: str, window: int) -> None:
        """Write the window that has ended, and begin another one."""
        untold: dict[str, list[RejectColumns]] = {}
        for reject in sorted(self._rejects, key=lambda reject: (reject.place, reject.reason)):
            if reject.length < 0 or self._told[reject.reason] < TOLD_REJECTS:
                self._told[reject.reason] += 1
                self._sink.write(to_line(reject))
            else:
                offset, length = np.array([[reject.offset], [reject.length]], np.int64)
                row = None if reject.row is None else np.array([reject.row], np.int64)
                columns = RejectColumns(reject.file, reject.reason, offset, length, row)
                untold.setdefault(reject.reason, []).append(columns)
        for columns in self._columns:
            untold.setdefault(columns.reason, []).append(columns)
        for _, parts in sorted(untold.items()):
            self._sink.write(_columns_line(_join(parts)))
        if file != self._file:
            self._told.clear()
        self._file, self._window, self._rejects, self._columns = file, window, [], []


def to_line(reject: Reject) -> bytes:
    """Return the line of one reject."""
    values = {name: value for name, value in vars(reject).items() if value is not None}
    return (json.dumps(values, ensure_ascii=False) + "\n").encode()


def _columns_line(columns: RejectColumns) -> bytes:
    head = {
        "file": columns.file,
        "reason": columns.reason,
        "number": len(columns),
        "bytes": int(columns.lengths.sum()),
    }
    parts = {"offsets": np.diff(columns.offsets, prepend=0), "lengths": columns.lengths}
    if columns.rows is not None:
        parts["rows"] = np.diff(columns.rows, prepend=0)
    line = json.dumps(head, ensure_ascii=False)[:-1].encode()
    for name, numbers in parts.items():
        packed = orjson.dumps(_pack(numbers), option=orjson.OPT_SERIALIZE_NUMPY)
        line += f', "{name}": '.encode() + packed
    return line + b"}\n"


def read_rejects(lines: Iterable[bytes]) -> Iterator[Reject | RejectColumns]:
    """Read the lines of a file of rejects.

    Args:
        lines: the lines, such as an open file.

    Yields:
        The rejects that have details, and many others at once, in the order of the file.
    """
    for line in lines:
        values: dict[str, Any] = json.loads(line)
        if "number" not in values:
            yield Reject(**values)
            continue
        offsets, lengths = np.cumsum(_unpack(values["offsets"])), _unpack(values["lengths"])
        rows = np.cumsum(_unpack(values["rows"])) if "rows" in values else None
        yield RejectColumns(values["file"], values["reason"], offsets, lengths, rows)


def _join(parts: Sequence[RejectColumns]) -> RejectColumns:
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.places for part in parts]), kind="stable")
    offsets = np.concatenate([part.offsets for part in parts])[order]
    lengths = np.concatenate([part.lengths for part in parts])[order]
    rows = [part.rows for part in parts if part.rows is not None]
    joined = np.concatenate(rows)[order] if rows else None
    return RejectColumns(parts[0].file, parts[0].reason, offsets, lengths, joined)


def _pack(numbers: _Numbers) -> _Numbers:
    """Replace equal numbers that follow each other: [2, 7, 7, 7, 7] gives [2, 7, -3]."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    times = np.diff(starts, append=len(numbers))
    is_packed = times >= _FEWEST_EQUAL
    kept = np.where(is_packed, 2, times)
    packed = np.repeat(numbers[starts], kept)
    packed[(np.cumsum(kept) - 1)[is_packed]] = 1 - times[is_packed]
    return packed


def _unpack(packed: Sequence[int]) -> _Numbers:
    """Undo `_pack`."""
    numbers = np.array(packed, np.int64)
    is_number = numbers >= 0
    times = np.where(is_number, 1, -numbers)
    last = np.flatnonzero(is_number)[np.cumsum(is_number) - 1]
    return np.repeat(numbers[last], times)
