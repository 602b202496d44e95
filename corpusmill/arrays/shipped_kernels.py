"""Kernels that a wheel holds in compiled form, so that the first run need not compile them.

They are made for one version of Python, of numba and of LLVM, and for processors with the features
of a baseline. On any other machine, and where the sources are not those of the wheel, kernels are
compiled as they always are. The file is a pickle and machine code, as trusted as the sources
beside it; whatever of it does not have the digest that the index names is not loaded.
"""

import hashlib
import json
import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite.binding import get_host_cpu_features

# For each machine the processor that numba compiles for, by LLVM's name, and the features that it
# implies: those of the x86-64 psABI's level 3, which machines have had since 2013.
BASELINES = {
    "x86_64": (
        "x86-64-v3",
        """
        avx avx2 bmi bmi2 cx16 f16c fma fxsr lzcnt movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2
        ssse3 xsave
        """,
    ),
    "aarch64": ("generic", "neon"),
}

_INDEX, _CONTENT = "index.json", "kernels.bin"
# The place of the annotated source in what numba keeps of a kernel; only its debugger shows it.
_ANNOTATION = 6


class ShippedKernels:
    """The compiled kernels of a wheel.

    Args:
        folder: their folder.
        kernels: for each kernel and signature its first byte, its length and its SHA-256.
    """

    def __init__(self, folder: Path, kernels: dict[str, tuple[int, int, str]]) -> None:
        self._content, self._kernels = folder / _CONTENT, kernels

    def find(self, function: Any, signature: Any) -> Any:
        """Return what numba keeps of a compiled kernel, or None.

        Args:
            function: the kernel as it was written.
            signature: the types of its arguments.
        """
        name = _name(function.__module__, function.__qualname__, signature)
        if name not in self._kernels:
            return None
        start, length, digest = self._kernels[name]
        try:
            with self._content.open("rb") as content:
                content.seek(start)
                compiled = content.read(length)
        except OSError:
            return None
        is_whole = hashlib.sha256(compiled).hexdigest() == digest
        return pickle.loads(compiled) if is_whole else None  # noqa: S301  it is the wheel's own


@cache
def find_shipped(folder: Path, digest_sources: Callable[[], str]) -> ShippedKernels | None:
    """Return the kernels that lie in a folder, if they are for these sources and this machine.

    Args:
        folder: the folder.
        digest_sources: returns the digest of the library's sources.
    """
    if numba.config.CPU_NAME:  # whoever names a processor wants kernels for this one
        return None
    try:
        index = json.loads((folder / _INDEX).read_bytes())
    except (OSError, ValueError):
        return None
    features = get_host_cpu_features()
    is_fit = (
        index["platform"] == _describe_platform()
        and all(features.get(name) for name in index["features"])
        and index["sources"] == digest_sources()
    )
    return ShippedKernels(folder, index["kernels"]) if is_fit else None


def ship_kernels(compiled: Path, folder: Path, sources: str) -> int:
    """Write the compiled kernels of a cache of numba's as a wheel holds them.

    Args:
        compiled: the cache. All of it was compiled for the baseline of this machine.
        folder: a new folder.
        sources: the digest of the library's sources.

    Returns:
        How many kernels were written, each signature for itself.
    """
    folder.mkdir(parents=True)
    kernels, start = {}, 0
    with (folder / _CONTENT).open("wb") as content:
        for name, kernel in sorted(_read_cache(compiled)):
            content.write(kernel)
            kernels[name] = (start, len(kernel), hashlib.sha256(kernel).hexdigest())
            start += len(kernel)
    index = {
        "platform": _describe_platform(),
        "features": BASELINES[platform.machine()][1].split(),
        "sources": sources,
        "kernels": kernels,
    }
    (folder / _INDEX).write_text(json.dumps(index, indent=0), encoding="utf-8")
    return len(kernels)


def _read_cache(compiled: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each kernel and signature of a cache, and what numba keeps of it."""
    for path in sorted(compiled.rglob("*.nbi")):
        with path.open("rb") as file:
            pickle.load(file)  # noqa: S301  the version; this process or another one has compiled it
            _, overloads = pickle.load(file)  # noqa: S301  likewise
        for (signature, *_), name in overloads.items():
            kept = list(pickle.loads(path.with_name(name).read_bytes()))  # noqa: S301  likewise
            kept[_ANNOTATION] = ""
            yield _name(kept[1].modname, kept[1].qualname, signature), pickle.dumps(tuple(kept))


def _name(module: str, function: str, signature: Any) -> str:
    return f"{module}.{function} {signature}"


def _describe_platform() -> dict[str, str]:
    return {
        "python": str(sys.implementation.cache_tag),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "system": sys.platform,
        "machine": platform.machine(),
    }
