"""The room that unpacked shards take in a folder, and whether it is too small for a reader."""

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

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
    """Remove an unpacked shard, which disappears at once for other processes."""
    try:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=place.parent))
        place.rename(scratch / "removed")
    except OSError:  # another process was faster, or it belongs to another user
        return False
    shutil.rmtree(scratch, ignore_errors=True)
    return True
