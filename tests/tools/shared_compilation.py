"""Kernels are compiled by one process of the tests, while the others wait for its result.

Which test compiles them depends on the order of all tests, so that no command says it.
"""

import fcntl
import hashlib
import threading
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from corpusmill.arrays.kernel_cache import kernel_folder
from corpusmill.commands import command_line
from pipeline.runners.local import submission

# Numba has such a lock, too. This one is always taken first.
_LOCK = threading.RLock()


def share_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process that needs a kernel wait while another one compiles it."""
    compile_kernel = Dispatcher.compile

    def compile_once(kernel: Any, signature: Any) -> Any:
        function = kernel.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        lock = kernel_folder() / f"{hashlib.sha256(name.encode()).hexdigest()}.lock"
        with _LOCK, lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            return compile_kernel(kernel, signature)

    monkeypatch.setattr(Dispatcher, "compile", compile_once)


def keep_compilation_quiet() -> None:
    """Let no command of this process say that it, or one of its workers, compiles kernels."""
    for module, name in [
        (command_line, "announce_compilation"),
        (submission, "say_that_kernels_are_compiled"),
    ]:
        assert hasattr(module, name)
        setattr(module, name, _say_nothing)


def _say_nothing() -> None:
    """Take the place of what says it."""
