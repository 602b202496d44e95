"""The message about the compilation of kernels, for which only the first run waits."""

import logging
from functools import cache

from corpusmill.arrays.kernel_cache import FOLDER_NAME, before_compiling, kernel_folder

_LOG = logging.getLogger("pipeline")


@cache
def announce_compilation() -> None:
    """Say once, before this process compiles its first kernel, what its user waits for."""
    before_compiling(say_that_kernels_are_compiled)


def say_that_kernels_are_compiled() -> None:
    """Say in one line what the run waits for: on standard error, unless the log says it there."""
    # Imported here because most readers wait for nothing, and print nothing.
    from corpusmill.console.terminal import Terminal  # noqa: PLC0415

    folder = kernel_folder()
    text = "compiling kernels for this machine's processor, which takes up to a minute; "
    if folder.name == FOLDER_NAME:  # which other processes find
        text += f"this happens once, as they are kept in {folder}"
    else:
        text += "no cache folder can be written, so name one with NUMBA_CACHE_DIR to keep them"
    event = {"event": "kernels_compiled", "folder": str(folder)}
    record = _LOG.makeRecord(_LOG.name, logging.INFO, "", 0, text, (), None, extra=event)
    handlers = logging.getLogger().handlers if _LOG.isEnabledFor(record.levelno) else ()
    is_logged = any(handler.filter(record) for handler in handlers)
    if is_logged:
        _LOG.handle(record)
    terminal = Terminal(stderr=True)
    if terminal.is_terminal or not is_logged:
        terminal.print(text)
