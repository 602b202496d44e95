"""What a command shows on a terminal."""

import os
import pty
from pathlib import Path
from select import select

from tests.tools.forked_commands import ForkedCommand


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
