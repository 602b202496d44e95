"""How numba finds compiled kernels: those of the wheel first, then those of `kernel_folder`.

A wheel holds kernels in compiled form, so that the first run need not compile them. They are made
for one version of Python, of numba and of LLVM, and for processors with the features of a baseline.
On any other machine, and where the sources are not those of the wheel, kernels are compiled as they
always are. The file is a pickle and machine code, as trusted as the sources beside it; whatever of
it does not have the digest that the index names is not loaded.

This is imported with numba, by the first kernel that is called.
"""

import hashlib
import io
import json
import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite.binding import get_host_cpu_features, parse_assembly, parse_bitcode
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.funcdesc import FunctionDescriptor
from numba.core.runtime import rtsys

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


class SealedFiles(IndexDataCacheFile):
    """Files of compiled kernels that end with their digests; what is damaged is not there."""

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):
            raise FileNotFoundError(name)
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        yield (content := io.BytesIO())
        data = content.getvalue()
        with super()._open_for_write(path) as stream:
            stream.write(data + hashlib.sha256(data).digest())


class LoadedCode(JITCodeLibrary):
    """The machine code of a loaded kernel.

    What kernels that call it are compiled with is read when one is compiled: to read it takes as
    long as to load the machine code, and most processes compile nothing.

    Attributes:
        bitcode: the kernel as LLVM takes it.
    """

    bitcode: bytes
    _shared_module: Any

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self.bitcode)
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return self._shared_module

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of one of its functions; 0 if it has none of this name."""
        self._get_module_for_linking()  # as the engine does not know all of their names before
        address: int = super().get_pointer_to_function(name)
        return address


class KernelForms(CompileResultCacheImpl):
    """How a compiled kernel is loaded."""

    def rebuild(self, target: Any, kept: Any) -> Any:
        """Load a kernel; by numba alone where it keeps kernels otherwise than is known here.

        Args:
            target: what it was compiled for.
            kept: what numba keeps of it.
        """
        names: set[str] | None = getattr(target.codegen()._engine, "_defined_symbols", None)
        match kept:
            case (str(name), "object", (code, bitcode)), FunctionDescriptor() as function, *others:
                library = (name, "object", (code, _empty_module()))
            case _:
                names = None
        if names is None:
            return super().rebuild(target, kept)
        names |= {function.llvm_func_name, function.llvm_cpython_wrapper_name}
        loaded = super().rebuild(target, (library, function, *others))
        loaded.library.__class__, loaded.library._shared_module = LoadedCode, None
        loaded.library.bitcode = bitcode
        return loaded


@cache
def _empty_module() -> bytes:
    bitcode: bytes = parse_assembly("").as_bitcode()
    return bitcode


class KernelCache(FunctionCache):
    """The compiled forms of one kernel.

    Args:
        function: the kernel as it was written.
        shipped: the kernels of the wheel, if there are any for this machine.
    """

    _impl_class = KernelForms

    def __init__(self, function: Callable[..., Any], shipped: ShippedKernels | None) -> None:
        super().__init__(function)
        self._cache_file.__class__ = SealedFiles
        self._shipped = shipped

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Load a compiled form, without the registries that numba compiles with.

        Numba looks through them before it loads a kernel, and imports half of itself for that. What
        is compiled already needs no more than the functions that count references. Numba's compiler
        looks through the registries itself.
        """
        rtsys.initialize(target)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)

    def _load_overload(self, signature: Any, target: Any) -> Any:
        if self._shipped and (kernel := self._shipped.find(self._py_func, signature)):
            return self._impl.rebuild(target, kernel)
        return super()._load_overload(signature, target)


class Compilations(event.Listener):
    """Tells when numba compiles a kernel that it has not found.

    Args:
        tell: what is called then.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def on_start(self, event: object) -> None:  # noqa: ARG002
        """Tell it."""
        self._tell()

    def on_end(self, event: object) -> None:
        """Do nothing."""


def _is_whole(path: str) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    size = hashlib.sha256().digest_size
    return hashlib.sha256(content[:-size]).digest() == content[-size:]
