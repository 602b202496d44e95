"""The room that unpacked shards take in a folder, and whether it is too small for a reader."""

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock, Timeout

from corpusmill.reading.cache.pieces import CHECKSUMS

# The version of the files' layout; caches of other versions are not read.
LAYOUT = 2

_PLACE = re.compile(rf"[0-9a-f]{{64}}-{LAYOUT}")

# The cache is too small if this many shards in a row are unpacked a second time, with fewer than
# this many lookups between each two. Otherwise such a shard was merely read long ago.
_THRASHING, _FEW_LOOKUPS = 8, 16


class Pressure:
    """Detects that a process unpacks the same shards again and again.

    Attributes:
        lookups: the lookups of shards since one was last unpacked a second time.
    """

    def __init__(self) -> None:
        self.lookups = 0
        self._unpacked: set[int] = set()
        self._in_a_row = 0
        self._has_warned = False

    def is_thrashing(self, shard: int) -> bool:
        """Record that a shard was unpacked, and return whether the cache is too small."""
        if shard in self._unpacked:
            self._in_a_row = self._in_a_row + 1 if self.lookups < _FEW_LOOKUPS else 0
            self.lookups = 0
        self._unpacked.add(shard)
        return self._in_a_row >= _THRASHING

    def warn(self, message: str) -> None:
        """Warn the user, but only once."""
        if not self._has_warned:
            warnings.warn(message, stacklevel=2)
        self._has_warned = True


def measure_places(folder: Path, sizes: dict[str, int]) -> Iterator[tuple[Path, tuple[float, int]]]:
    """Yield each unpacked piece with the time when it was last opened, and its bytes.

    Args:
        folder: of the pieces.
        sizes: the bytes of those that were measured before, by name, as they never change; the
            others are added.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if _PLACE.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # another process may remove it
                    if entry.name not in sizes:
                        files = Path(entry.path).iterdir()
                        sizes[entry.name] = sum(file.stat().st_size for file in files)
                    yield Path(entry.path), (entry.stat().st_mtime, sizes[entry.name])


def remove_place(place: Path) -> bool:
    """Remove an unpacked shard, which disappears at once for other processes.

    A folder without the checksums that are written with a shard is not ours, whatever its name.
    """
    if not (place / CHECKSUMS).is_file():
        return False
    try:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=place.parent))
        place.rename(scratch / "removed")
    except OSError:  # another process was faster, or it belongs to another user
        return False
    shutil.rmtree(scratch, ignore_errors=True)
    return True


_LEFTOVER = re.compile(rf"([0-9a-f]{{64}}-{LAYOUT})\.(?!lock\Z).+")


def _is_scratch(folder: Path) -> bool:
    """Whether a folder holds nothing but what this package puts into its scratch folders."""
    return {path.name for path in folder.iterdir()} <= {"columns", "copies", "broken", "removed"}


class Leftovers:
    """Searches for leftovers once, as listing 100,000 shards for each of them would take hours.

    Args:
        folder: the folder of unpacked shards.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, list[Path]] | None = None  # by the shard's name

    def __reduce__(self) -> tuple[type["Leftovers"], tuple[Path]]:
        """Let the receiving process search anew."""
        return Leftovers, (self._folder,)

    def remove(self, own: Path) -> None:
        """Remove those of a shard, and the first time also those of all others.

        Shards that are being unpacked are locked, and left to those who do it.

        Args:
            own: the shard that this thread has locked.
        """
        found, is_first = self._found, self._found is None
        if found is None:
            found = self._found = self._search()
        for path in found.pop(own.name, ()):
            shutil.rmtree(path, ignore_errors=True)
        for name, paths in list(found.items()) if is_first else ():
            with suppress(Timeout), FileLock(self._folder / f"{name}.lock", timeout=0):
                for path in paths:
                    shutil.rmtree(path, ignore_errors=True)

    def _search(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in list(self._folder.iterdir()):
            match = _LEFTOVER.fullmatch(path.name)
            if match and not path.is_symlink() and path.is_dir() and _is_scratch(path):
                found.setdefault(match[1], []).append(path)
        return found
