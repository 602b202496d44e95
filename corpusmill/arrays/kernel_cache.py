"""Compiled kernels on disk, in one folder for each state of the library's sources.

Numba compiles a cached kernel again when the kernel's own file changes, but not when another file
changes whose kernels it calls. After an update in place, by pip or by an engine that installs a
wheel on a worker, old random streams could live on in the cache. Therefore the folder's name holds
a digest of all sources: kernels of other sources are never found.

Each user has a folder. Numba's files are pickles of machine code: nobody else may write to the
folder, and a damaged file is compiled anew. A wheel brings compiled kernels along
(`corpusmill.arrays.numba_cache`); the folder then takes those that it lacks.
"""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from threading import RLock
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

_PACKAGE = Path(__file__).parent.parent
# Where a wheel has its compiled kernels; a checkout has none.
SHIPPED_FOLDER = _PACKAGE / "compiled_kernels"

# Folders for other sources are removed if they are not among the ones used last, and unused for a
# day: a process that began with them may still run.
_KEPT_FOLDERS, _SECONDS_KEPT = 8, 24 * 60 * 60

_LOCK = RLock()
_USER = os.getuid() if hasattr(os, "getuid") else 0  # as Windows has it


# Called when the first kernel is compiled, and not loaded; None once that has happened.
_before_compiling: Callable[[], None] | None = None


def before_compiling(action: Callable[[], None]) -> None:
    """Let a function be called once, before this process compiles its first kernel."""
    global _before_compiling  # noqa: PLW0603  numba's events are those of the process, too
    _before_compiling = action


def _announce() -> None:
    global _before_compiling
    action, _before_compiling = _before_compiling, None
    if action:
        action()


class Kernel:
    """A function that is compiled when it is first called, or loaded from `kernel_folder`.

    Numba is imported then, too: help and messages need none of it, and it takes a fifth of a
    second. A kernel that calls this one finds it as it would find numba's own dispatcher.

    Args:
        function: what is compiled.
        inline: whether it is copied into the kernels that call it: "never" or "always".

    Attributes:
        py_func: the function as it was written.
        targetoptions: the options that numba looks up before it compiles a caller.
    """

    def __init__(self, function: Callable[..., Any], inline: str) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.targetoptions: Mapping[str, Any] = {"inline": inline}

    def __call__(self, *args: Any, **keywords: Any) -> Any:  # noqa: D102  that of the function
        return self.compiled(*args, **keywords)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    @cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher; with NUMBA_DISABLE_JIT the function itself."""
        import numba  # noqa: PLC0415  see above

        # Numba chooses a kernel's folder here. Functions of other libraries keep their own.
        with _LOCK:
            previous, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(kernel_folder())
            try:
                dispatcher = numba.njit(nogil=True, **self.targetoptions)(self.py_func)
                if hasattr(dispatcher, "py_func"):  # or else it is the function itself
                    dispatcher._cache = _start_cache()(self.py_func)
                    resolve = dispatcher.get_call_template
                    dispatcher.get_call_template = partial(_resolve_by_types, resolve)
                    dispatcher.compile = partial(self._compile_alone, dispatcher.compile)
                return dispatcher
            finally:
                numba.config.CACHE_DIR = previous

    def _compile_alone(self, compile_kernel: Callable[[Any], Any], signature: Any) -> Any:
        """Compile a kernel, or load it, while other processes that need it wait for the result."""
        from numba.core.compiler_lock import global_compiler_lock  # noqa: PLC0415  see above

        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}.lock"
        # Threads wait for numba's own lock, and always before this one.
        with global_compiler_lock, (kernel_folder() / name).open("a") as file:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                return compile_kernel(signature)
            finally:
                if fcntl:  # a process that was forked meanwhile holds the file open
                    fcntl.flock(file, fcntl.LOCK_UN)

    @property
    def _numba_type_(self) -> Any:
        return self.compiled._numba_type_


def _resolve_by_types(
    resolve: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Any:
    """Find the kernel that another one calls, which numba compiles once for each constant as well.

    Args:
        resolve: numba's way to find it, or to compile it.
        arguments: the types of the arguments; those of constants hold their values.
        keywords: likewise.
    """
    from numba.core.types.misc import unliteral  # noqa: PLC0415  see `Kernel`

    plain = {name: unliteral(type_) for name, type_ in keywords.items()}
    return resolve(tuple(map(unliteral, arguments)), plain)


@cache
def _start_cache() -> Callable[[Callable[..., Any]], Any]:
    """Return what makes the cache of a kernel, and hear of kernels that are compiled."""
    from numba.core import event  # noqa: PLC0415  see `Kernel`

    from corpusmill.arrays.numba_cache import (  # noqa: PLC0415  likewise
        Compilations,
        KernelCache,
        find_shipped,
    )

    event.register("numba:compile", Compilations(_announce))
    shipped = find_shipped(SHIPPED_FOLDER, partial(digest_sources, _PACKAGE))
    return partial(KernelCache, shipped=shipped)


def njit(function: Callable[..., Any] | None = None, *, inline: str = "never") -> Any:
    """Compile a kernel when it is first called, as `numba.njit`, or load it from `kernel_folder`.

    A kernel runs without Python's global lock.

    Args:
        function: the kernel.
        inline: "always" copies the kernel into the kernels that call it.
    """
    return partial(njit, inline=inline) if function is None else Kernel(function, inline)


@cache
def kernel_folder(package: Path = _PACKAGE) -> Path:
    """Make the folder of the compiled kernels, and remove those for sources that are long unused.

    It lies in the folder that NUMBA_CACHE_DIR names, or else in the user's cache folder. Nothing is
    written to the library's own folder.

    Args:
        package: the folder of the sources.
    """
    import numba  # noqa: PLC0415  see `Kernel`

    name = f"corpusmill-kernels-{_USER}-"
    digest = digest_sources(package)
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
    # Files can be made in it, or the folder itself can be made.
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    is_writable = existing.is_dir() and os.access(existing, os.W_OK)
    return folder if is_writable else Path(gettempdir())


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
                _remove_kernels(folder)


def _remove_kernels(folder: Path) -> None:
    """Remove a folder of kernels, but no other files."""
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        with suppress(OSError):  # another process may remove it; or it holds another file
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif path.suffix in {".nbi", ".nbc", ".lock"}:
                path.unlink()


@cache
def digest_sources(package: Path = _PACKAGE) -> str:
    """Return the SHA-256 of the names and contents of all sources of a package.

    It is computed once: a process goes on with the sources that it has begun with.
    """
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        digest.update(f"{source.relative_to(package)}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
