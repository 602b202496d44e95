"""What killed processes have left in a folder of unpacked shards."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from corpusmill.reading.cache.room import LAYOUT

_LEFTOVER = re.compile(rf"([0-9a-f]{{64}}-{LAYOUT})\.(?!lock\Z).+")


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
            if match and not path.is_symlink() and path.is_dir():
                found.setdefault(match[1], []).append(path)
        return found
