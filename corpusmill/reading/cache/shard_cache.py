"""Unpacked shards on this machine's disk, shared by all ranks and workers, and by later runs.

    <key>-2/            an unpacked piece of a shard (`corpusmill.reading.cache.pieces`)
    <key>-2.lock        locked by the process that unpacks it
    <key>-2.k2x9fa/     files being unpacked, or left by a killed process
    <key>-2.compared    says that a shard of several pieces has the bytes that were written

A key is a digest of the shard's own digest, of the piece's rows, and of all that they were compared
with when they were unpacked: two data sets with the same shard share it only if they agree on what
its rows may be.

A piece is unpacked beside its final place and then renamed, so that other processes only ever see
complete folders. For the same reason a folder is renamed before it is removed. Processes that have
mapped its files can still read them.
"""

import os
import re
import shutil
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from filelock import FileLock, Timeout

from corpusmill.arrays.kernel_cache import cache_folder, make_own
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.shards import read_manifest
from corpusmill.errors import UserError
from corpusmill.knobs import knob
from corpusmill.location import Location
from corpusmill.reading.cache.pieces import (
    CHECKSUMS,
    Piece,
    Pieces,
    cut_shards,
    describe_files,
    note_comparison,
    were_compared,
)
from corpusmill.reading.cache.unpacking import (
    DamagedError,
    always,
    batch_rows,
    damaged,
    describe_checks,
    fetch_parts,
    load_piece,
    map_piece,
    unpack_piece,
    warn_if_slow,
)
from corpusmill.reading.rows import Values

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
                with suppress(OSError):  # another process may remove it, or may alone enter it
                    if entry.name not in sizes:
                        files = Path(entry.path).iterdir()
                        sizes[entry.name] = sum(file.stat().st_size for file in files)
                    yield Path(entry.path), (entry.stat().st_mtime, sizes[entry.name])


