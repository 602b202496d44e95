"""What a job asks of the place where it runs, and what every engine refuses of that."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.hub.wikitext import WIKITEXT
from corpusmill.errors import UserError

# A retried shard is built again whole. What is above this takes hours, and its rows are sorted in
# slices of 64 MB up to here.
LARGEST_SHARD_BYTES = 16 * 2**30


class Reach(Enum):
    """Which files the workers of an engine can open."""

    HERE = "all files of this machine"
    SHARED = "folders that every machine mounts at the same place, and object stores"
    STORES = "object stores"


@dataclass(frozen=True)
class Setting:
    """The places and sizes of a job.

    Attributes:
        runner: the runner's name, as the user gave it.
        arguments: Beam's own options, complete.
        paths: (flag, value) of every place that workers open.
        tasks: number of tasks that the input is cut into; 0 before it was.
        range_bytes_given: whether the user chose --range-bytes.
        wait: whether the command waits for the end of the job.
    """

    runner: str
    arguments: tuple[str, ...]
    paths: tuple[tuple[str, str], ...]
    tasks: int = 0
    range_bytes_given: bool = False
    wait: bool = True

    @property
    def places(self) -> dict[str, list[str]]:
        """The places of each kind: {"input": [...], "output": [...]}."""
        places: dict[str, list[str]] = {}
        for flag, value in self.paths:
            places.setdefault(flag.strip("-").replace("-", "_"), []).append(value)
        return places


def check_reach(setting: Setting, reach: Reach) -> None:
    """Refuse places that the workers cannot open.

    Raises:
        UserError: there is one.
    """
    if reach is Reach.HERE:
        return
    for flag, value in setting.paths:
        if FileSystems.get_scheme(value) is not None or value in WIKITEXT:
            continue
        if reach is Reach.STORES:
            raise UserError(
                f"{flag} {value}",
                f"the workers of {setting.runner} run elsewhere and cannot open a local path",
                "Give a path of an object store, such as gs://bucket/folder",
            )
        if not Path(value).expanduser().is_absolute():
            raise UserError(
                f"{flag} {value}",
                f"the workers of {setting.runner} may run elsewhere, where a relative path names "
                "another file",
                "Give an absolute path that all machines mount, or one of an object store",
            )


def check_spread(setting: Setting, parallelism: int | None) -> None:
    """Refuse ranges so long that most workers would have none.

    Args:
        setting: with the number of tasks.
        parallelism: of the engine; None where it is not known.

    Raises:
        UserError: there are fewer tasks than workers, because the user chose the ranges so long.
    """
    if parallelism and setting.range_bytes_given and 0 < setting.tasks < parallelism:
        raise UserError(
            "--range-bytes",
            f"the input makes {setting.tasks} tasks of that size, for {parallelism} workers",
            "Give a smaller one, or leave it out",
        )


def check_wait(setting: Setting, tie: str) -> None:
    """Refuse to leave a job alone that ends with this process.

    Args:
        setting: with whether to wait.
        tie: what of the job lives in this process.

    Raises:
        UserError: something does, and the command is not to wait.
    """
    if tie and not setting.wait:
        raise UserError(
            f"--no-wait --runner {setting.runner}",
            tie,
            "Leave --no-wait out, or give an engine and workers that stay (a --job_endpoint and an "
            "--environment_type other than LOOPBACK)",
        )


def check_shards(shards: int, passed_bytes: int) -> None:
    """Refuse so few shards that each would be more than a worker's work.

    Args:
        shards: of the data set; 0 where none are made.
        passed_bytes: of text, counted once for each repeat.

    Raises:
        UserError: a shard is too large, because the user chose so few.
    """
    if shards and passed_bytes > shards * LARGEST_SHARD_BYTES:
        raise UserError(
            "--num-shards",
            f"each of {shards:,} shards would be one worker's work, from "
            f"{passed_bytes / shards / 2**30:,.0f} GB of text",
            f"Give {-(-passed_bytes // LARGEST_SHARD_BYTES):,} or more, or leave it out",
        )


def paths_of(
    inputs: Sequence[str], output: str, temp_location: str | None
) -> tuple[tuple[str, str], ...]:
    """The places of a job with the flags that name them."""
    given = [("--input", path) for path in inputs]
    places = [("--output", output), ("--temp-location", temp_location or "")]
    return tuple(given + [place for place in places if place[1]])
