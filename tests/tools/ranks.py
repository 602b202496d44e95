"""The ranks of a training, as forks of the process of the tests, which has imported PyTorch."""

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any


def run_two_ranks(function: Callable[..., object], *arguments: Any) -> None:
    """Call a function as `function(rank, *arguments)` in a process for each of two ranks."""
    fork = get_context("fork")
    ranks = [fork.Process(target=function, args=(rank, *arguments)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
