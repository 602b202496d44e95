"""Unpacked shards on this machine's disk, shared by all ranks and workers, and by later runs.

    <key>-2/            an unpacked shard (`corpusmill.reading.cache.unpacking`)
    <key>-2.lock        locked by the process that unpacks it
    <key>-2.k2x9fa/     files being unpacked, or left by a killed process

A key is a digest of the shard's own digest and of all that its rows were compared with when it was
unpacked: two data sets with the same shard share it only if they agree on what its rows may be.

A shard is unpacked beside its final place and then renamed, so that other processes only ever see
complete folders. For the same reason a folder is renamed before it is removed. Processes that have
mapped its files can still read them.
"""

import os
import shutil
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from filelock import FileLock, Timeout

from corpusmill.arrays.kernel_cache import cache_folder, make_own
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.reading.cache.leftovers import Leftovers
from corpusmill.reading.cache.notice import Notice
from corpusmill.reading.cache.room import LAYOUT, Pressure, measure_places, remove_place
from corpusmill.reading.cache.unpacking import (
    DamagedError,
    always,
    batch_rows,
    describe_checks,
    fetch_parts,
    map_shard,
    unpack_shard,
)
from corpusmill.reading.rows import Values

# A shard has a dozen mappings, and a process may have 65,530. An order that reads from more shards
# than this at a time maps them again and again, and is far slower.
_MOST_MAPPED = 4096

# Seconds to wait for another process before warning the user.
_PATIENCE_SECONDS = 60


def default_cache_folder() -> Path:
    """Return `corpusmill/shards` in the user's cache folder (XDG_CACHE_HOME, or ~/.cache).

    Raises:
        UserError: there is none, and somebody else has made the folder in its place.
    """
    caches = cache_folder()
    if caches == Path(gettempdir()):
        # Other users can write there, and the contents of a cache are trusted.
        own = caches / f"corpusmill-{os.getuid()}"
        if not make_own(own):
            raise UserError(
                str(own),
                "the folder for unpacked shards is not this user's own",
                "Give a cache_folder of your own, or set XDG_CACHE_HOME",
            )
        return own / "shards"
    return caches / "corpusmill" / "shards"


