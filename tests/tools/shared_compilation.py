"""Kernels are compiled by one process of the tests, while the others wait for its result.

Which test compiles them depends on the order of all tests, so that no command says it.
"""

import fcntl
import hashlib
import sys
import threading
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from corpusmill.arrays.kernel_cache import kernel_folder
from corpusmill.console import compilation

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
    says, modules = compilation.say_that_kernels_are_compiled, list(sys.modules.values())
    for module in modules:  # those that come later take it from the first one
        if vars(module).get(says.__name__) is says and module.__name__.startswith(_ROOMS):
            setattr(module, says.__name__, _say_nothing)


_ROOMS = ("corpusmill", "pipeline")


def _say_nothing() -> None:
    """Take the place of what says it."""
