"""Token files are measured: all rows or a sample of them, in threads."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np

from corpusmill.audit.conventions import Given
from corpusmill.audit.measures import Conventions, Measures, Windows, choose_share
from corpusmill.audit.token_files import DAMAGE, Aligned, TokenFile, TokenRows, explain
from corpusmill.processors import count_processors

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
        every: every how many batches one was read; 1 if all were.
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


def _read(
    files: Sequence[TokenFile], every: int, samples: list[np.ndarray]
) -> Iterator[tuple[TokenRows, int]]:
    """Yield the rows of files one after the other, and the number of each; note what is wrong."""
    for number, file in enumerate(files):
        try:
            for batch, rows in enumerate(file.read(every)):
                if not batch & (batch - 1):
                    samples += _sample(rows, file.is_stream)
                yield rows, number
        except DAMAGE as error:
            file.faults.append(f"it cannot be read to its end ({explain(error)})")


def _sample(rows: TokenRows, is_stream: bool) -> Iterator[np.ndarray]:
    """Yield rows that lie evenly apart, or pieces of a stream."""
    offsets = rows.offsets
    if is_stream:
        offsets = np.append(np.arange(0, max(1, len(rows.ids)), SAMPLED_IDS), len(rows.ids))
    for row in {*np.linspace(0, len(offsets) - 2, _SAMPLED_ROWS, dtype=int).tolist()}:
        if len(ids := rows.ids[offsets[row] : offsets[row + 1]]):
            yield ids[:SAMPLED_IDS].astype(np.int64)


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
        every: every how many batches to read one; 1 to read all.
    """
    samples, first = list[np.ndarray](), list[tuple[TokenRows, int]]()
    batches = _read(files, every, samples)
    while sum(len(rows.ids) for rows, _ in first) < _JUDGED_IDS and (batch := next(batches, None)):
        first.append(batch)
    is_stream = bool(first) and files[first[0][1]].is_stream
    conventions = given.judge(_join([rows for rows, _ in first]), is_stream)
    threads = min(_MOST_THREADS, count_processors())
    share = choose_share(sum(file.tokens or 0 for file in files))
    parts = [Measures(conventions, windows=Windows(share)) for _ in range(threads)]
    running = dict[int, Future[None]]()
    with ThreadPoolExecutor(threads) as pool:
        for number, (rows, file) in enumerate(chain(first, batches)):
            thread = number % threads
            if thread in running:
                running[thread].result()
            running[thread] = pool.submit(parts[thread].add, rows, file)
        for future in running.values():
            future.result()
    total, *others = parts
    for part in others:
        total.merge(part)
    total.windows.settle()
    return Audit(files, total, samples, every)
