"""The command that makes a data set of some documents of another one."""

from dataclasses import dataclass, field

from corpusmill.commands.command import Command
from corpusmill.settings.options import Positional
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Make a data set of the rows of another one that hold text of chosen documents only.

    Nothing is tokenized or masked again: the rows are those of the data set, in its order.
    """

    data_set: Positional
    """The data set."""
    output: str
    """Folder of the new data set: a new or an empty one."""
    where: str | None = None
    """Choose the documents for which a condition of SQL is true, over document, file, source,
    split, place, length, tokens, digest and the kept fields: "tokens > 100". This needs duckdb."""
    document: tuple[int, ...] = ()
    """Choose documents by their ids, as `corpusmill trace` shows them."""
    replace: bool = False
    """Replace the data set in the output folder."""
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


COMMAND = Command(Subset, "pipeline.jobs.editing:subset")
