"""What Beam prints without logging it, when its workers run in this process or as its children."""

import subprocess
import threading
from typing import Any

from apache_beam.runners.worker import sdk_worker, worker_pool_main

from pipeline.runners.local.worker_watch import hide_broken_connections


class _QuietSubprocess:
    """Stands in for `subprocess` in Beam's worker pool."""

    PIPE = subprocess.DEVNULL  # Beam opens a pipe that it never reads

    @staticmethod
    def Popen(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: N802
        return subprocess.Popen(command, **options, stderr=subprocess.DEVNULL)  # noqa: S603


def hide_noise() -> None:
    """Keep workers from printing their failures, which they also report to the engine.

    This lasts until the process ends, because some of Beam's threads may outlive the job.
    """
    # Beam prints each failure with its trace. The module has no `print` of its own until now.
    sdk_worker.print = _print_nothing
    worker_pool_main.subprocess = _QuietSubprocess
    threading.excepthook = hide_broken_connections


def _print_nothing(*_: object, **__: object) -> None:
    """Take the place of `print`."""