@contextmanager
def _scratch_folder(place: Path) -> Iterator[Path]:
    """Make a folder beside a place, and remove it with what it then holds."""
    scratch = Path(mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def remove_place(place: Path) -> bool:
    """Remove an unpacked shard, which disappears at once for other processes.

    A folder without the checksums that are written with a shard is not ours, whatever its name.
    """
    with suppress(OSError):  # another process was faster, or it belongs to another user
        if (place / CHECKSUMS).is_file():
            with _scratch_folder(place) as scratch:
                place.rename(scratch / "removed")
            return True
    return False


_LEFTOVER = re.compile(rf"([0-9a-f]{{64}}-{LAYOUT})\.(?!lock\Z).+")
# What this package puts into its scratch folders.
_SCRATCH = frozenset({"columns", "copies", "broken", "removed"})


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

    def remove(self, locked_shard: Path) -> None:
        """Remove those of a shard, and the first time also those of all others.

        Shards that are being unpacked are locked, and left to those who do it.

        Args:
            locked_shard: the shard that this thread has locked.
        """
        leftovers, is_first = self._found, self._found is None
        if leftovers is None:
            leftovers = self._found = self._search()
        for path in leftovers.pop(locked_shard.name, ()):
            shutil.rmtree(path, ignore_errors=True)
        for name, paths in list(leftovers.items()) if is_first else ():
            with suppress(Timeout), FileLock(self._folder / f"{name}.lock", timeout=0):
                for path in paths:
                    shutil.rmtree(path, ignore_errors=True)

    def _search(self) -> dict[str, list[Path]]:
        leftovers: dict[str, list[Path]] = {}
        for path in list(self._folder.iterdir()):
            match = _LEFTOVER.fullmatch(path.name)
            if match and not path.is_symlink():
                with suppress(OSError):  # another process has finished with it, or alone enters it
                    if {inner.name for inner in path.iterdir()} <= _SCRATCH:
                        leftovers.setdefault(match[1], []).append(path)
        return leftovers


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
        user_folder = caches / f"corpusmill-{os.getuid()}"
        if not make_own(user_folder):
            raise UserError(
                str(user_folder),
                "the folder for unpacked shards is not this user's own",
                "Give a cache_folder of your own, or set XDG_CACHE_HOME",
            )
        return user_folder / "shards"
    return caches / "corpusmill" / "shards"


MOST_MAPPED = knob("most_mapped", 4096, test=3)
"""The pieces that are mapped at a time, of 65,530 mappings; each takes a dozen."""


class ShardCache:
    """The shards of one split, each piece of which is unpacked when it is first read.

    Data sets can share a folder, and one that is built again is not mistaken for the earlier one.
    Only one process at a time unpacks a piece.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        pieces: the pieces of its shards, in order.
        cache_folder: the folder of unpacked pieces.
        cache_bytes: the most bytes that they may take there; those read longest ago are removed.
            Pieces that are read together stay even if they take more, with a warning. None removes
            nothing.
        leftovers: of the folder, to be removed once by all caches that share them; None for this
            cache's own.

    Attributes:
        unpackings: how often this process has unpacked a piece.
    """

    def __init__(
        self,
        folder: Location,
        manifest: Manifest,
        pieces: Pieces | Sequence[Piece],
        cache_folder: Path,
        cache_bytes: int | None = None,
        leftovers: Leftovers | None = None,
    ) -> None:
        self._folder, self._manifest, self._pieces = folder, manifest, pieces
        self._cache_folder, self._cache_bytes = cache_folder, cache_bytes
        self._leftovers = leftovers or Leftovers(cache_folder)
        self._columns = manifest.columns
        self._expected = describe_checks(manifest, pieces[0].shard if pieces else None)
        self._mapped: OrderedDict[int, dict[str, Values]] = OrderedDict()
        self._pressure = Pressure()
        self._sizes: dict[str, int] = {}
        self.unpackings = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the mappings: the receiving process makes its own."""
        return {**self.__dict__, "_mapped": OrderedDict(), "_pressure": Pressure()}

    def columns(self, piece: int, together: Collection[int] = ()) -> dict[str, Values]:
        """Return the columns of a piece, and unpack it if needed.

        Args:
            piece: its number.
            together: the pieces that are read together with it, and are not removed for it.

        Raises:
            UserError: the shard is damaged or missing, or there is no room for the piece.
        """
        self._pressure.lookups += 1
        columns = self._mapped.get(piece)
        if columns is None:
            columns = self._open(piece, {piece, *together})
            self._mapped[piece] = columns
            self._unmap({piece, *together})
        else:
            with suppress(KeyError):  # another thread has just unmapped it
                self._mapped.move_to_end(piece)
        return columns

    @property
    def is_unlimited(self) -> bool:
        """Whether the unpacked pieces may take any room."""
        return self._cache_bytes is None

    def is_unpacked(self, piece: int) -> bool:
        """Return whether a piece need not be unpacked, as far as its folder tells."""
        is_tiny = self._pieces[piece].is_tiny
        return is_tiny or piece in self._mapped or self.place(piece).exists()

    def unpack_ahead(
        self, piece: int, together: Collection[int], is_wanted: Callable[[], bool]
    ) -> None:
        """Unpack a piece before it is needed, unless another thread or process is at it.

        Args:
            piece: its number.
            together: the pieces that are read meanwhile; there must be room for all.
            is_wanted: asked again and again, whether to go on.

        Raises:
            StoppedError: it is not wanted any longer.
            UserError: the shard is damaged or missing, or there is no room for the piece.
            Timeout: another one is unpacking it.
        """
        if not self.is_unpacked(piece) and self._has_room({piece, *together}):
            self._fill(piece, {piece, *together}, is_wanted)

    def _has_room(self, pieces: Collection[int]) -> bool:
        """Whether pieces fit into the cache together, by the sizes of those that are mapped."""
        if self._cache_bytes is None:
            return True
        mapped = list(self._mapped.items())
        tokens = sum(self._pieces[piece].tokens for piece, _ in mapped)
        size = sum(values.nbytes for _, columns in mapped for values in columns.values())
        wanted = sum(self._pieces[piece].tokens for piece in pieces)
        return bool(tokens) and size * wanted <= self._cache_bytes * tokens

    def place(self, piece: int) -> Path:
        """Return the folder of an unpacked piece."""
        shard, begin, end, _ = self._pieces[piece]
        rows = "" if self._pieces[piece].is_whole else f"{begin} {end} "
        return self._find_place(f"{shard.sha256} {rows}{self._expected}")

    def _find_place(self, described: str) -> Path:
        return self._cache_folder / f"{sha256(described.encode()).hexdigest()}-{LAYOUT}"

    def _open(self, piece: int, together: set[int]) -> dict[str, Values]:
        rows = self._pieces[piece]
        if rows.is_tiny:
            with self._named(rows):
                fetch_parts(self._folder, self._manifest, rows.shard.file)
                return load_piece(self._folder, self._manifest, rows)
        place = self.place(piece)
        columns = map_piece(place, self._columns, rows.rows) or self._fill(piece, together)
        with suppress(OSError):  # the cache may be read-only
            os.utime(place)  # shows which pieces were read longest ago
        return columns

    def _unmap(self, together: set[int]) -> None:
        """Unmap the pieces used longest ago: a removed one takes room while it is mapped."""
        while len(self._mapped) > MOST_MAPPED:
            self._mapped.popitem(last=False)
        if self._cache_bytes is None:
            return
        sizes = {
            piece: sum(values.nbytes for values in columns.values())
            for piece, columns in list(self._mapped.items())
        }
        total = sum(sizes.values())
        for piece, size in sizes.items():
            if total <= self._cache_bytes:
                return
            if piece not in together:
                self._mapped.pop(piece, None)
                total -= size

    def _fill(
        self, piece: int, together: set[int], is_wanted: Callable[[], bool] | None = None
    ) -> dict[str, Values]:
        try:
            # Somebody may be removing the folder at this very moment.
            for _ in range(2):
                with suppress(FileNotFoundError, FileExistsError):
                    return self._fill_once(piece, together, is_wanted)
            return self._fill_once(piece, together, is_wanted)
        except OSError as error:
            raise UserError(
                f"cache_folder={self._cache_folder}",
                f"a shard cannot be unpacked there ({error.strerror or error})",
                "Give a folder with room that can be written to, or limit cache_bytes",
            ) from error

    def _fill_once(
        self, piece: int, together: set[int], is_wanted: Callable[[], bool] | None
    ) -> dict[str, Values]:
        place = self.place(piece)
        self._cache_folder.mkdir(parents=True, exist_ok=True)
        # What is only unpacked ahead waits for nobody.
        with _lock(place, is_patient=is_wanted is None):
            columns = map_piece(place, self._columns, self._pieces[piece].rows)
            if columns is None:
                self._leftovers.remove(place)
                columns = self._unpack(self._pieces[piece], place, is_wanted)
                self.unpackings += 1
                self._make_room({self.place(other) for other in together})
                if self._pressure.is_thrashing(piece):
                    self._pressure.warn(
                        f"cache_bytes={self._cache_bytes}: shards are unpacked again and "
                        "again, as too few fit. Give more, or a smaller window."
                    )
        return columns

    def _unpack(
        self, piece: Piece, place: Path, is_wanted: Callable[[], bool] | None
    ) -> dict[str, Values]:
        with _scratch_folder(place) as scratch:
            target = scratch / "columns"
            target.mkdir()
            # For what is unpacked ahead nobody waits.
            wanted = is_wanted or warn_if_slow(piece, batch_rows(piece.shard))
            with self._named(piece):
                source = self._fetch(piece, scratch / "copies", is_wanted)
                unpack_piece(source, self._manifest, piece, target, wanted)
            # Map it before the renaming, after which other processes may remove it.
            columns = map_piece(target, self._columns, piece.rows)
            if columns is None:
                raise FileNotFoundError(f"{target} cannot be mapped")
            with suppress(FileNotFoundError):
                place.rename(scratch / "broken")
            target.rename(place)
        return columns

    @contextmanager
    def _named(self, piece: Piece) -> Iterator[None]:
        """Name the shard whose rows are damaged, or that is replaced while it is read."""
        before = self._describe(piece.shard)
        try:
            yield
        except DamagedError:
            self._refuse_changed(piece.shard)
            raise
        except ValueError as error:
            self._refuse_changed(piece.shard)
            name = f"{self._folder}/{piece.shard.file}"
            cause = f"its rows are not what {MANIFEST} says ({error})"
            raise DamagedError(name, cause, "Copy or build the data set again") from error
        # Its bytes were compared before its rows were read.
        if self._describe(piece.shard) != before:
            self._refuse_changed(piece.shard)
            raise damaged(self._folder, piece.shard.file, "it was replaced while it was read")

    def _refuse_changed(self, shard: Shard) -> None:
        """Refuse a shard of which rows were removed, or that was replaced, since it was opened.

        Raises:
            UserError: the data set has another one now.
        """
        try:
            now = read_manifest(self._folder).entries
        except UserError:
            return
        known = self._manifest.entries
        if any(now.get(name) != known[name] for name in self._manifest.parts(shard.file)):
            cause = "it was changed after it was opened here"
            raise UserError(str(self._folder), cause, "Open it again")

    def _describe(self, shard: Shard) -> Any:
        """Return what changes when a file of a shard on this machine is written or replaced."""
        local = self._folder.local_path("")
        with suppress(FileNotFoundError):  # which reading it will say
            return local and describe_files(local, self._manifest.parts(shard.file))
        return None

    def _fetch(self, piece: Piece, copies: Path, is_wanted: Callable[[], bool] | None) -> Location:
        """Compare the bytes of a piece's shard with the manifest; return the folder to read."""
        shard, wanted = piece.shard.file, is_wanted or always
        fetched = (self._folder, self._manifest, shard)
        if self._folder.local_path(shard) is None:
            copies.mkdir()
        local = self._folder.local_path("")
        if piece.is_whole or local is None:
            return fetch_parts(*fetched, copies, wanted)
        # All pieces are read from the same bytes, which need not be compared for each.
        note = self._find_place(piece.shard.sha256).with_suffix(".compared")
        with _lock(note.with_suffix(""), is_patient=is_wanted is None):
            names = self._manifest.parts(shard)
            if not were_compared(note, local, names):
                fetch_parts(*fetched, None, wanted)
                note_comparison(note, local, names)
        return self._folder

    def _make_room(self, needed: set[Path]) -> None:
        if self._cache_bytes is None:
            return
        sizes = dict(measure_places(self._cache_folder, self._sizes))
        total = sum(size for _, size in sizes.values())
        for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1][0]):
            if total <= self._cache_bytes:
                return
            if path not in needed and remove_place(path):
                total -= size
        if total > self._cache_bytes:
            self._pressure.warn(
                f"cache_bytes={self._cache_bytes}: the {len(needed)} pieces that are read together "
                f"take {total:,} bytes, and stay. Give as much, or a smaller window."
            )


