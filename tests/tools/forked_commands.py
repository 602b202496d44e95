"""Commands in processes that are forked from one that has imported Beam, which takes seconds.

What a command does about its imports, or about variables that Python reads when it starts, is
tested in a new process instead.
"""

import os
import pty
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from select import select
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from corpusmill.console import compilation

# It has no threads, unlike the process of the tests.
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pipeline.commands.builds", "pipeline.outcomes", "numba"])


class ForkedCommand:
    """A command in a process that leads a group of its own, with the methods of `Popen`.

    Args:
        arguments: the command and its flags.
        terminal: the path of the terminal that takes its messages; by default `communicate` does.
        prepare: what the process calls before the command; it can be pickled.

    Attributes:
        pid: the number of the process.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        terminal: str = "",
        prepare: Callable[[], object] | None = None,
    ) -> None:
        self._arguments = list(map(str, arguments))
        self._folder = TemporaryDirectory()
        self._files = [Path(self._folder.name, name) for name in ("output", "errors")]
        for file in self._files:
            file.touch()
        streams = [str(self._files[0]), terminal or str(self._files[1])]
        environment = dict(os.environ)
        self._process = _CONTEXT.Process(
            target=_run, args=(self._arguments, streams, environment, prepare)
        )
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int:
        """The status with which it has ended; negative for a signal."""
        assert self._process.exitcode is not None
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the status with which it has ended, or None."""
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return what it has written to both streams."""
        self._process.join(timeout)
        if timeout is not None and self._process.exitcode is None:
            raise TimeoutExpired(self._arguments, timeout)
        output, errors = (file.read_text() for file in self._files)
        return output, errors

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()


def _run(
    arguments: Sequence[str],
    streams: Sequence[str],
    environment: dict[str, str],
    prepare: Callable[[], object] | None,
) -> None:
    os.setpgid(0, 0)
    # What runs the tests may ignore them, as a shell does for what it starts in the background, and
    # the thread that started this process's parent may have blocked them.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_NOCTTY), number)
    os.environ.clear()
    os.environ.update(environment)
    keep_compilation_quiet()
    if prepare:
        prepare()
    sys.argv[1:] = arguments
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)


def keep_compilation_quiet() -> None:
    """Let no command of this process say that it, or one of its workers, compiles kernels.

    Which test compiles them depends on the order of all tests.
    """
    says, modules = compilation.say_that_kernels_are_compiled, list(sys.modules.values())
    for module in modules:  # those that come later take it from the first one
        is_ours = module.__name__.startswith(("corpusmill", "pipeline"))
        if is_ours and vars(module).get(says.__name__) is says:
            setattr(module, says.__name__, _say_nothing)


def _say_nothing() -> None:
    """Take the place of what says it."""


def show_on_terminal(*arguments: str | Path) -> str:
    """Return what a command that succeeds writes to the terminal that its errors go to."""
    terminal, end = pty.openpty()
    command = ForkedCommand(arguments, os.ttyname(end))
    while command.poll() is None and not select([terminal], [], [], 0.01)[0]:
        pass  # until the command holds the terminal, too
    os.close(end)
    shown = b""
    while True:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(terminal)
    command.communicate()
    assert command.returncode == 0
    return shown.decode()
