"""Unpacked shards on this machine's disk, shared by all ranks and workers, and by later runs.

    <sha256 of the shard>-1/            an unpacked shard (`corpusmill.reading.cache.unpacking`)
    <sha256 of the shard>-1.lock        held by the process that unpacks it
    <sha256 of the shard>-1.k2x9fa/     what is being unpacked, or a killed process has left

A shard is unpacked beside its place and renamed, so that whoever finds it finds all of it; a folder
that is removed is renamed first, for the same reason. Whoever has a removed one mapped keeps it.
"""

import os
import re
import shutil
import warnings
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from filelock import FileLock, Timeout

from corpusmill.arrays.kernel_cache import cache_folder
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.reading.cache.unpacking import DamagedError, fetch_parts, map_shard, unpack_shard
from corpusmill.reading.rows import Lists, Values

# Each of them holds a dozen mappings, of which a process may have 65,530. An order that reads
# from more shards than this at the same time maps them again and again, and is far slower.
_MOST_MAPPED = 4096

# Of the files' layout; a cache of another one is not read.
_LAYOUT = 1

_PLACE = re.compile(rf"[0-9a-f]{{64}}-{_LAYOUT}")
_LEFTOVER = re.compile(rf"([0-9a-f]{{64}}-{_LAYOUT})\..+")

# A shard that is unpacked once more was read long ago, or room is short: so many of them in turn,
# with so few looks at shards between two.
_THRASHING, _FEW_LOOKS = 8, 16

# Shards that are unpacked at a time; each takes a few dozen megabytes meanwhile.
_THREADS = 4

# After so long a user should hear what is waited for.
_PATIENCE_SECONDS = 60


def default_cache_folder() -> Path:
    """`corpusmill/shards` in the user's folder of caches (XDG_CACHE_HOME, or ~/.cache)."""
    caches = cache_folder()
    if caches == Path(gettempdir()):
        # Others may write there, too, and what lies in a cache is believed.
        return caches / f"corpusmill-{os.getuid()}" / "shards"
    return caches / "corpusmill" / "shards"


