"""A worker process of the local runner: Beam's, but Ctrl-C is its parent's, and it dies with it."""

import ctypes
import os
import signal
import sys
from contextlib import redirect_stderr
from pathlib import Path

from apache_beam.runners.worker import sdk_worker_main

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run Beam's worker until the runner ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Beam prints the trace of each failure, which it also reports and the runner raises.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
