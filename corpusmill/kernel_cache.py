"""The compiled kernels on disk, kept in step with their sources.

Numba compiles a kernel again when its own file changes, but not when a kernel of another file that
it calls does. After an update in place the old random streams could then live on in the cache.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


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
