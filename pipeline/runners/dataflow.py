"""Google Cloud Dataflow."""

from collections.abc import Sequence

from pipeline.runners.arguments import given_flags
from pipeline.runners.setting import Reach


def defaults(_: Sequence[str]) -> dict[str, str]:
    """None yet that Beam does not have itself."""
    return {}


def reach(_: Sequence[str]) -> Reach:
    """Workers are machines of the cloud."""
    return Reach.STORES


def parallelism(arguments: Sequence[str], _: int) -> int | None:
    """What `--max_num_workers` says; it scales by itself otherwise."""
    given = given_flags(arguments).get("max_num_workers", "")
    return int(given) if given.isdigit() else None