def remove_unpacked(
    folder: Location,
    manifest: Manifest,
    shards: Sequence[Shard],
    cache_folder: Path,
) -> int:
    """Remove what readers have unpacked of some shards, which are no longer read.

    Args:
        folder: the folder of the data set.
        manifest: its manifest, which lists these shards.
        shards: of one split.
        cache_folder: the folder of unpacked pieces.

    Returns:
        The number of pieces that were there.
    """
    # From another place than this one, each was unpacked whole.
    whole = [Piece(shard, 0, shard.rows) for shard in shards]
    pieces = (*cut_shards(folder, manifest, shards), *whole)
    cache = ShardCache(folder, manifest, pieces, cache_folder)
    return sum(map(remove_place, {cache.place(number) for number in range(len(pieces))}))


# A piece of a shard by its number, and what unpacks it.
Stored = tuple[ShardCache, int]


@contextmanager
def _lock(place: Path, is_patient: bool = True) -> Iterator[None]:
    """Keep other processes from what this one does for a place; warn if one takes long.

    Raises:
        Timeout: another process is at it, and this one has no patience.
    """
    lock = FileLock(f"{place}.lock")
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_PATIENCE_SECONDS if is_patient else 0)
        except Timeout:
            if not is_patient:
                raise
            warnings.warn(
                f"{place}: another process has been unpacking it for {_PATIENCE_SECONDS} s; "
                f"waiting. If there is no such process, remove {lock.lock_file}.",
                stacklevel=2,
            )
    try:
        yield
    finally:
        lock.release()


# Shards that are unpacked at a time; each takes a few dozen megabytes of memory.
THREADS = 4


def unpack_together(stored: Collection[Stored]) -> None:
    """Unpack shards that are read together, several at a time.

    Most of the work is done without the GIL. A single shard is left to `ShardCache.columns`.

    Raises:
        UserError: a shard is damaged or missing, or there is no room for it.
    """
    missing = [(cache, shard) for cache, shard in stored if not cache.is_unpacked(shard)]
    if len(missing) < 2:
        return
    together: dict[ShardCache, list[int]] = {}
    for cache, shard in stored:
        together.setdefault(cache, []).append(shard)
    with ThreadPoolExecutor(min(len(missing), THREADS)) as threads:
        for _ in threads.map(lambda pair: pair[0].columns(pair[1], together[pair[0]]), missing):
            pass
