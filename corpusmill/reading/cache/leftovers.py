"""What killed processes have left in a folder of unpacked shards."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from corpusmill.reading.cache.room import LAYOUT

_LEFTOVER = re.compile(rf"([0-9a-f]{{64}}-{LAYOUT})\.(?!lock\Z).+")


class Leftovers:
    """Removes leftovers once, as listing 100,000 shards for each of them would take hours.

    Args:
        folder: the folder of unpacked shards.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._are_removed = folder, False

    def remove(self, own: Path) -> None:
        """Remove leftovers, unless it was done before; shards that are being unpacked are locked.

        Args:
            own: the shard that this process has locked.
        """
        if self._are_removed:
            return
        self._are_removed = True
        for path in list(self._folder.iterdir()):
            match = _LEFTOVER.fullmatch(path.name)
            if not match or path.is_symlink() or not path.is_dir():
                continue
            if match[1] == own.name:
                shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(Timeout), FileLock(self._folder / f"{match[1]}.lock", timeout=0):
                shutil.rmtree(path, ignore_errors=True)
