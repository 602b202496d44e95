"""How numba finds compiled kernels: those of the wheel first, then those of `kernel_folder`.

A wheel holds kernels in compiled form, so that the first run need not compile them. They are made
for one version of Python, of numba and of LLVM, and for processors with the features of a baseline.
On any other machine, and where its sources are not those of the wheel, a kernel is compiled as it
always is. The file is a pickle and machine code, as trusted as the sources beside it; whatever of
it does not have the digest that the index names is not loaded.

Numba's own files would be named by the kernel's line and hold the state of its source file. Here
they are named by all that the machine code depends on, so that there is nothing to compare.

This is imported with numba, by the first kernel that is called.
"""

import hashlib
import json
import os
import pickle
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
from llvmlite.binding import get_host_cpu_features, parse_assembly, parse_bitcode
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.environment import Environment, lookup_environment
from numba.core.funcdesc import FunctionDescriptor
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.types import Type

from corpusmill.arrays.kernel_keys import Compilable, digest_kernel

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

# What compiled kernels fit, apart from the processor.
_PLATFORM = (
    *(sys.implementation.cache_tag, numba.__version__, llvmlite.__version__),
    *(sys.platform, platform.machine()),
)
_EMPTY_MODULE: bytes = parse_assembly("").as_bitcode()
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

    def find(self, name: str) -> bytes | None:
        """Return what is kept of a compiled kernel, or None.

        Args:
            name: its name, as `name_kernel` returns it.
        """
        start, length, digest = self._kernels.get(name, (0, 0, ""))
        with suppress(OSError), self._content.open("rb") as content:
            content.seek(start)
            compiled = content.read(length)
            if hashlib.sha256(compiled).hexdigest() == digest:
                return compiled
        return None


@cache
def find_shipped(folder: Path) -> ShippedKernels | None:
    """Return the kernels that lie in a folder, if they are for processors like this one.

    Args:
        folder: the folder.
    """
    if numba.config.CPU_NAME:  # whoever names a processor wants kernels for this one
        return None
    try:
        index = json.loads((folder / _INDEX).read_bytes())
    except (OSError, ValueError):
        return None
    is_fit = all(map(get_host_cpu_features().get, index["features"]))
    return ShippedKernels(folder, index["kernels"]) if is_fit else None


def ship_kernels(compiled: Path, folder: Path) -> int:
    """Write the compiled kernels of a folder as a wheel holds them.

    Args:
        compiled: the folder. All of it was compiled for the baseline of this machine.
        folder: a new folder.

    Returns:
        How many kernels were written, each signature for itself.
    """
    folder.mkdir(parents=True)
    kernels, start = {}, 0
    with (folder / _CONTENT).open("wb") as content:
        for path in sorted(compiled.glob("*.nbc")):
            kept = list(pickle.loads(path.read_bytes()))  # noqa: S301  this process or another one has compiled it
            kept[_ANNOTATION] = ""
            kernel = pickle.dumps(tuple(kept))
            name, _processor, _suffix = path.name.rsplit(".", 2)
            kernels[name] = (start, len(kernel), hashlib.sha256(kernel).hexdigest())
            start += content.write(kernel)
    index = {"features": BASELINES[platform.machine()][1].split(), "kernels": kernels}
    (folder / _INDEX).write_text(json.dumps(index, indent=0), encoding="utf-8")
    return len(kernels)


def name_kernel(kernel: Compilable, signature: tuple[Type, ...]) -> str:
    """Return the name of a compiled kernel, for each processor: it differs if anything else does.

    Args:
        kernel: the kernel.
        signature: the types of its arguments.
    """
    function = kernel.definition
    fitting = (_PLATFORM, digest_kernel(kernel), _describe_key(signature))
    return f"{function.__module__}.{function.__name__}-{_digest(fitting)}"


def _digest(value: object) -> str:
    return hashlib.sha256(f"{value}".encode()).hexdigest()[:32]


@cache
def _describe_type(type_: Type) -> str:
    return f"{type_} {_describe_key(type_.key)}"


