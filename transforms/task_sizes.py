"""How much a task takes: what suits one engine, or one store, may not suit another."""

from dataclasses import dataclass
from typing import Annotated

from corpusmill.settings.constraints import CheckedOptions, Range


@dataclass(frozen=True)
class TaskSizes(CheckedOptions):
    """How much a task takes, for who knows an engine; no byte depends on it."""

    fan_in: Annotated[int, Range(2)] = 1000
    """The most files that one task takes; of more, neighbors are first joined in a tree. A store
    that serves few files at once needs a smaller one."""
    buffer_bytes: Annotated[int, Range(1)] = 32 * 2**20
    """The rows that a task holds before it writes them to a file, ordered by shard."""
    merge_bytes: Annotated[int, Range(1)] = 2**30
    """The rows that one task of the last level of merges takes in; it reads and writes them twice,
    within two minutes."""
    most_references: Annotated[int, Range(2)] = 2**16
    """The most references to parts of files that one task may be given; of more, files are merged
    first."""
    sort_bytes: Annotated[int, Range(1)] = 336 * 2**20
    """The rows of a shard that are sorted in memory; more go through files."""
