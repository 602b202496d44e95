"""How numba finds compiled kernels: those of the wheel first, then those of `kernel_folder`.

This is imported with numba, by the first kernel that is called.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
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


class KernelCache(FunctionCache):
    """The compiled forms of one kernel.

    Args:
        function: the kernel as it was written.
        shipped: the kernels of the wheel, if there are any for this machine.
    """

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
