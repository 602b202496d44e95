"""The time, the processor time and the memory that commands and functions take."""

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import psutil

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Measurement:
    """What a command took.

    Attributes:
        seconds: wall time from its start to its end.
        processor_seconds: processor time of all its processes.
        peak_mib: the largest sum, over all its processes, of proportional set sizes (PSS), in which
            shared memory counts once.
        first_mib: the largest PSS of its first process; that of a job is the driver.
        output: what it printed.
        examples: the number of examples that it built, if it built a data set.
        tokens: the number of tokens that it wrote, those of targets included.
    """

    seconds: float
    processor_seconds: float
    peak_mib: float
    first_mib: float
    output: str
    examples: int = 0
    tokens: int = 0

    @property
    def result(self) -> dict[str, Any]:
        """The last line of JSON that the command printed."""
        lines = reversed(self.output.splitlines())
        result: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
        return result


def measure(
    module: str, *arguments: object, watch: bool = True, python: str = sys.executable
) -> Measurement:
    """Run `python -m MODULE ARGUMENTS` to its end.

    Args:
        module: a module with a command line.
        arguments: its arguments; they are turned into strings.
        watch: measure the memory, too, which takes up to 3 % of a core for each process.
        python: that of the environment to run it in.

    Raises:
        RuntimeError: the command failed; the message contains its output.
    """
    return measure_command([python, "-m", module, *map(str, arguments)], watch)


def measure_command(
    command: Sequence[str], watch: bool = True, observe: Callable[[int], None] | None = None
) -> Measurement:
    """Run a command to its end, as `measure`.

    Args:
        command: a program and its arguments.
        watch: as in `measure`.
        observe: called about once a second with the bytes of memory that all processes take.
    """
    processor_seconds, began = ended_children_seconds(), time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    memory = _Memory(process.pid, observe)
    if watch:
        memory.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - began
    processor_seconds = ended_children_seconds() - processor_seconds
    if watch:
        memory.stop.set()
        memory.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}:\n{output}")
    peaks = (memory.peak / 2**20, memory.first_peak / 2**20)
    return Measurement(seconds, processor_seconds, *peaks, output)


class _Memory(threading.Thread):
    """Samples the memory of a process and its descendants."""

    def __init__(self, pid: int, observe: Callable[[int], None] | None) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.peak = self.first_peak = 0
        self._pid, self._observe = pid, observe

    def run(self) -> None:
        # A sample takes 10 to 30 ms of a core for each process, and the process cannot allocate
        # memory meanwhile: five samples a second took 14 % of a core.
        while not self.stop.wait(1.0):
            try:
                root = psutil.Process(self._pid)
                processes = [root, *root.children(recursive=True)]
                first, *others = map(_proportional_bytes, processes)
                self.first_peak = max(self.first_peak, first)
                self.peak = max(self.peak, first + sum(others))
                if self._observe:
                    self._observe(first + sum(others))
            except psutil.NoSuchProcess:
                continue


def _proportional_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def ended_children_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_call(call: Callable[[], _Result]) -> tuple[_Result, float]:
    """Return a call's result and its processor seconds, those of all threads together.

    Other programs on the machine affect processor time less than wall time.
    """
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def take_turns(
    calls: Mapping[_Key, Callable[[], _Result]], rounds: int
) -> dict[_Key, list[_Result]]:
    """Make all calls once in each round, as the speed of a shared machine changes over time.

    Returns:
        The results of each call, one per round.
    """
    results: dict[_Key, list[_Result]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            results[key].append(call())
    return results


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return median(a / b for a, b in zip(numerators, denominators, strict=True))
