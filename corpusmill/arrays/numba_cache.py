"""How numba finds compiled kernels: those of the wheel first, then those of `kernel_folder`.

This is imported with numba, by the first kernel that is called.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite.binding import parse_assembly, parse_bitcode
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.funcdesc import FunctionDescriptor
from numba.core.runtime import rtsys

from corpusmill.arrays.shipped_kernels import ShippedKernels


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
