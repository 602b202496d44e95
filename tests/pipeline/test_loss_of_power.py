"""A loss of power at any moment of a run: what is left is the old data set or the new one."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import pytest

from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.shards import open_data_set
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import Growing, halve
from tests.tools.jobs import run_any
from tests.tools.killed_commands import find_damage
from tests.tools.moments import ALL_MOMENTS, Tree, call_before_changes, read_tree, write_tree

# What is left on a disk after a loss of power: all that was not synced may be lost.
#
# A file holds what it held when it was last synced, or nothing. Of the entries that a folder has
# got since it was last synced, all are on the disk or none; of those that it has lost, any.


Inode = tuple[int, int]


class _Entry(NamedTuple):
    inode: Inode
    is_folder: bool


class Disk:
    """Keeps account of what is synced in a folder while a command in this process changes it.

    What is there at the beginning is synced.

    Args:
        monkeypatch: undoes it.
        folder: the folder.

    Attributes:
        states: the different states in which a loss of power before a change would leave the
            folder.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.states: list[Tree] = []
        self._folder, self._lock = folder, RLock()
        self._random = random.Random(1)  # noqa: S311  it only draws what is tried
        self._root = _inode_of(folder.stat())
        self._contents: dict[Inode, bytes] = {}
        self._entries: dict[Inode, dict[str, _Entry]] = {}
        self._kept: list[int] = []  # or else the inode of a file that is gone would be used again
        for path in (folder, *folder.rglob("*")):
            self._keep(str(path))
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._fsync)

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._kept:
            os.close(descriptor)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the states for the length of a block."""
        try:
            with call_before_changes(self._folder, self._record):
                yield
            self._record()
        finally:
            self.close()

    def _fsync(self, descriptor: int) -> None:
        self._sync(descriptor)
        with self._lock:
            self._keep(f"/proc/self/fd/{descriptor}")

    def _keep(self, path: str) -> None:
        """Note what is on the disk of a file or a folder from now on."""
        # A new description, as a copy of the old one would keep its lock.
        descriptor = os.open(path, os.O_RDONLY)
        self._kept.append(descriptor)
        inode = _inode_of(os.fstat(descriptor))
        if Path(path).is_dir():
            self._entries[inode] = _list_entries(descriptor)
        else:
            self._contents[inode] = Path(path).read_bytes()

    def _record(self) -> None:
        with self._lock:
            for has_added in (False, True):
                for chance in (0.0, 0.5, 1.0):
                    state = self._tree(str(self._folder), self._root, has_added, chance)
                    if state not in self.states:
                        self.states.append(state)

    def _tree(self, path: str, inode: Inode, has_added: bool, chance: float) -> Tree:
        """Return what is left of a folder.

        Args:
            path: of the folder; empty if it is gone.
            inode: of the folder.
            has_added: whether the entries are on the disk that were added.
            chance: of an entry that was removed to be gone.
        """
        synced, now = self._entries.get(inode, {}), _list_entries(path) if path else {}
        tree: Tree = {}
        for name in sorted({*synced, *now}):
            older, newer = synced.get(name), now.get(name)
            entry = newer if has_added else older
            if older is not None and newer is None:
                entry = None if self._random.random() < chance else older
            if entry is None:
                continue
            if not entry.is_folder:
                tree[name] = self._contents.get(entry.inode, b"")
                continue
            lower = f"{path}/{name}" if path and entry == newer else ""
            below = self._tree(lower, entry.inode, has_added, chance)
            tree |= {name: None, **{f"{name}/{part}": content for part, content in below.items()}}
        return tree


def _inode_of(status: os.stat_result) -> Inode:
    return (status.st_dev, status.st_ino)


def _list_entries(path: str | int) -> dict[str, _Entry]:
    entries = {}
    with os.scandir(path) as listed:
        for entry in listed:
            with suppress(FileNotFoundError):  # another thread of the run removes it
                inode = _inode_of(entry.stat(follow_symlinks=False))
                entries[entry.name] = _Entry(inode, entry.is_dir(follow_symlinks=False))
    return entries


def test_whoever_writes_a_file_syncs_it_as_another_machine_cannot(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, sync = list[str](), os.fsync

    def record(descriptor: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    growing = Growing(tmp_path / "out", tokenizer_path)
    growing.build(sample)
    for version in ("v1", "v2"):
        files = [str(path) for path in growing.output.glob(f"{version}/**/*.parquet")]
        assert {Path(file).parts[-2] for file in files} == {version, "provenance"}
        # The commit syncs what the manifest lists once more.
        assert [file for file in files if paths.count(file) < 2] == []
        if version == "v1":
            outcome = run_any("drop", growing.output, "--where", "document % 3 = 1")
            assert outcome.status == 0, outcome.errors


# So many of the states are looked at, and followed by the same command, which ends well in each.
_LOOKED_AT, _AGAIN = (10**6, 10**6) if ALL_MOMENTS else (30, 3)


def _choose(states: list[Tree], number: int) -> list[Tree]:
    return states[:: -(-len(states) // number)]


@pytest.mark.parametrize("kind", ["build", "replace", "append", "drop"])
def test_a_loss_of_power_leaves_the_old_or_the_new_data_set(
    kind: str, sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = halve(b"".join(sample.read_bytes().splitlines(keepends=True)[:70]), tmp_path)
    growing = Growing(tmp_path / "around" / "out", tokenizer_path)
    growing.output.parent.mkdir()
    command = ["bert", "--tokenizer", str(tokenizer_path), "--output", str(growing.output)]
    command += ["--max-seq-length", "64", "--duplicates", "1", "--num-shards", "2"]
    command += ["--workers", "1", "--input"]
    build = [*command, str(first)]
    words, again = {
        "build": (build, [*build, "--replace"]),
        "replace": ([*build, "--seed", "2", "--replace"],) * 2,
        "append": ([*command, str(second), "--append", "--existing", "allow"],) * 2,
        "drop": (["drop", str(growing.output), "--where", "document % 3 = 1"],) * 2,
    }[kind]
    if kind != "build":
        assert run_any(*build).status == 0
    around = growing.output.parent
    pointers = [read_tree(around).get(f"out/{MANIFEST}")]
    with monkeypatch.context() as patch:
        disk = Disk(patch, around)
        with disk.recorded():
            outcome = run_any(*words)
    assert outcome.status == 0, outcome.errors
    pointers.append(read_tree(around).get(f"out/{MANIFEST}"))
    rows = growing.manifest().counts
    # In the end nothing can be lost any more.
    assert disk.states[-1].get(f"out/{MANIFEST}") == pointers[1]
    for number, state in enumerate(disk.states):
        assert state.get(f"out/{MANIFEST}") in pointers, number
    for number, state in enumerate(_choose(disk.states, _LOOKED_AT)):
        write_tree(around, state)
        if f"out/{MANIFEST}" in state:
            assert find_damage(locate(str(growing.output))) == [], number
    for state in _choose(disk.states, _AGAIN):
        write_tree(around, state)
        outcome = run_any(*again)
        assert outcome.status == 0, outcome.errors
        if kind in {"build", "replace", "drop"}:
            assert open_data_set(locate(str(growing.output)))[1].counts == rows
        assert verify(growing.output) == []
