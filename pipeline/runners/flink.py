"""Flink: embedded, or a cluster that `--flink_master` names."""

from collections.abc import Sequence

from pipeline.runners.arguments import given_flags
from pipeline.runners.setting import Reach

_EMBEDDED = ("", "[local]", "[auto]")


def is_embedded(arguments: Sequence[str]) -> bool:
    """Whether Flink runs in the job server's own process."""
    return given_flags(arguments).get("flink_master", "") in _EMBEDDED


def defaults(arguments: Sequence[str]) -> dict[str, str]:
    """The set-up that Flink needs for a batch job in Python (BEAM says none of it)."""
    common = {"execution_mode_for_batch": "BATCH_FORCED"}
    if is_embedded(arguments):
        return {
            **common,
            "environment_type": "LOOPBACK",
            "experiments": "use_loopback_process_worker=True",
        }
    return {**common, "environment_type": "EXTERNAL", "environment_config": "localhost:50000"}


def reach(arguments: Sequence[str]) -> Reach:
    """Embedded: this machine. A cluster: what all of its machines mount."""
    return Reach.HERE if is_embedded(arguments) else Reach.SHARED


def parallelism(arguments: Sequence[str], _: int) -> int | None:
    """What `--parallelism` says."""
    given = given_flags(arguments).get("parallelism", "")
    return int(given) if given.isdigit() else None
