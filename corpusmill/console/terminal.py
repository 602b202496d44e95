"""The console: whatever text is printed, it neither steers the terminal nor fails to be printed."""

import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from corpusmill.errors import printable

_STDERR = 2


class Terminal(Console):
    """A console on which text means itself: no markup, no codes of emoji, nothing highlighted.

    A `str` is one line, which is not wrapped. In all that is printed, characters that could steer
    the terminal become escapes.

    Args:
        stderr: whether it is standard error, and not standard output.
        file: another file.
        options: of rich's console.
    """

    def __init__(self, stderr: bool = False, file: IO[str] | None = None, **options: Any) -> None:
        plain = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
        super().__init__(stderr=stderr, file=file, **plain | options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print lines or renderables of rich."""
        lines = (Text(printable(one)) if isinstance(one, str) else one for one in objects)
        super().print(*lines, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object, with all text in it made printable."""
        for segment in super().render(renderable, options):
            text = "\n".join(map(printable, segment.text.split("\n")))
            yield segment if segment.control else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        """Go on without output: its reader has seen enough, as in `inspect FOLDER | head`."""
        drop_unread_output()


def prepare_streams() -> None:
    """Make standard output and error take any text, and free standard error's number.

    A stream that was closed before the process began leads nowhere. What Python prints as an error
    goes to a copy of standard error's number, so that `hide_native_errors` hides only what other
    languages print.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.flush()
        copy = os.fdopen(os.dup(_STDERR), "w", 1, encoding=sys.stderr.encoding)
        sys.stderr = copy
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_unread_output() -> bool:
    """Let streams whose reader is gone lead nowhere; return whether there are any.

    What is buffered is written first: a reader may leave because of it, and Python would complain
    of the rest at its end.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError, ValueError):  # unread, missing or closed
            stream.flush()
    unread = [stream for stream in (sys.stdout, sys.stderr) if _is_unread(stream)]
    for stream in unread:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
    return bool(unread)


def _is_unread(stream: IO[str]) -> bool:
    if not isinstance(stream, TextIOWrapper):  # a test's, or closed
        return False
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


@contextmanager
def hide_native_errors() -> Iterator[None]:
    """Hide what code in other languages prints in a block, such as the traces of Rust's panics."""
    kept = os.dup(_STDERR)
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
