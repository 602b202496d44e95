"""What is said when kernels are compiled: a first run waits for them, and no later one."""

import logging

from corpusmill.arrays.kernel_cache import before_compiling, kernel_folder
from corpusmill.console.terminal import Terminal

_LOG = logging.getLogger("pipeline")


def announce_compilation() -> None:
    """Say once, before this process compiles its first kernel, what it waits for."""
    before_compiling(say_that_kernels_are_compiled)


def say_that_kernels_are_compiled() -> None:
    """Print what the run waits for to a terminal, and log it for all others."""
    text = (
        "compiling kernels for this machine's processor, which takes up to a minute; they are kept "
        f"in {kernel_folder()} for later runs"
    )
    _LOG.info(text, extra={"event": "kernels_compiled", "folder": str(kernel_folder())})
    terminal = Terminal(stderr=True)
    if terminal.is_terminal:
        terminal.print(text)
