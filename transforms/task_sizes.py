"""How much a task takes: what suits one engine, or one store, may not suit another."""

from dataclasses import dataclass

from corpusmill.errors import check_option


@dataclass(frozen=True)
class TaskSizes:
    """How much a task takes, for who knows an engine; no byte depends on it."""

    fan_in: int = 1000
    """The most files that one task takes; of more, neighbors are first joined in a tree. A store
    that serves few files at once needs a smaller one."""
    buffer_bytes: int = 32 * 2**20
    """The rows that a task holds before it writes them to a file, ordered by shard."""
    merge_bytes: int = 2**30
    """The rows that one task of the last level of merges takes in; it reads and writes them twice,
    within two minutes."""
    most_references: int = 2**16
    """The most references to parts of files that one task may be given; of more, files are merged
    first."""
    sort_bytes: int = 336 * 2**20
    """The rows of a shard that are sorted in memory; more go through files."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is less than the least with which the job works.
        """
        for name, value in vars(self).items():
            least = 2 if name in {"fan_in", "most_references"} else 1
            check_option(name, value, value >= least, f"{least} or more")
