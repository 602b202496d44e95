"""The process of a command: its first steps, before anything slow is imported, and its end.

Only the standard library is imported here, and little of it.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import FrameType
from typing import Any, NoReturn, Self

# They hold for a job that runs elsewhere as well; --no-wait exits with 0 once it is submitted.
USER_ERROR, FAILURE, CANCELLED, INTERRUPTED = 2, 1, 3, 130

# Ctrl-C, and what launchers and batch systems send before they kill.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

_SECONDS_TO_SEND_AGAIN = 0.05

# Beam always imports it, for stores on the web.
_WEB_CLIENT = "httplib2"

_before_exit: list[Callable[[], None]] = []


def begin_process() -> None:
    """Answer signals at once, and make sure of the standard streams and the working directory."""
    for number in ENDING_SIGNALS:
        signal.signal(number, lambda *_: end_process(INTERRUPTED, "interrupted: nothing was begun"))
    # The threads of NumPy's linear algebra, which no command needs, wait asleep and not at work.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # Otherwise the next file that is opened would get the number of a closed stream.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    try:
        os.stat(os.getcwd())  # noqa: PTH109, PTH116  fewer imports
    except OSError:
        text = "error: the working directory does not exist any more. Change to another one."
        end_process(USER_ERROR, text)


def end_process(status: int, text: str) -> NoReturn:
    """Write a line to standard error and end the process, before there is a console."""
    os.write(2, os.fsencode(f"{text}\n"))
    os._exit(status)


class _NotInstalled:
    """Lets imports fail as if packages were not installed, while it is in `sys.meta_path`.

    A namespace package such as google.cloud may be there before anything imports it, so that its
    parts are asked for alone.
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self._prefixes = tuple(f"{package}." for package in packages)

    def find_spec(self, name: str, *_: object) -> None:
        if f"{name}.".startswith(self._prefixes):
            raise ModuleNotFoundError(name, name=name)


class _WhenUsed:
    """Lets the client of the web be imported when it is first used.

    It does so while it is in `sys.meta_path`.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == _WEB_CLIENT else None
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def quick_imports(unused: Sequence[str] = ()) -> Iterator[None]:
    """Make the imports in a block faster: together with Beam they take half as long.

    Imports leave no garbage, but the collector would look for it hundreds of times. And if pandas
    is installed, Beam imports it for the types of data frames, which no stage uses, and Arrow when
    it makes its first array, in case that is made of a data frame. Arrow looks for it but once.

    Args:
        unused: more packages that Beam imports if they are installed, and that this process does
            not use; if there are any, it uses no client of the web, either.
    """
    # A package that is imported when it is first used may not be used by two threads at once.
    finders: list[Any] = [_NotInstalled(("pandas", *unused)), *([_WhenUsed()] if unused else [])]
    gc.disable()
    sys.meta_path[:0] = finders
    try:
        yield
        if arrow := sys.modules.get("pyarrow"):
            arrow.array([])
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        gc.freeze()
        gc.enable()


class EndingSignals:
    """Handles Ctrl-C and requests to end, for the length of a command.

    The first one raises KeyboardInterrupt, so that the run removes what it cannot resume from. The
    next one ends the process at once; what it leaves can be resumed as after a power failure.

    Python drops what is raised while it runs a finalizer or a callback of a library, of which
    compilation has thousands. Then the signal is sent again, until it is raised elsewhere.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_hook = sys.unraisablehook
        self._came = False

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in ENDING_SIGNALS}
        self._previous_hook, sys.unraisablehook = sys.unraisablehook, self._send_again
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._previous_hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @staticmethod
    def ignore() -> None:
        """Ignore them from now on, as the command has ended."""
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    @staticmethod
    def release() -> None:
        """Let them end the process from now on, as all is done but to tell others."""
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def _handle(self, _: int, __: FrameType | None) -> None:
        if self._came:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), b"interrupted: ended at once, without cleaning up\n")
            exit_now(INTERRUPTED)
        self._came = True
        signal.setitimer(signal.ITIMER_REAL, 0)  # one that waits to be sent again
        raise KeyboardInterrupt

    def _send_again(self, dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._previous_hook(dropped)
            return
        self._came = False
        signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_TO_SEND_AGAIN)


def before_exit(action: Callable[[], None]) -> None:
    """Let `exit_now` call a function first, such as one that ends worker processes."""
    if action not in _before_exit:
        _before_exit.append(action)


def exit_now(status: int) -> NoReturn:
    """End the process at once: a failed engine leaves threads that never end."""
    EndingSignals.ignore()
    for action in _before_exit:
        action()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # its reader is gone, or it is closed
            stream.flush()
    os._exit(status)