class ShardCache:
    """The shards of one split, each unpacked when it is first read.

    Data sets can share a folder, and one that is built again is not mistaken for the earlier one.
    Only one process at a time unpacks a shard.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        shards: the manifest's entries for the shards, in order.
        cache_folder: the folder of unpacked shards.
        cache_bytes: the most bytes that they may take there; those read longest ago are removed.
            Shards that are read together stay even if they take more, with a warning. None removes
            nothing.
        leftovers: of the folder, to be removed once by all caches that share them; None for this
            cache's own.

    Attributes:
        unpackings: how often this process has unpacked a shard.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Manifest,
        shards: tuple[Shard, ...],
        cache_folder: Path,
        cache_bytes: int | None = None,
        leftovers: Leftovers | None = None,
    ) -> None:
        self._folder, self._manifest, self._shards = folder, manifest, shards
        self._cache_folder, self._cache_bytes = cache_folder, cache_bytes
        self._leftovers = leftovers or Leftovers(cache_folder)
        self._columns = manifest.columns
        self._expected = describe_checks(manifest, shards)
        self._mapped: OrderedDict[int, dict[str, Values]] = OrderedDict()
        self._pressure = Pressure()
        self.unpackings = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the mappings: the receiving process makes its own."""
        return {**self.__dict__, "_mapped": OrderedDict(), "_pressure": Pressure()}

    def columns(self, shard: int, together: Collection[int] = ()) -> dict[str, Values]:
        """Return the columns of a shard, and unpack it if needed.

        Args:
            shard: the number of the shard.
            together: the shards that are read together with it, and are not removed for it.

        Raises:
            UserError: the shard is damaged or missing, or there is no room for it.
        """
        self._pressure.lookups += 1
        columns = self._mapped.get(shard)
        if columns is None:
            columns = self._open(shard, {shard, *together})
            self._mapped[shard] = columns
            self._unmap({shard, *together})
        else:
            with suppress(KeyError):  # another thread has just unmapped it
                self._mapped.move_to_end(shard)
        return columns

    @property
    def is_unlimited(self) -> bool:
        """Whether the unpacked shards may take any room."""
        return self._cache_bytes is None

    def is_unpacked(self, shard: int) -> bool:
        """Return whether a shard has been unpacked, as far as its folder tells."""
        return shard in self._mapped or self.place(shard).exists()

    def unpack_ahead(
        self, shard: int, together: Collection[int], is_wanted: Callable[[], bool]
    ) -> None:
        """Unpack a shard before it is needed, unless another thread or process is at it.

        Args:
            shard: the number of the shard.
            together: the shards that are read meanwhile; there must be room for all.
            is_wanted: asked again and again, whether to go on.

        Raises:
            StoppedError: it is not wanted any longer.
            UserError: the shard is damaged or missing, or there is no room for it.
            Timeout: another one is unpacking it.
        """
        if not self.is_unpacked(shard) and self._has_room({shard, *together}):
            self._fill(shard, {shard, *together}, is_wanted)

    def _has_room(self, shards: Collection[int]) -> bool:
        """Whether shards fit into the cache together, by the sizes of those that are mapped."""
        if self._cache_bytes is None:
            return True
        mapped = list(self._mapped.items())
        tokens = sum(self._shards[shard].tokens for shard, _ in mapped)
        size = sum(values.nbytes for _, columns in mapped for values in columns.values())
        wanted = sum(self._shards[shard].tokens for shard in shards)
        return bool(tokens) and size * wanted <= self._cache_bytes * tokens

    def place(self, shard: int) -> Path:
        """Return the folder of an unpacked shard."""
        key = sha256(f"{self._shards[shard].sha256} {self._expected}".encode()).hexdigest()
        return self._cache_folder / f"{key}-{LAYOUT}"

    def _open(self, shard: int, together: set[int]) -> dict[str, Values]:
        place = self.place(shard)
        columns = map_shard(place, self._columns, self._shards[shard].rows)
        if columns is None:
            columns = self._fill(shard, together)
        with suppress(OSError):  # the cache may be read-only
            os.utime(place)  # shows which shards were read longest ago
        return columns

    def _unmap(self, together: set[int]) -> None:
        """Unmap the shards used longest ago: a removed shard takes room while it is mapped."""
        while len(self._mapped) > _MOST_MAPPED:
            self._mapped.popitem(last=False)
        if self._cache_bytes is None:
            return
        sizes = {
            shard: sum(values.nbytes for values in columns.values())
            for shard, columns in list(self._mapped.items())
        }
        total = sum(sizes.values())
        for shard, size in sizes.items():
            if total <= self._cache_bytes:
                return
            if shard not in together:
                self._mapped.pop(shard, None)
                total -= size

    def _fill(
        self, shard: int, together: set[int], is_wanted: Callable[[], bool] | None = None
    ) -> dict[str, Values]:
        place = self.place(shard)
        try:
            self._cache_folder.mkdir(parents=True, exist_ok=True)
            # What is only unpacked ahead waits for nobody.
            with FileLock(f"{place}.lock", timeout=0) if is_wanted else _lock(place):
                columns = map_shard(place, self._columns, self._shards[shard].rows)
                if columns is None:
                    self._leftovers.remove(place)
                    columns = self._unpack(self._shards[shard], place, is_wanted)
                    self.unpackings += 1
                    self._make_room({self.place(other) for other in together})
                    if self._pressure.is_thrashing(shard):
                        self._pressure.warn(
                            f"cache_bytes={self._cache_bytes}: shards are unpacked again and "
                            "again, as too few fit. Give more, or a smaller window."
                        )
        except OSError as error:
            raise UserError(
                f"cache_folder={self._cache_folder}",
                f"a shard cannot be unpacked there ({error.strerror or error})",
                "Give a folder with room that can be written to, or limit cache_bytes",
            ) from error
        return columns

    def _unpack(
        self, shard: Shard, place: Path, is_wanted: Callable[[], bool] | None
    ) -> dict[str, Values]:
        scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=self._cache_folder))
        try:
            copies, target = scratch / "copies", scratch / "columns"
            if self._folder.local_path(shard.file) is None:
                copies.mkdir()
            target.mkdir()
            with Notice(shard.file, shard.rows, batch_rows(shard)) as notice:
                source = fetch_parts(
                    self._folder, self._manifest, shard.file, copies, is_wanted or always
                )
                # For what is unpacked ahead nobody waits.
                wanted = is_wanted or notice.count_batch
                unpack_shard(source, self._manifest, shard, target, wanted)
            # Map it before the renaming, after which other processes may remove it.
            columns = map_shard(target, self._columns, shard.rows)
            if columns is None:
                raise OSError(f"{target} cannot be mapped")
            with suppress(FileNotFoundError):
                place.rename(scratch / "broken")
            target.rename(place)
        except ValueError as error:
            name = f"{self._folder.url}/{shard.file}"
            cause = f"its rows are not what {MANIFEST} says ({error})"
            raise DamagedError(name, cause, "Copy or build the data set again") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return columns

    def _make_room(self, kept: set[Path]) -> None:
        if self._cache_bytes is None:
            return
        sizes = dict(measure_places(self._cache_folder))
        total = sum(size for _, size in sizes.values())
        for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1][0]):
            if total <= self._cache_bytes:
                return
            if path not in kept and remove_place(path):
                total -= size
        if total > self._cache_bytes:
            self._pressure.warn(
                f"cache_bytes={self._cache_bytes}: the {len(kept)} shards that are read together "
                f"take {total:,} bytes, and stay. Give as much, or a smaller window."
            )


# A shard by its number, and what unpacks it.
Stored = tuple[ShardCache, int]


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Keep other processes from unpacking a shard; warn if one of them takes long."""
    lock = FileLock(f"{place}.lock")
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_PATIENCE_SECONDS)
        except Timeout:
            warnings.warn(
                f"{place}: another process has been unpacking it for {_PATIENCE_SECONDS} s; "
                f"waiting. If there is no such process, remove {lock.lock_file}.",
                stacklevel=2,
            )
    try:
        yield
    finally:
        lock.release()
