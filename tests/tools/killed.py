"""A command that is killed when it is about to change a file for the nth time.

    python -m tests.tools.killed N corpusmill's arguments

Nothing is cleaned up then, as after `kill -9`. It ends with KILLED if that came to pass, and prints
the number of changes otherwise.
"""

import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from pipeline.command_line import main

KILLED = 9


def _kill_at(number: int) -> Callable[[], int]:
    """Watch all changes of files; return what tells how many there were."""
    changes = count()
    seen = [0]

    def watch(owner: Any, name: str, is_change: Callable[..., bool]) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if is_change(*arguments, **named):
                seen[0] = next(changes)
                if seen[0] == number:
                    os._exit(KILLED)
            return real(*arguments, **named)

        setattr(owner, name, call)

    def creates(_: Path, mode: str = "r", *__: Any, **___: Any) -> bool:
        return mode == "wb"

    watch(Path, "open", creates)
    for owner, name in (
        (os, "rename"), (os, "replace"), (os, "link"), (os, "unlink"), (os, "rmdir"),
        (shutil, "rmtree"),
    ):  # fmt: skip
        watch(owner, name, lambda *_, **__: True)
    return lambda: seen[0] + 1


if __name__ == "__main__":
    count_changes = _kill_at(int(sys.argv[1]))
    status = main(sys.argv[2:])
    print(f"{count_changes()} changes")
    sys.exit(status)
