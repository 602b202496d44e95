"""A line of text in a notebook's cell, which is updated in place and removed at the end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def show_line(text: str) -> Iterator[Callable[[str], None]]:
    """Show a line under the running cell until the block ends, which may change its text.

    A line that is printed again and again would stay in the notebook once for each time.

    Args:
        text: the line at first.
    """
    display: Any = import_module("IPython.display")
    handle = display.display({"text/plain": text}, raw=True, display_id=True)

    def update(text: str) -> None:
        handle.update({"text/plain": text}, raw=True)

    try:
        yield update
    finally:
        update("")
