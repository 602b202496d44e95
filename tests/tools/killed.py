"""What a command leaves behind when it is killed just before it changes a file."""

import os
import shutil
from collections.abc import Callable, Container
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from corpusmill import location
from transforms.storage import files

_CHANGES = (
    (os, "rename"), (os, "replace"), (os, "link"), (os, "unlink"), (os, "rmdir"),
    (shutil, "rmtree"),
)  # fmt: skip


class Snapshots:
    """Copies a folder before some of the changes that a command in this process makes to files.

    Each copy is what `kill -9` would leave at that moment, as nothing has been cleaned up yet.

    Args:
        monkeypatch: undoes it.
        folder: the folder.
        place: where the copies are kept; one that is restored has the path of the folder again.
        moments: the numbers of the changes, from 0, before which the folder is copied.

    Attributes:
        changes: the number of changes so far.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        place: Path,
        moments: Container[int] = (),
    ) -> None:
        self.changes, self._folder, self._place, self._moments = 0, folder, place, moments
        self._is_copying, self._lock = False, RLock()
        self._watch(monkeypatch, Path, "open", _creates)
        for module in (location, files):
            self._watch(monkeypatch, module, "create_named", lambda *_: True)
        for owner, name in _CHANGES:
            self._watch(monkeypatch, owner, name, lambda *_, **__: True)

    def _watch(
        self,
        monkeypatch: pytest.MonkeyPatch,
        owner: Any,
        name: str,
        is_change: Callable[..., bool],
    ) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self._is_copying or not is_change(*arguments, **named):
                return real(*arguments, **named)
            with self._lock:  # no other thread changes what is copied
                self._look()
                return real(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    def _look(self) -> None:
        if self.changes in self._moments:
            self._is_copying = True
            shutil.copytree(self._folder, self._place / str(self.changes))
            self._is_copying = False
        self.changes += 1

    def restore(self, number: int) -> None:
        """Let the folder be what it was before a change."""
        self._is_copying = True
        shutil.rmtree(self._folder)
        shutil.copytree(self._place / str(number), self._folder)
        self._is_copying = False


def _creates(_: Path, mode: str = "r", *__: Any, **___: Any) -> bool:
    return mode == "wb"