def _describe_key(part: Any) -> str:
    """Return a text for what numba tells types apart by, or for a part of it."""
    if isinstance(part, tuple):
        return f"({', '.join(map(_describe_key, part))})"
    if isinstance(part, type):  # such as a named tuple, whose fields kernels find by their places
        return f"{part.__module__}.{part.__qualname__} {getattr(part, '_fields', '')}"
    return _describe_type(part) if isinstance(part, Type) else repr(part)


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


class KernelCache(NullCache):
    """The compiled forms of one kernel, which end with their digests; what is damaged is not there.

    Args:
        kernel: the kernel.
        folder: for those that are compiled here.
        shipped: the kernels of the wheel, if there are any for this machine.
        tell: what is called before one is compiled.
    """

    def __init__(
        self,
        kernel: Compilable,
        folder: Path,
        shipped: ShippedKernels | None,
        tell: Callable[[], None],
    ) -> None:
        self._name = partial(name_kernel, kernel)
        self._folder, self._shipped, self._tell = folder, shipped, tell

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled form, without the registries that numba compiles with.

        Numba looks through them before it loads a kernel, and imports half of itself for that. What
        is compiled already needs no more than the functions that count references. Numba's compiler
        looks through the registries itself.
        """
        rtsys.initialize(target_context)
        compiled = self._shipped and self._shipped.find(self._name(sig))
        compiled = compiled or _read_sealed(self._path(sig, target_context.codegen()))
        with suppress(AttributeError, ImportError):  # what it names has another name now
            if compiled:
                return _rebuild(target_context, _Unpickler(BytesIO(compiled)).load())
        self._tell()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form."""
        if data.library.has_dynamic_globals:  # addresses in this process
            return
        path = self._path(sig, data.codegen)
        content = dumps(data._reduce())
        unfinished = path.with_name(f"{uuid4()}.nbc")
        unfinished.write_bytes(content + hashlib.sha256(content).digest())
        unfinished.replace(path)

    def _path(self, signature: Any, codegen: Any) -> Path:
        return self._folder / f"{self._name(signature)}.{_digest(codegen.magic_tuple())}.nbc"


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _rebuild_environment if name == "_rebuild_env" else super().find_class(module, name)


def _rebuild_environment(module: str, constants: list[Any], name: str) -> Environment:
    """Return the constants of a function within a kernel, without the module that it is from.

    Numba imports that, for code that is run by Python's interpreter, of which kernels have none:
    its own modules of arrays import 150 others, and SciPy's linear algebra.
    """
    environment = lookup_environment(name)
    if environment is None:
        environment = Environment._memo[name] = Environment({"__name__": module})
        environment.env_name, environment.consts[:] = name, constants
    return environment


def _rebuild(target: Any, kept: Any) -> Any:
    """Load a kernel; by numba alone where it keeps kernels otherwise than is known here.

    Args:
        target: what it was compiled for.
        kept: what numba keeps of it.
    """
    names: set[str] | None = getattr(target.codegen()._engine, "_defined_symbols", None)
    match kept:
        case (str(name), "object", (code, bitcode)), FunctionDescriptor() as function, *others:
            library = (name, "object", (code, _EMPTY_MODULE))
        case _:
            names = None
    if names is None:
        return CompileResult._rebuild(target, *kept)
    names |= {function.llvm_func_name, function.llvm_cpython_wrapper_name}
    loaded = CompileResult._rebuild(target, library, function, *others)
    loaded.library.__class__, loaded.library._shared_module = LoadedCode, None
    loaded.library.bitcode = bitcode
    return loaded


def _read_sealed(path: Path) -> bytes | None:
    """Return what a file holds before its digest, and note its use; None if it does not fit."""
    with suppress(OSError):
        content, size = path.read_bytes(), hashlib.sha256().digest_size
        os.utime(path)
        if hashlib.sha256(content[:-size]).digest() == content[-size:]:
            return content[:-size]
    return None
