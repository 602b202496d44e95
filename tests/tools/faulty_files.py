"""Beam's filesystems as a process sees them that is killed at one of its calls."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Self

import pytest
from apache_beam.io.filesystems import FileSystems

_CALLS = ("exists", "match", "delete", "rename", "mkdirs", "copy", "open", "create")

# When the kill comes: the call has done nothing, half of its work, or all of it.
BEFORE, HALF, AFTER = "before", "half of", "after"


class KilledError(BaseException):
    """As a signal: no handler of errors stops it."""


class FaultyFiles:
    """Counts the calls, kills the caller at one of them, and lets others look on after each.

    Args:
        monkeypatch: takes everything back at the end of the test.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.moment = -1, AFTER
        self.look_on: Callable[[], None] = lambda: None
        self.calls: list[str] = []
        self._looking = False
        self._slow: tuple[threading.Thread, int, Callable[[], None]] | None = None
        self._real = {name: getattr(FileSystems, name) for name in _CALLS}
        for name in _CALLS:
            monkeypatch.setattr(FileSystems, name, staticmethod(self._wrap(name)))

    def kill(self, at: int, moment: str) -> None:
        """Begin to count anew; `at` is the number of the call that kills, -1 for none."""
        self.at, self.moment, self.calls = at, moment, []

    def stand_still(self, at: int, thread: threading.Thread, wait: Callable[[], None]) -> None:
        """Let a thread wait behind the call of that number of its own."""
        self._slow = (thread, at, wait)

    def _wrap(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*given: Any, **named: Any) -> Any:
            if self._looking:
                return real(*given, **named)
            result = self.count(
                name, lambda: real(*given, **named), lambda: self._half(name, given)
            )
            return _Stream(result, self) if name == "create" else result

        return call

    def _half(self, name: str, given: tuple[Any, ...]) -> None:
        # As of an object store, where a rename copies and then deletes.
        if name == "rename":
            self._real["copy"](*given)

    def count(self, name: str, do: Callable[[], Any], half: Callable[[], object]) -> Any:
        """Do a call, or die of it."""
        dies = len(self.calls) == self.at
        self.calls.append(name)
        if not dies:
            result = do()
            self._look()
            self._stand_still()
            return result
        with suppress(OSError):  # its answer reaches nobody
            if self.moment == HALF:
                half()
            elif self.moment == AFTER:
                do()
        self._look()
        raise KilledError(f"{self.moment} call {self.at}, {name}")

    def _stand_still(self) -> None:
        if not self._slow or threading.current_thread() is not self._slow[0]:
            return
        thread, at, wait = self._slow
        self._slow = (thread, at - 1, wait)
        if at == 0:
            wait()

    def _look(self) -> None:
        self._looking = True
        try:
            self.look_on()
        finally:
            self._looking = False


class _Stream:
    """A file that is written, of which each write and its end are calls."""

    def __init__(self, stream: BinaryIO, files: FaultyFiles) -> None:
        self._stream, self._files = stream, files

    def write(self, data: bytes) -> int:
        def half() -> None:
            self._stream.write(memoryview(data)[: len(data) // 2])

        written: int = self._files.count("write", lambda: self._stream.write(data), half)
        return written

    def close(self) -> None:
        self._files.count("close", self._stream.close, self._stream.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._stream.close()
