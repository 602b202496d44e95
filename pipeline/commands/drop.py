"""The command that removes documents from a data set, with all rows that hold their text."""

from dataclasses import dataclass, field

from corpusmill.commands.command import Command
from corpusmill.dataset.ownership import MEETING
from corpusmill.settings.options import Positional
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Remove documents from a data set, and every row that holds any of their text.

    Only the shards with such rows are written again. The manifest records what was removed. What
    this user's readers on this machine have unpacked of the old shards is removed, too; with
    --no-wait it stays in their cache, whose folder is then yours to delete.
    """

    data_set: Positional
    """The data set."""
    where: str | None = None
    """Remove the documents for which a condition of SQL is true, over document, file, source,
    split, place, length, tokens, digest and the kept fields: "url LIKE '%example%'". This needs
    duckdb."""
    document: tuple[int, ...] = ()
    """Remove documents by their ids, as `corpusmill trace` shows them."""
    copies: bool = False
    """Remove the other documents with the same text, too: those whose digests are the same. They
    are named in any case."""
    must_match: bool = False
    """End with status 1 if no document matches; otherwise nothing is done, with status 0."""
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)

    @property
    def meeting(self) -> str:
        """The file by which ranks meet that share the work."""
        return f"{self.data_set.rstrip('/')}/{MEETING}"


COMMAND = Command(Drop, "pipeline.jobs.editing:drop")
