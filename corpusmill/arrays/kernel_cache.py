"""Compiled kernels on disk, in one folder for each state of the library's sources.

Numba compiles a cached kernel again when the kernel's own file changes, but not when another file
changes whose kernels it calls. After an update in place, by pip or by an engine that installs a
wheel on a worker, old random streams could live on in the cache. Therefore the folder's name holds
a digest of all sources: kernels of other sources are never found.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from threading import Lock
from typing import Any

import numba

_PACKAGE = Path(__file__).parent.parent

# Folders for other sources are removed if they are not among the ones used last, and unused for a
# day: a process that began with them may still run.
_KEPT_FOLDERS, _SECONDS_KEPT = 8, 24 * 60 * 60

_LOCK = Lock()
_USER = os.getuid() if hasattr(os, "getuid") else 0  # as Windows has it


def njit(function: Callable[..., Any] | None = None, *, inline: str = "never") -> Any:
    """Compile a kernel when it is first called, as `numba.njit`, or load it from `kernel_folder`.

    A kernel runs without Python's global lock.

    Args:
        function: the kernel.
        inline: "always" copies the kernel into the kernels that call it.
    """
    if function is None:
        return partial(njit, inline=inline)
    # Numba chooses a kernel's folder here. Functions of other libraries keep their own.
    with _LOCK:
        previous, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(kernel_folder())
        try:
            return numba.njit(cache=True, nogil=True, inline=inline)(function)
        finally:
            numba.config.CACHE_DIR = previous


@cache
def kernel_folder(package: Path = _PACKAGE) -> Path:
    """Make the folder of the compiled kernels, and remove those for sources that are long unused.

    It lies in the folder that NUMBA_CACHE_DIR names, or else in the user's cache folder. Nothing is
    written to the library's own folder.

    Args:
        package: the folder of the sources.
    """
    name = f"corpusmill-kernels-{_USER}-"
    digest = _digest_sources(package)
    # Called one by one: there may be no folder for temporary files, nor any need of one.
    for find in (lambda: numba.config.CACHE_DIR, cache_folder, gettempdir):
        parent = find()
        if not parent:
            continue
        folder = Path(parent, name + digest)
        is_new = not folder.exists()
        if make_own(folder):
            if is_new:
                _remove_unused(folder.parent, name)
            return folder
    # The processes that this one starts use it, too.
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = mkdtemp(prefix=name)
    return Path(numba.config.CACHE_DIR)


def cache_folder() -> Path:
    """Return the user's cache folder, or the one for temporary files if the user has none."""
    named = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.path.expanduser(named))  # noqa: PTH111  Path.expanduser may raise
    return folder if _is_writable(folder) else Path(gettempdir())


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or the folder itself can be made."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def make_own(folder: Path) -> bool:
    """Make a folder and note its use; False if others own it or can write to it.

    It is for files that are trusted, such as code.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_usable = _is_own(folder) and os.access(folder, os.W_OK)
        if is_usable:
            os.utime(folder)
    except OSError:
        return False
    return is_usable


def _is_own(folder: Path) -> bool:
    status = folder.lstat()
    is_private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == _USER and is_private


def _remove_unused(parent: Path, name: str) -> None:
    with suppress(OSError):  # another process may be removing them
        own = [(folder.stat().st_mtime, folder) for folder in parent.glob(f"{name}*")]
        for used, folder in sorted(own, reverse=True)[_KEPT_FOLDERS:]:
            if time.time() - used > _SECONDS_KEPT and _is_own(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _digest_sources(package: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        digest.update(f"{source.relative_to(package)}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
