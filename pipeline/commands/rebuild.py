"""The command that builds a data set again from its manifest, and compares the result."""

from dataclasses import dataclass, field

from corpusmill.commands.command import Command
from corpusmill.settings.options import Positional
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class Rebuild:
    """Build a data set again from its manifest, and compare the digests.

    All options that change a byte, and the tokenizer, are those of the data set.
    """

    data_set: Positional
    """The data set: its folder, or its dataset.json with the tokenizer.json beside it."""
    output: str
    """Folder of the new data set: a new or an empty one."""
    input: tuple[str, ...] = ()
    """The input of the data set, wherever it is now; not needed if all of it is on the Hugging Face
    hub."""
    source: tuple[str, ...] = ()
    """In place of --input, for a data set of several sources: NAME=PATH of each."""
    drop_overlap_with: tuple[str, ...] = ()
    """The evaluation set, if documents were compared with one."""
    filter: tuple[str, ...] = ()
    """The filters of the data set that are package.module:function, if it has any: what a manifest
    alone names is run only if it is an entry point of an installed package."""
    words: str | None = None
    """Its rule of words, likewise."""
    replace: bool = False
    """Replace the data set in the output folder."""
    resume: bool = False
    """Resume a run into the output folder that was stopped; if there is none, start one."""
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


COMMAND = Command(Rebuild, "pipeline.jobs.rebuilding:rebuild")
