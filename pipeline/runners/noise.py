"""What Beam prints past all logging, when its workers are in or below this process."""

import subprocess
import threading
from typing import Any

from apache_beam.runners.worker import sdk_worker, worker_pool_main

from pipeline.runners.local.worker_watch import hide_broken_connections


class _QuietSubprocess:
    """`subprocess` as Beam's worker pool uses it."""

    PIPE = subprocess.DEVNULL  # it opens one that it never reads

    @staticmethod
    def Popen(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: N802
        return subprocess.Popen(command, **options, stderr=subprocess.DEVNULL)  # noqa: S603


def hide_noise() -> None:
    """Let workers print nothing: their failures are reported to the engine, which tells us.

    It holds until the process ends, as threads of Beam's may outlive the job.
    """
    # Each failure is printed with its trace. The module has no `print` of its own; now it has.
    sdk_worker.print = _print_nothing
    worker_pool_main.subprocess = _QuietSubprocess
    threading.excepthook = hide_broken_connections


def _print_nothing(*_: object, **__: object) -> None:
    """Instead of `print`."""
