"""A command's time, and the memory of all its processes together."""

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Measurement:
    """What a command took.

    Attributes:
        seconds: from its start to its end.
        peak_mib: largest sum, over all its processes, of proportional set sizes (PSS): memory that
            several share counts once.
        output: what it printed.
        first_mib: the largest of the first process alone, which of a job is the driver.
    """

    seconds: float
    peak_mib: float
    output: str
    first_mib: float = 0.0


def measure(command: Sequence[str], cwd: str | None = None) -> Measurement:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; with what it printed.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        start_new_session=True,
    )
    watch = _Watch(process.pid)
    watch.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - began
    watch.stop.set()
    watch.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}:\n{output}")
    return Measurement(seconds, watch.peak / 2**20, output, watch.first_peak / 2**20)


class _Watch(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.peak = self.first_peak = 0
        self._pid = pid

    def run(self) -> None:
        # A look costs 10 to 30 milliseconds of a core for each process, which gets no memory
        # meanwhile: five looks a second took 14 % of a core.
        while not self.stop.wait(1.0):
            try:
                root = psutil.Process(self._pid)
                processes = [root, *root.children(recursive=True)]
                first, *others = map(_proportional_bytes, processes)
                self.first_peak = max(self.first_peak, first)
                self.peak = max(self.peak, first + sum(others))
            except psutil.NoSuchProcess:
                continue


def _proportional_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
