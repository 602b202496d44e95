"""Unpacked shards on this machine's disk, shared by all ranks and workers, and by later runs."""

import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from filelock import FileLock

from corpusmill.faults import UserError
from corpusmill.kernel_cache import folder_of_caches
from corpusmill.manifest import columns_of
from corpusmill.reading.rows import Values
from corpusmill.reading.unpacking import damaged, fetch_parts, map_shard, unpack_shard
from corpusmill.storage import Folder

# Each of them holds a dozen mappings, of which a process may have 65,530. An order that reads
# from more shards than this at the same time maps them again and again, and is far slower.
_MOST_MAPPED = 4096

# Of the files' layout; a cache of another one is not read.
_LAYOUT = 1


def default_cache_folder() -> Path:
    """`corpusmill/shards` in the user's folder of caches (XDG_CACHE_HOME, or ~/.cache)."""
    return folder_of_caches() / "corpusmill" / "shards"


class ShardCache:
    """The shards of one split, each unpacked when it is first read.

    Shards are known by their digests, so that data sets may share a folder, and one that is built
    again is not mistaken for the one before. Unpacking is done by one process at a time.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shards: the manifest's entries of the shards, in order.
        cache_folder: where unpacked shards lie.
        cache_bytes: most that they may take there; the ones read longest ago make room. None
            removes none.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Mapping[str, Any],
        shards: tuple[Mapping[str, Any], ...],
        cache_folder: Path,
        cache_bytes: int | None = None,
    ) -> None:
        self._folder, self._manifest, self._shards = folder, manifest, shards
        self._cache_folder, self._cache_bytes = cache_folder, cache_bytes
        self._columns = columns_of(manifest)
        self._mapped: OrderedDict[int, dict[str, Values]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """Without mappings: a process that this is sent to makes its own."""
        return {**self.__dict__, "_mapped": OrderedDict()}

    def columns(self, shard: int) -> dict[str, Values]:
        """The columns of a shard, unpacked if they are not yet.

        Raises:
            UserError: the shard is damaged or missing, or there is no room for it.
        """
        found = self._mapped.get(shard)
        if found is None:
            found = self._open(shard)
            self._mapped[shard] = found
            while len(self._mapped) > _MOST_MAPPED:
                self._mapped.popitem(last=False)
        else:
            self._mapped.move_to_end(shard)
        return found

    def place(self, shard: int) -> Path:
        """The folder of an unpacked shard."""
        return self._cache_folder / f"{self._shards[shard]['sha256']}-{_LAYOUT}"

    def _open(self, shard: int) -> dict[str, Values]:
        place, rows = self.place(shard), self._shards[shard]["rows"]
        found = map_shard(place, self._columns, rows)
        if found is None:
            self._fill(shard)
            found = map_shard(place, self._columns, rows)
        if found is None:
            raise damaged(self._folder, self._shards[shard]["file"], f"it has not {rows} rows")
        os.utime(place)  # so that the ones read longest ago can be told
        return found

    def _fill(self, shard: int) -> None:
        place = self.place(shard)
        try:
            self._cache_folder.mkdir(parents=True, exist_ok=True)
            with FileLock(place.with_suffix(".lock")):
                if map_shard(place, self._columns, self._shards[shard]["rows"]) is None:
                    self._unpack(self._shards[shard]["file"], place)
                    self._make_room(place)
        except OSError as error:
            raise UserError(
                f"cache_folder={self._cache_folder}",
                f"a shard cannot be unpacked there ({error.strerror or error})",
                "Give a folder with room that can be written to, or a limit by cache_bytes",
            ) from error

    def _unpack(self, shard: str, place: Path) -> None:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=self._cache_folder))
        try:
            copies, columns = scratch / "copies", scratch / "columns"
            copies.mkdir()
            columns.mkdir()
            source = fetch_parts(self._folder, self._manifest, shard, copies)
            try:
                unpack_shard(source, self._manifest, shard, columns)
            except ValueError as error:
                raise damaged(self._folder, shard, f"it cannot be read ({error})") from error
            shutil.rmtree(place, ignore_errors=True)
            columns.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _make_room(self, newest: Path) -> None:
        if self._cache_bytes is None:
            return
        places = [
            path for path in self._cache_folder.iterdir() if path.name.endswith(f"-{_LAYOUT}")
        ]
        places.sort(key=lambda path: path.stat().st_mtime if path != newest else time.time())
        sizes = [sum(file.stat().st_size for file in path.iterdir()) for path in places]
        total = sum(sizes)
        for path, size in zip(places, sizes, strict=True):
            if total <= self._cache_bytes or path == newest:
                return
            # Who has it mapped keeps it until the mapping ends.
            shutil.rmtree(path, ignore_errors=True)
            total -= size
