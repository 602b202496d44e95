"""What a command shows on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT


def show_on_terminal(*arguments: str | Path) -> str:
    """Return what a command that succeeds writes to the terminal that its errors go to."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "pipeline", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=end)
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
    assert process.wait() == 0
    return shown.decode()
