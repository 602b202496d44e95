"""What a command does if it is killed, or disturbed, at any moment: just before it touches a file.

A change is what Python's audit hooks report: a file that is opened for writing, renamed, linked or
removed, and a folder that is made or removed. A state after a change is that before the next one.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

# Whether tests take every moment, as `make test-kills` lets them, or some of them.
ALL_MOMENTS = bool(os.environ.get("CORPUSMILL_ALL_MOMENTS"))

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}
_LISTINGS = {"os.listdir", "os.scandir"}

# A hook stays for the life of a process, and so calls what is current.
_listener: list[Callable[[str, tuple[Any, ...]], None]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _listener and (event in _CHANGES or event in _LISTINGS or event == "open"):
        _listener[0](event, arguments)


@cache
def _add_hook() -> None:
    sys.addaudithook(_hook)


@contextmanager
def _listening(see: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
    """Tell a function of each event, for the length of a block."""
    _add_hook()  # once, and only where it is needed, as all that Python does then takes longer
    _listener.append(see)
    try:
        yield
    finally:
        _listener.clear()


def listen_to_changes(folder: Path, act: Callable[[], object]) -> None:
    """Call something before each change that this process makes in a folder from now on.

    Args:
        folder: the folder.
        act: what is called; what it does to files itself is no change.
    """

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if _changed(event, arguments, folder):
            _listener.clear()
            try:
                act()
            finally:
                _listener.append(see)

    _add_hook()
    _listener.append(see)


@contextmanager
def call_before_changes(folder: Path, act: Callable[[], object]) -> Iterator[None]:
    """Do as `listen_to_changes` for the length of a block."""
    listen_to_changes(folder, act)
    try:
        yield
    finally:
        _listener.clear()


def _changed(event: str, arguments: tuple[Any, ...], folder: Path) -> bool:
    """Whether an event is a change in a folder."""
    if event in _LISTINGS or isinstance(arguments[0], int):
        return False
    if event == "open" and not (arguments[2] & _WRITES):
        return False
    paths = [arguments[0], *([arguments[1]] if event in {"os.rename", "os.link"} else [])]
    return any(Path(os.fsdecode(path)).is_relative_to(folder) for path in paths)


Tree = dict[str, bytes | None]


def read_tree(folder: Path) -> Tree:
    """Return {relative path: content} of all files and folders below one; None for a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def write_tree(folder: Path, tree: Tree) -> None:
    """Make a folder what `read_tree` has read."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        if content is None:
            (folder / name).mkdir(parents=True, exist_ok=True)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


class Moments:
    """The states of a folder before each change that a command in this process makes there.

    Args:
        folder: the folder.

    Attributes:
        trees: the states that differ from the one before, in order. Of a file that is created there
            is one in which it is empty, too.
    """

    def __init__(self, folder: Path) -> None:
        self.trees: list[Tree] = []
        self._folder = folder

    def recorded(self) -> AbstractContextManager[None]:
        """Record the states for the length of a block."""
        return _listening(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not _changed(event, arguments, self._folder):
            return
        path = Path(os.fsdecode(arguments[0]))
        _listener.clear()  # what follows is no change of the command's
        tree = read_tree(self._folder)
        self._keep(tree)
        if event == "open" and arguments[2] & (os.O_CREAT | os.O_TRUNC):
            self._keep({**tree, str(path.relative_to(self._folder)): b""})
        _listener.append(self._see)

    def _keep(self, tree: Tree) -> None:
        if not self.trees or self.trees[-1] != tree:
            self.trees.append(tree)


class Disturbance:
    """Calls something just before the n-th time that this process touches a file in a folder.

    Files are touched when they are opened, changed, or listed. Other processes may then have
    changed what was there a moment ago.

    Args:
        folder: the folder.
        moment: the number of that time, from 0; -1 for never.
        act: what is called.

    Attributes:
        moments: how many times there were, those within the call aside.
    """

    def __init__(self, folder: Path, moment: int, act: Callable[[], object]) -> None:
        self.moments = 0
        self._folder, self._moment, self._act = folder, moment, act

    def awaited(self) -> AbstractContextManager[None]:
        """Wait for the moment, for the length of a block."""
        return _listening(self._see)

    def _see(self, _: str, arguments: tuple[Any, ...]) -> None:
        path = arguments[0]
        if isinstance(path, int) or not Path(os.fsdecode(path)).is_relative_to(self._folder):
            return
        self.moments += 1
        if self.moments == self._moment + 1:
            _listener.clear()
            self._act()
            _listener.append(self._see)
