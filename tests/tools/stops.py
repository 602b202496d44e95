"""What stops a run in this process, such as a full disk."""

import errno
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from corpusmill import location


class Stop:
    """Stops a run when it creates its nth file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.at = count(), -1
        self.error: Callable[[], BaseException] = Exception
        for owner, name in ((Path, "open"), (location, "create_named")):
            monkeypatch.setattr(owner, name, self._watch(getattr(owner, name)))

    def _watch(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode == "wb" and next(self.calls) == self.at:
                raise self.error()
            return real(path, mode, *arguments, **named)

        return call


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
