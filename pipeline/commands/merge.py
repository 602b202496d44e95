"""The command that joins data sets to one."""

from dataclasses import dataclass, field
from typing import Literal

from corpusmill.commands.command import Command
from corpusmill.settings.options import Positionals
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Join data sets that were built with the same options, seed and tokenizer to one.

    Each becomes a generation, or several if it has several. The shards are copied as they are.
    """

    data_sets: Positionals
    """The data sets, in their order; two or more."""
    output: str
    """Folder of the new data set: a new or an empty one."""
    existing: Literal["refuse", "skip", "allow"] = "refuse"
    """What becomes of documents whose text an earlier one of the data sets holds: nothing is joined
    (refuse), they are left out with every row that holds any of their text (skip), or they stay
    (allow)."""
    replace: bool = False
    """Replace the data set in the output folder."""
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


COMMAND = Command(Merge, "pipeline.jobs.editing:merge")
