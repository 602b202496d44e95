"""Compiled kernels on disk, each under the digest of what it is compiled from.

Numba compiles a cached kernel again when the kernel's own file changes, but not when another file
changes whose kernels it calls. After an update in place, by pip or by an engine that installs a
wheel on a worker, old random streams could live on in the cache. Therefore a kernel is kept under a
key (`corpusmill.arrays.kernel_keys`) that also stands for all that it calls: those of other sources
are never found, and those that no change concerns are.

Each user has a folder. Its files are pickles of machine code: nobody else may write to the folder,
and a damaged file is compiled anew. A wheel brings compiled kernels along
(`corpusmill.arrays.numba_cache`); the folder then takes those that it lacks.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from corpusmill.arrays.kernel_keys import Compilable

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

# Where a wheel has its compiled kernels; a checkout has none.
SHIPPED_FOLDER = Path(__file__).parent.parent / "compiled_kernels"

# Files that no process has read for so long are removed: their kernels have changed.
_SECONDS_KEPT = 30 * 24 * 60 * 60

_USER = os.getuid() if hasattr(os, "getuid") else 0  # as Windows has it
FOLDER_NAME = f"corpusmill-kernels-{_USER}"


# Called when the first kernel is compiled, and not loaded; empty once that has happened.
_before_compiling: list[Callable[[], None]] = []


def before_compiling(action: Callable[[], None]) -> None:
    """Let a function be called once, before this process compiles its first kernel."""
    _before_compiling[:] = [action]


def _announce() -> None:
    if _before_compiling:
        _before_compiling.pop()()
    _remove_unused()


class Kernel(Compilable):
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
        self.py_func = self.definition = function
        self.targetoptions = {"nogil": True, "inline": inline}

    def __call__(self, *args: Any, **keywords: Any) -> Any:  # noqa: D102  that of the function
        return self.compiled(*args, **keywords)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    @cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher; with NUMBA_DISABLE_JIT the function itself."""
        import numba  # noqa: PLC0415  see above

        from corpusmill.arrays.numba_cache import KernelCache, find_shipped  # noqa: PLC0415  it, too

        dispatcher = numba.njit(**self.targetoptions)(self.py_func)
        if hasattr(dispatcher, "py_func"):  # or else it is the function itself
            shipped = find_shipped(SHIPPED_FOLDER)
            dispatcher._cache = KernelCache(self, kernel_folder(), shipped, _announce)
            resolve = dispatcher.get_call_template
            dispatcher.get_call_template = partial(_resolve_by_types, resolve)
            dispatcher.compile = partial(self._compile_alone, dispatcher.compile)
        return dispatcher

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


def njit(function: Callable[..., Any] | None = None, *, inline: str = "never") -> Any:
    """Compile a kernel when it is first called, as `numba.njit`, or load it from `kernel_folder`.

    A kernel runs without Python's global lock.

    Args:
        function: the kernel.
        inline: "always" copies the kernel into the kernels that call it.
    """
    return partial(njit, inline=inline) if function is None else Kernel(function, inline)


@cache
def kernel_folder() -> Path:
    """Make the folder of the compiled kernels.

    It lies in the folder that NUMBA_CACHE_DIR names, or else in the user's cache folder. Nothing is
    written to the library's own folder.
    """
    import numba  # noqa: PLC0415  see `Kernel`

    # Called one by one: there may be no folder for temporary files, nor any need of one.
    for find in (lambda: numba.config.CACHE_DIR, cache_folder, gettempdir):
        parent = find()
        if parent and make_own(folder := Path(parent, FOLDER_NAME)):
            return folder
    # The processes that this one starts use it, too.
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = mkdtemp(prefix=f"{FOLDER_NAME}-")
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


@cache  # once is enough: it is for what changes of the library have left
def _remove_unused() -> None:
    """Remove kernels that are long unused, also those in folders of earlier releases."""
    current, latest = kernel_folder(), time.time() - _SECONDS_KEPT
    for folder in current.parent.glob(f"{FOLDER_NAME}*"):
        with suppress(OSError):  # another process may remove it
            if _is_own(folder) and (folder == current or folder.lstat().st_mtime < latest):
                _remove_kernels(folder, latest)
                if folder != current:
                    folder.rmdir()


def _remove_kernels(folder: Path, latest: float) -> None:
    """Remove a folder's kernels that were used before a time, but no other files."""
    for path in sorted(folder.rglob("*"), reverse=True):
        with suppress(OSError):  # another process may remove it; or it holds another file
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif path.suffix in {".nbi", ".nbc", ".lock"} and path.lstat().st_mtime < latest:
                path.unlink()
