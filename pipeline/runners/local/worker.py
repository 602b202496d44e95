"""What a worker process of the local runner does: it is Beam's worker, and dies with its parent."""

import ctypes
import logging
import os
import signal
import sys
from contextlib import redirect_stderr
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import numpy as np
from apache_beam.runners.worker import sdk_worker_main

from corpusmill.arrays.randomness import derive_keys

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 256 * 2**20


def main(environment: Connection) -> None:
    """Run Beam's worker until the runner ends it.

    Args:
        environment: gives what Beam's worker reads from its environment.
    """
    # Ctrl-C is the parent's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.getLogger().handlers.clear()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _keep_freed_memory()
    # The first call of a compiled kernel takes half a second, and the parent has no work yet.
    derive_keys(np.uint64(0), np.zeros(1, np.uint64), 0, 0)
    try:
        os.environ.update(environment.recv())
    except EOFError:  # the parent ended before it had work
        return
    # Beam prints the trace of each failure, which it also reports and the runner raises.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        try:
            sdk_worker_main.main(sys.argv)
        except grpc.RpcError:  # the engine is gone, and threads that it waits for would say so
            os._exit(1)


def _keep_freed_memory() -> None:
    """Let malloc keep what is freed.

    glibc gives large arrays back to the system at once, and each new one is then filled with zeros
    again, page by page: measured 10 % of all processor time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:  # not every libc has it
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
