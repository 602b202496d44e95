"""The message about the compilation of kernels, for which only the first run waits."""

import logging
import re
from pathlib import Path

from corpusmill.arrays.kernel_cache import before_compiling, kernel_folder
from corpusmill.console.terminal import Terminal

_LOG = logging.getLogger("pipeline")


def announce_compilation() -> None:
    """Say once, before this process compiles its first kernel, what it waits for."""
    before_compiling(say_that_kernels_are_compiled)


def say_that_kernels_are_compiled() -> None:
    """Print what the run waits for to a terminal, and log it for all others."""
    folder = kernel_folder()
    text = "compiling kernels for this machine's processor, which takes up to a minute; "
    if _is_kept(folder):
        text += f"this happens once, as they are kept in {folder}"
    else:
        text += "no cache folder can be written, so name one with NUMBA_CACHE_DIR to keep them"
    _LOG.info(text, extra={"event": "kernels_compiled", "folder": str(folder)})
    terminal = Terminal(stderr=True)
    if terminal.is_terminal:
        terminal.print(text)


def _is_kept(folder: Path) -> bool:
    """Whether other processes find a folder of kernels, by the digest of the library's sources."""
    return re.fullmatch("[0-9a-f]{64}", folder.name.rpartition("-")[2]) is not None
