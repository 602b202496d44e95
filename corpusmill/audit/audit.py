"""Token files are measured: all rows or a sample of them, in threads."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from queue import SimpleQueue

import numpy as np

from corpusmill.audit.conventions import Given
from corpusmill.audit.measures import Conventions, Measures, Windows, choose_share
from corpusmill.audit.token_files import DAMAGE, Aligned, TokenFile, TokenRows, explain

# More threads than kernels use memory, and read no faster.
_MOST_THREADS = 8
# The first ids by which is judged what ids mean.
_JUDGED_IDS = 2**20
# Of a batch whose number is a power of 2, the rows that are kept as samples, and ids of each.
_SAMPLED_ROWS, SAMPLED_IDS = 64, 1024


@dataclass(frozen=True)
class Audit:
    """What was measured of token files of one format.

    Attributes:
        files: the files, with their faults.
        measures: of all of them.
        samples: some of their rows, of at most SAMPLED_IDS ids.
        every: one batch of so many was read.
    """

    files: Sequence[TokenFile]
    measures: Measures
    samples: Sequence[np.ndarray] = ()
    every: int = 1

    @property
    def conventions(self) -> Conventions:
        """What ids mean."""
        return self.measures.conventions

    @property
    def width(self) -> int:
        """The number of ids of the longest row."""
        return max(self.measures.lengths, default=0)

    @property
    def dtype(self) -> str:
        """NumPy name of the type of their ids, such as uint16."""
        return np.dtype(next((file.dtype for file in self.files if file.dtype), "int64")).name

    @property
    def has_documents(self) -> bool:
        """Whether a row is a document, and neither a stream nor cut at one length."""
        return not (self.conventions.are_windows or any(file.is_stream for file in self.files))


@dataclass
class _Reading:
    """Reads files one after the other, and notes what is wrong with each."""

    files: Sequence[TokenFile]
    every: int
    samples: list[np.ndarray] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[int, TokenRows]]:
        for number, file in enumerate(self.files):
            try:
                for batch, rows in enumerate(file.read(self.every)):
                    if not batch & (batch - 1):
                        self._sample(rows, file.is_stream)
                    yield number, rows
            except DAMAGE as error:
                file.faults.append(f"it cannot be read to its end ({explain(error)})")

    def _sample(self, rows: TokenRows, is_stream: bool) -> None:
        """Keep rows that lie evenly apart, or pieces of a stream."""
        begins, ends = rows.offsets[:-1], rows.offsets[1:]
        if is_stream:
            begins = np.arange(0, len(rows.ids), SAMPLED_IDS)
            ends = np.append(begins[1:], len(rows.ids))
        for row in {*np.linspace(0, len(begins) - 1, _SAMPLED_ROWS, dtype=int).tolist()}:
            ids = rows.ids[begins[row] : ends[row]]
            if len(ids):
                self.samples.append(ids[:SAMPLED_IDS].astype(np.int64))


def _join(parts: Sequence[TokenRows]) -> TokenRows:
    """Return rows as one, with what tells their padding."""
    begins = np.cumsum([0, *(len(rows.ids) for rows in parts)])
    offsets = [rows.offsets[1:] + begin for rows, begin in zip(parts, begins, strict=False)]
    masks = [rows.columns.get(Aligned.ATTENDED) for rows in parts]
    is_known = all(mask is not None for mask in masks)
    columns = {} if not is_known else {Aligned.ATTENDED: np.concatenate([[], *masks])}
    ids = np.concatenate([np.empty(0, np.int64), *(rows.ids for rows in parts)])
    is_ended = all(rows.is_ended for rows in parts)
    return TokenRows(ids, np.concatenate([[0], *offsets]), columns, is_ended=is_ended)


def audit_files(files: Sequence[TokenFile], given: Given, every: int = 1) -> Audit:
    """Measure files.

    Args:
        files: of one format, at least one.
        given: what is known of their ids.
        every: reads one batch of so many.
    """
    reading = _Reading(files, every)
    batches, first = iter(reading), list[tuple[int, TokenRows]]()
    while sum(len(rows.ids) for _, rows in first) < _JUDGED_IDS and (batch := next(batches, None)):
        first.append(batch)
    is_stream = bool(first) and files[first[0][0]].is_stream
    conventions = given.judge(_join([rows for _, rows in first]), is_stream)
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    share = choose_share(sum(file.tokens or 0 for file in files))
    parts = [Measures(conventions, windows=Windows(share)) for _ in range(threads)]
    idle: SimpleQueue[Measures] = SimpleQueue()
    for part in parts:
        idle.put(part)

    def add(file: int, rows: TokenRows) -> None:
        part = idle.get()
        try:
            part.add(rows, file)
        finally:
            idle.put(part)

    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[None]] = deque()
        for file, rows in chain(first, batches):
            running.append(pool.submit(add, file, rows))
            if len(running) > threads:
                running.popleft().result()
        for future in running:
            future.result()
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    total.windows.settle()
    return Audit(files, total, reading.samples, every)
