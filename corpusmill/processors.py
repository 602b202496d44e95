"""How many processors this process may use, which may be fewer than the machine has."""

import os
from contextlib import suppress
from pathlib import Path

# What a container may use, as a time in a period, or "max".
_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def count_processors(processes: int = 1) -> int:
    """Return how many processors a batch system, a container or a user has left to this process.

    Args:
        processes: number of those that share this machine or container.
    """
    shared = own = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        own = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = map(float, _LIMIT.read_text().split())
        shared = min(shared, round(quota / period))
    return max(1, min(own, shared // processes))
