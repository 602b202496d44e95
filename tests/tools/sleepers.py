"""Commands in processes of their own that fall asleep just before one of their changes of files."""

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psutil

from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import Outcome, wait_for
from tests.tools.moments import listen_to_changes


class Sleeper:
    """A command that sleeps, and knows nothing of it.

    Args:
        words: the command.
        folder: where its changes are counted.
        moment: the number of the change before which it falls asleep, from 0.
    """

    def __init__(self, words: Sequence[str], folder: Path, moment: int) -> None:
        self._command = ForkedCommand(words, prepare=partial(_fall_asleep, folder, moment))
        while self._command.poll() is None and not self.is_asleep:
            time.sleep(0.005)

    @property
    def is_asleep(self) -> bool:
        """Whether it sleeps; False once it has ended."""
        try:
            return psutil.Process(self._command.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def wake(self) -> Outcome:
        """Let it go on, and return how it ends."""
        self._command.send_signal(signal.SIGCONT)
        return wait_for(self._command)


def _fall_asleep(folder: Path, moment: int) -> None:
    """Let this process stop itself before a change."""
    changes = iter(range(moment + 1))

    def count() -> None:
        if next(changes, None) == moment:
            os.kill(os.getpid(), signal.SIGSTOP)

    listen_to_changes(folder, count)
