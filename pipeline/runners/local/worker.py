"""What a worker process on this machine does: it runs Beam's worker, and dies with its parent."""

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from functools import partial, wraps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
from apache_beam.runners.worker import (
    channel_factory,
    sdk_worker,
    sdk_worker_main,
    statesampler,
)

from corpusmill.arrays.kernel_cache import before_compiling
from corpusmill.arrays.randomness import mix
from corpusmill.console.process import ENDING_SIGNALS
from corpusmill.outages import Patience

# What the environment of a worker has of an engine on another machine: its certificate, and its
# working directory.
CERTIFICATE, FOLDER = "CORPUSMILL_CERTIFICATE", "CORPUSMILL_FOLDER"
# The name in the certificate.
HOST_NAME = "corpusmill"
_SECONDS_TO_END = 5
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# With 256 MiB, what stayed free between large arrays added 100 MiB to two workers. 16 and 64 MiB
# took the same memory and time.
_KEPT_BYTES = 32 * 2**20
_SAMPLING_MILLISECONDS = 10


def main(environment: Connection, compiling: Connection) -> None:
    """Run Beam's worker until the engine ends it.

    Args:
        environment: receives the variables that Beam's worker reads from its environment.
        compiling: written to when a kernel is compiled, as a worker has no terminal.
    """
    # They come to all processes of a terminal, or of a step of Slurm's; the parent handles them.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_SECONDS_TO_END))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
    logging.getLogger().handlers.clear()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _keep_freed_memory()
    return_memory_between_bundles()
    end_bundles_at_once()
    Patience.first_seconds = float("inf")
    channels = channel_factory.GRPCChannelFactory
    # A proxy for the web that the environment names does not know this machine's addresses.
    channels.DEFAULT_OPTIONS = [*channels.DEFAULT_OPTIONS, ("grpc.enable_http_proxy", 0)]
    before_compiling(partial(compiling.send_bytes, b"1"))
    # The first call of a compiled kernel takes half a second; there is no work to do yet.
    mix(np.uint64(0))
    try:
        variables = environment.recv()
    except EOFError:  # the parent ended before it had work
        return
    if certificate := variables.pop(CERTIFICATE, ""):
        encrypt_channels(certificate)
        with suppress(OSError):  # paths may be absolute
            os.chdir(variables[FOLDER])
    os.environ.update(variables)
    # Beam prints the trace of each failure, which it also reports and the engine raises; and so do
    # libraries in Rust, which do not ask Python for standard error.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        os.dup2(nowhere.fileno(), 2)
        try:
            sdk_worker_main.main(sys.argv)
        except grpc.RpcError:  # the engine is gone, and Beam's threads would print that
            os._exit(1)


def encrypt_channels(certificate: str) -> None:
    """Let Beam reach its engine, which is on another machine, only where that has a certificate."""
    channels = channel_factory.GRPCChannelFactory
    options = [*channels.DEFAULT_OPTIONS, ("grpc.ssl_target_name_override", HOST_NAME)]
    credentials = grpc.ssl_channel_credentials(certificate.encode())

    def secure_channel(target: str, options: Sequence[Any] | None = None) -> grpc.Channel:
        return channels.secure_channel(target, credentials, options)

    channels.DEFAULT_OPTIONS, channels.insecure_channel = options, staticmethod(secure_channel)


def end_bundles_at_once() -> None:
    """Let Beam look often which stage works, as a bundle ends only after its last look.

    Its looks are up to 200 ms apart: 0.1 seconds of a long bundle and a tenth of a short one were
    spent waiting.
    """
    statesampler.StateSampler.__init__.__defaults__ = (_SAMPLING_MILLISECONDS,)


def return_memory_between_bundles() -> None:
    """Let malloc return freed memory when a bundle begins.

    A worker has one bundle of each stage. What one stage has kept (see `_keep_freed_memory`) is of
    no use to the buffers of the next: 240 MiB of each worker, as measured between reading and
    building.
    """
    process = sdk_worker.SdkWorker.process_bundle

    @wraps(process)
    def process_bundle(worker: sdk_worker.SdkWorker, *request: Any) -> Any:
        pa.system_memory_pool().release_unused()
        return process(worker, *request)

    sdk_worker.SdkWorker.process_bundle = process_bundle


def _keep_freed_memory() -> None:
    """Let malloc keep freed memory.

    glibc returns large arrays to the system at once, which then fills each new one with zeros, page
    by page: 10 % of all processor time, as measured. So do its arenas for threads, and Arrow's own
    allocator after a moment.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:  # not every libc has it
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)
