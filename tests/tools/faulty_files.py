"""Beam's filesystems, seen by a process that is killed at one of its calls."""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Self

import pytest
from apache_beam.io.filesystems import FileSystems

_CALLS = ("exists", "match", "delete", "rename", "mkdirs", "copy", "open", "create")
READS = {"exists", "match", "open"}
# What is done to local files without Beam.
_LOCAL_CALLS = ((os, "link"), (os, "unlink"), (os, "replace"), (shutil, "rmtree"))

# When the process is killed: before the call, after half of its work, or after all of its work.
BEFORE, HALF, AFTER = "before", "half of", "after"


class KilledError(BaseException):
    """Stands for a signal: no handler of errors catches it."""


class FaultyFiles:
    """Counts the calls, kills the caller at one of them, and calls an observer.

    Args:
        monkeypatch: restores the filesystems at the end of the test.

    Attributes:
        kill_at: number of the call that kills, -1 for none.
        moment: when it kills.
        observe: called after each call that may change something, from the one that kills or pauses
            on: those before are the same in every run.
        calls: names of the calls.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kill_at, self.moment = -1, AFTER
        self.observe: Callable[[], None] = lambda: None
        self.calls: list[str] = []
        self._is_observing = False
        self._slow: tuple[threading.Thread, int, Callable[[], None]] | None = None
        self._real = {name: getattr(FileSystems, name) for name in _CALLS}
        for name in _CALLS:
            monkeypatch.setattr(FileSystems, name, staticmethod(self._wrap(name)))
        for module, name in _LOCAL_CALLS:
            self._real[name] = getattr(module, name)
            monkeypatch.setattr(module, name, self._wrap(name))

    def kill(self, number: int, moment: str) -> None:
        """Start counting; kill at the call numbered `number`, or never if it is -1."""
        self.kill_at, self.moment, self.calls = number, moment, []

    def pause(self, number: int, thread: threading.Thread, wait: Callable[[], None]) -> None:
        """Let a thread wait after its own call numbered `number`."""
        self._slow = (thread, number, wait)

    def _wrap(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*arguments: Any, **keywords: Any) -> Any:
            if self._is_observing:
                return real(*arguments, **keywords)
            result = self.count(
                name, lambda: real(*arguments, **keywords), lambda: self._half(name, arguments)
            )
            return _Stream(result, self) if name == "create" else result

        return call

    def _half(self, name: str, arguments: tuple[Any, ...]) -> None:
        # As in an object store, where a rename copies and then deletes.
        if name == "rename":
            self._real["copy"](*arguments)

    def count(self, name: str, do: Callable[[], Any], half: Callable[[], object]) -> Any:
        """Make a call, or be killed at it."""
        dies = len(self.calls) == self.kill_at
        self.calls.append(name)
        if not dies:
            result = do()
            if name not in READS and len(self.calls) > self.kill_at and not self._is_slow():
                self._notify()
            self._pause()
            return result
        with suppress(OSError):  # its answer reaches nobody
            if self.moment == HALF:
                half()
            elif self.moment == AFTER:
                do()
        self._notify()
        raise KilledError(f"{self.moment} call {self.kill_at}, {name}")

    def _is_slow(self) -> bool:
        """Whether the caller is the thread that will pause."""
        return self._slow is not None and threading.current_thread() is self._slow[0]

    def _pause(self) -> None:
        if self._slow is None or not self._is_slow():
            return
        thread, number, wait = self._slow
        self._slow = (thread, number - 1, wait) if number else None
        if number == 0:
            wait()

    def _notify(self) -> None:
        self._is_observing = True
        try:
            self.observe()
        finally:
            self._is_observing = False


class _Stream:
    """A file whose writes and whose close are calls."""

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
