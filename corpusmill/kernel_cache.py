"""The compiled kernels on disk, kept in step with their sources.

Numba compiles a kernel again when its own file changes, but not when a kernel of another file that
it calls does. After an update in place the old random streams could then live on in the cache.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir, mkdtemp

_PACKAGE = Path(__file__).parent
_CACHE_DIR = "NUMBA_CACHE_DIR"


def place_kernels() -> None:
    """Name a folder for compiled kernels where Numba would find none.

    It keeps them beside the sources or in the user's folder of caches, and refuses to compile at
    all where it may write to neither: in a container, say, of a user without a home. To be called
    before the first kernel is defined. A folder that NUMBA_CACHE_DIR names is left as it is.
    """
    if sys.platform != "linux" or _CACHE_DIR in os.environ:
        return
    if any(map(_may_write, _places_of_numba())):
        return
    # Compiled code is loaded from it, so that it must be nobody else's.
    folder = Path(gettempdir(), f"corpusmill-kernels-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fine = folder.stat().st_uid == os.getuid()
    except OSError:
        fine = False
    os.environ[_CACHE_DIR] = str(folder) if fine else mkdtemp(prefix="corpusmill-kernels-")
    if numba := sys.modules.get("numba"):
        numba.config.CACHE_DIR = os.environ[_CACHE_DIR]


def _places_of_numba() -> Iterator[Path]:
    yield _PACKAGE / "__pycache__"
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    yield Path(os.path.expanduser(caches), "numba")  # noqa: PTH111  that of Path may raise


def _may_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or it can be made itself."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def drop_stale_kernels(package: Path = _PACKAGE) -> int:
    """Delete the cached kernels if any source of the package is newer than the oldest of them.

    To be called before the first kernel is. Compiling all of them again takes about half a minute.

    Args:
        package: folder of the sources.

    Returns:
        How many files were deleted.
    """
    cached = [*package.rglob("__pycache__/*.nbi"), *package.rglob("__pycache__/*.nbc")]
    newest = max(source.stat().st_mtime for source in package.rglob("*.py"))
    if not cached or newest <= min(map(_time_of, cached)):
        return 0
    for file in cached:
        file.unlink(missing_ok=True)
    return len(cached)


def _time_of(file: Path) -> float:
    """When a file was written; never, where another process has deleted it meanwhile."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
