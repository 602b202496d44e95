"""What a reader is told that waits long for a shard to be unpacked."""

import sys
import time
import warnings
from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

from corpusmill.reading.cache.pieces import Piece

# Seconds until something is said, and between two lines of progress on a terminal.
_PATIENCE_SECONDS, _LINE_SECONDS = 10.0, 1.0

# Of shards that are unpacked at a time, one shows its progress.
_TERMINAL = Lock()


class Notice:
    """Warns once if a piece takes long, and then shows the progress on a terminal.

    Args:
        piece: the rows that are unpacked.
        batch_rows: rows that are unpacked at a time.
        stream: the terminal; None for standard error. Nothing is shown elsewhere.
        clock: returns seconds.
    """

    def __init__(
        self,
        piece: Piece,
        batch_rows: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._piece, self._batch_rows = piece, batch_rows
        self._stream = stream or sys.stderr
        self._clock, self._begin, self._done, self._shown = clock, clock(), 0, 0.0
        self._has_terminal = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._has_terminal:
            self._has_terminal = False
            self._stream.write("\n")
            _TERMINAL.release()

    def count_batch(self) -> bool:
        """Note that one more batch is unpacked, and return true: the next one is wanted."""
        seconds = self._clock() - self._begin
        if seconds >= (self._shown + _LINE_SECONDS if self._shown else _PATIENCE_SECONDS):
            self._show(seconds)
        self._done = min(self._done + self._batch_rows, self._piece.rows)
        return True

    def _show(self, seconds: float) -> None:
        share = f"{self._done / max(1, self._piece.rows):.0%} of {self._piece.rows:,} rows"
        if not self._shown:
            warnings.warn(
                f"{self._piece.shard.file}: rows are unpacked before the first is read, {share} in "
                f"{seconds:.0f} s. This happens once. Shards of fewer rows, by a larger "
                "--num-shards, are read sooner.",
                stacklevel=2,
            )
            self._has_terminal = self._is_terminal() and _TERMINAL.acquire(blocking=False)
        self._shown = seconds
        if self._has_terminal:
            self._stream.write(f"\r{self._piece.shard.file}: unpacked {share} in {seconds:.0f} s")
            self._stream.flush()

    def _is_terminal(self) -> bool:
        return self._stream is not None and self._stream.isatty()
