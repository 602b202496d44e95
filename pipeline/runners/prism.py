"""Prism, Beam's own runner in Go: one worker process on this machine, a second engine for tests."""

from collections.abc import Sequence

from pipeline.runners.setting import Reach


def defaults(_: Sequence[str]) -> dict[str, str]:
    """Workers are processes of this machine."""
    return {"environment_type": "LOOPBACK"}


def reach(_: Sequence[str]) -> Reach:
    """The worker is a process of this machine."""
    return Reach.HERE


def parallelism(_: Sequence[str], __: int) -> int | None:
    """One worker."""
    return 1