class ShardCache:
    """The shards of one split, each unpacked when it is first read.

    Shards are known by their digests, so that data sets may share a folder, and one that is built
    again is not mistaken for the one before. Unpacking is done by one process at a time.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shards: the manifest's entries of the shards, in order.
        cache_folder: where unpacked shards lie.
        cache_bytes: most that they may take there; the ones read longest ago make room. What is
            read together stays, even if it is more, with a warning. None removes none.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Manifest,
        shards: tuple[Shard, ...],
        cache_folder: Path,
        cache_bytes: int | None = None,
    ) -> None:
        self._folder, self._manifest, self._shards = folder, manifest, shards
        self._cache_folder, self._cache_bytes = cache_folder, cache_bytes
        self._columns = manifest.columns
        self._mapped: OrderedDict[int, dict[str, Values]] = OrderedDict()
        self._pressure = _Pressure()

    def __getstate__(self) -> dict[str, Any]:
        """Without mappings: a process that this is sent to makes its own."""
        return {**self.__dict__, "_mapped": OrderedDict(), "_pressure": _Pressure()}

    def columns(self, shard: int, beside: Collection[int] = ()) -> dict[str, Values]:
        """The columns of a shard, unpacked if they are not yet.

        Args:
            shard: its number.
            beside: the shards that are read together with it, which make no room for it.

        Raises:
            UserError: the shard is damaged or missing, or there is no room for it.
        """
        self._pressure.looks += 1
        found = self._mapped.get(shard)
        if found is None:
            found = self._open(shard, {shard, *beside})
            self._mapped[shard] = found
            self._unmap({shard, *beside})
        else:
            with suppress(KeyError):  # another thread has just unmapped it
                self._mapped.move_to_end(shard)
        return found

    def unpack(self, shards: Collection[int]) -> None:
        """Unpack those of some shards that are read together and are not unpacked yet.

        Several are unpacked at a time; most of the work is done without the GIL.

        Raises:
            UserError: see columns.
        """
        missing = [of for of in shards if of not in self._mapped and not self.place(of).exists()]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(len(missing), _THREADS)) as threads:
                for _ in threads.map(lambda shard: self.columns(shard, shards), missing):
                    pass

    def place(self, shard: int) -> Path:
        """The folder of an unpacked shard."""
        return self._cache_folder / f"{self._shards[shard].sha256}-{_LAYOUT}"

    def _open(self, shard: int, together: set[int]) -> dict[str, Values]:
        place = self.place(shard)
        found = map_shard(place, self._columns, self._shards[shard].rows)
        if found is None:
            found = self._fill(shard, together)
        with suppress(OSError):  # a cache that may only be read
            os.utime(place)  # so that the ones read longest ago can be told
        return found

    def _unmap(self, together: set[int]) -> None:
        """End the mappings used longest ago: a removed shard takes room while it is mapped."""
        while len(self._mapped) > _MOST_MAPPED:
            self._mapped.popitem(last=False)
        if self._cache_bytes is None:
            return
        sizes = {shard: _size_of(columns) for shard, columns in list(self._mapped.items())}
        total = sum(sizes.values())
        for shard, size in sizes.items():
            if total <= self._cache_bytes:
                return
            if shard not in together:
                self._mapped.pop(shard, None)
                total -= size

    def _fill(self, shard: int, together: set[int]) -> dict[str, Values]:
        place = self.place(shard)
        try:
            self._cache_folder.mkdir(parents=True, exist_ok=True)
            with _lock(place):
                found = map_shard(place, self._columns, self._shards[shard].rows)
                if found is None:
                    self._remove_leftovers(place)
                    found = self._unpack(self._shards[shard], place)
                    self._make_room({self.place(of) for of in together})
                    self._watch(shard)
        except OSError as error:
            raise UserError(
                f"cache_folder={self._cache_folder}",
                f"a shard cannot be unpacked there ({error.strerror or error})",
                "Give a folder with room that can be written to, or a limit by cache_bytes",
            ) from error
        return found

    def _unpack(self, shard: Shard, place: Path) -> dict[str, Values]:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=self._cache_folder))
        try:
            copies, columns = scratch / "copies", scratch / "columns"
            copies.mkdir()
            columns.mkdir()
            source = fetch_parts(self._folder, self._manifest, shard.file, copies)
            try:
                unpack_shard(source, self._manifest, shard, columns)
            except ValueError as error:
                raise _mismatch(self._folder, shard.file, error) from error
            # Mapped before it has its name, as others may make room of it then.
            found = map_shard(columns, self._columns, shard.rows)
            if found is None:
                raise OSError(f"{columns} cannot be mapped")
            with suppress(FileNotFoundError):
                place.rename(scratch / "broken")
            columns.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return found

    def _remove_leftovers(self, own: Path) -> None:
        """Remove what killed processes have left: what is being unpacked is locked.

        Args:
            own: the shard that this process has the lock of.
        """
        for path in list(self._cache_folder.iterdir()):
            of = _LEFTOVER.fullmatch(path.name)
            if not of or path.is_symlink() or not path.is_dir():
                continue
            if of[1] == own.name:
                shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(Timeout), FileLock(self._cache_folder / f"{of[1]}.lock", timeout=0):
                shutil.rmtree(path, ignore_errors=True)

    def _make_room(self, kept: set[Path]) -> None:
        if self._cache_bytes is None:
            return
        sizes = dict(_measure_places(self._cache_folder))
        total = sum(size for _, size in sizes.values())
        for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1][0]):
            if total <= self._cache_bytes:
                return
            if path not in kept and _remove(path):
                total -= size
        if total > self._cache_bytes:
            self._pressure.warn(
                f"cache_bytes={self._cache_bytes}: the {len(kept)} shards that are read together "
                f"take {total:,} bytes, which they keep. Give so much, or a smaller window."
            )

    def _watch(self, shard: int) -> None:
        if self._pressure.is_thrashing(shard):
            self._pressure.warn(
                f"cache_bytes={self._cache_bytes}: shards are unpacked again and again, as others "
                "that are read by turns make room for them. Give more, or a smaller window."
            )


class _Pressure:
    """Whether a process unpacks the same shards again and again.

    Attributes:
        looks: how often shards were looked at since the last one was unpacked once more.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._filled: set[int] = set()
        self._in_turn = 0
        self._warned = False

    def is_thrashing(self, shard: int) -> bool:
        """Take note that a shard was unpacked."""
        if shard in self._filled:
            self._in_turn = self._in_turn + 1 if self.looks < _FEW_LOOKS else 0
            self.looks = 0
        self._filled.add(shard)
        return self._in_turn >= _THRASHING

    def warn(self, message: str) -> None:
        """Say it once."""
        if not self._warned:
            warnings.warn(message, stacklevel=2)
        self._warned = True


def _mismatch(folder: Folder, shard: str, error: ValueError) -> DamagedError:
    """What a shard is refused with that has the bytes, and not the rows, that were promised."""
    cause = f"its rows are not what {MANIFEST} says ({error})"
    return DamagedError(f"{folder.url}/{shard}", cause, "Copy or build the data set again")


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Keep other processes from unpacking a shard; say so where one of them takes long."""
    lock = FileLock(f"{place}.lock")
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_PATIENCE_SECONDS)
        except Timeout:
            warnings.warn(
                f"{place}: another process has been unpacking it for {_PATIENCE_SECONDS} s; "
                f"waiting. If there is none, remove {lock.lock_file}.",
                stacklevel=2,
            )
    try:
        yield
    finally:
        lock.release()


def _size_of(columns: Mapping[str, Values]) -> int:
    return sum(
        of.values.nbytes + of.offsets.nbytes if isinstance(of, Lists) else of.nbytes
        for of in columns.values()
    )


def _measure_places(folder: Path) -> Iterator[tuple[Path, tuple[float, int]]]:
    """When each unpacked shard was last opened, and its bytes; other processes remove some."""
    for path in list(folder.iterdir()):
        if _PLACE.fullmatch(path.name):
            with suppress(FileNotFoundError):
                size = sum(file.stat().st_size for file in path.iterdir())
                yield path, (path.stat().st_mtime, size)


def _remove(place: Path) -> bool:
    """Remove an unpacked shard, all at once for those who look for it."""
    try:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=place.parent))
        place.rename(scratch / "removed")
    except OSError:  # another process was faster, or it is not ours
        return False
    shutil.rmtree(scratch, ignore_errors=True)
    return True
