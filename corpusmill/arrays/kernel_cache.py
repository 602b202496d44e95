"""The compiled kernels on disk, kept in step with their sources.

Numba compiles a kernel again when its own file changes, but not when a kernel of another file that
it calls does. After an update in place, by pip or by an engine that installs a wheel on a worker,
the old random streams could then live on in the cache.
"""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

_PACKAGE = Path(__file__).parent.parent
_CACHE_DIR = "NUMBA_CACHE_DIR"

# Beside the kernels: which sources they are of.
STAMP = "kernels.sha256"


def place_kernels(package: Path = _PACKAGE) -> None:
    """Name a folder for compiled kernels where they cannot lie beside the sources.

    Numba would keep them in the user's folder of caches, where kernels of other sources are not
    told apart, and refuses to compile at all without such a folder: in a container, say, whose
    user has no home. To be called before the first kernel is defined. A folder that
    NUMBA_CACHE_DIR names is left as it is.

    Args:
        package: folder of the sources.
    """
    if sys.platform != "linux" or _CACHE_DIR in os.environ or _may_write(package / "__pycache__"):
        return
    # Compiled code is loaded from it, so that it must be nobody else's.
    folder = folder_of_caches() / f"corpusmill-kernels-{os.getuid()}-{_digest_sources(package)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fine = folder.stat().st_uid == os.getuid()
    except OSError:
        fine = False
    os.environ[_CACHE_DIR] = str(folder) if fine else mkdtemp(prefix="corpusmill-kernels-")
    if numba := sys.modules.get("numba"):
        numba.config.CACHE_DIR = os.environ[_CACHE_DIR]


def folder_of_caches() -> Path:
    """The user's, or that of temporary files where the user has none."""
    given = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.path.expanduser(given))  # noqa: PTH111  that of Path may raise
    return folder if _may_write(folder) else Path(gettempdir())


def _may_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or it can be made itself."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def drop_stale_kernels(package: Path = _PACKAGE) -> int:
    """Delete the cached kernels if any source of the package is another than when they were made.

    To be called before the first kernel is. Compiling all of them again takes about half a minute;
    the same sources written once more, as when a worker installs the wheel that its image holds,
    cost nothing.

    Args:
        package: folder of the sources.

    Returns:
        How many files were deleted.
    """
    stamp, digest = package / "__pycache__" / STAMP, _digest_sources(package)
    with suppress(OSError):
        if stamp.read_text(encoding="ascii") == digest:
            return 0
    cached = [*package.rglob("__pycache__/*.nbi"), *package.rglob("__pycache__/*.nbc")]
    # Where nothing may be written, nothing is read from the cache either.
    with suppress(OSError):
        for file in cached:
            file.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest, encoding="ascii")
    return len(cached)


def _digest_sources(package: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        digest.update(f"{source.relative_to(package)}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
