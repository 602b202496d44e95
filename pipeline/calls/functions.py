"""What `corpusmill.build`, `corpusmill.train_tokenizer` and the other functions of the job call.

They run in somebody else's process: they raise what the command line prints, leave signals,
collector and standard streams as they find them, and may be called any number of times.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpusmill.commands.command import Call
from corpusmill.console.terminal import Terminal
from corpusmill.errors import UserError, option
from corpusmill.inspection.findings import find
from corpusmill.objectives.objective_options import ObjectiveOptions
from pipeline.calls.given_input import read_input
from pipeline.calls.keywords import as_keyword, fill_command, in_python
from pipeline.commands.builds import FORMAT_NAMES
from pipeline.commands.drop import Drop
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.commands.merge import Merge
from pipeline.commands.subset import Subset
from pipeline.commands.train_tokenizer import TrainTokenizer
from pipeline.console.run_log import LogOptions, open_log
from pipeline.jobs.build import log_end, run_build
from pipeline.jobs.corpus_inspection import measure_corpus
from pipeline.jobs.editing import run_drop, run_merge, run_subset
from pipeline.jobs.tokenizer_training import run_training
from pipeline.outcomes import use_beam_options
from pipeline.recipe.build_options import Build
from pipeline.recipe.recipe import prepare
from pipeline.recipe.records import Records
from transforms.storage.files import locate_any

# Log, signals and the workers of an engine belong to the process, so that calls run one at a time.
# A call within an iterable that another call reads is let through.
_RUNNING = threading.RLock()


def build(objective: str | ObjectiveOptions, options: Mapping[str, Any]) -> None:
    """Build a data set.

    Args:
        objective: its name, or its options.
        options: all other arguments of `corpusmill.build`, by name.

    Raises:
        UserError: a mistake of the user's.
        WorkerDiedError: a worker process on this machine died.
        JobFailedError: the job failed for a known reason.
        JobCancelledError: somebody else cancelled the job.
    """
    with _prepare(Build, options, objective) as given:
        _finish(given, partial(run_build, prepare=partial(prepare, records=given.records)))
        manifest, _ = log_end(given.command.dataset.output)
        for finding in find(manifest, as_keyword):
            given.call.console.print(f"finding: {finding}")


def inspect_corpus(objective: str | ObjectiveOptions, options: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a corpus.

    Args:
        objective: its name, or its options.
        options: all other arguments of `corpusmill.inspect_corpus`, by name.

    Returns:
        The numbers that `corpusmill.inspection.corpus_numbers` describes.

    Raises:
        UserError: a mistake of the user's.
        Exception: as for `build`.
    """
    with _prepare(InspectCorpus, options, objective) as given:
        return measure_corpus(given.command, given.call, given.records)


def train_tokenizer(options: Mapping[str, Any]) -> list[str]:
    """Train a tokenizer and write its file.

    Args:
        options: all arguments of `corpusmill.train_tokenizer`, by name.

    Returns:
        What was trained, in words.

    Raises:
        UserError: a mistake of the user's.
    """
    with _prepare(TrainTokenizer, options) as given:
        return run_training(given.command, given.call, given.records)


def drop(options: Mapping[str, Any]) -> None:
    """Remove documents from a data set.

    Args:
        options: all arguments of `corpusmill.drop`, by name.

    Raises:
        UserError: a mistake of the user's.
        Exception: as for `build`.
    """
    with _prepare(Drop, options) as given:
        _finish(given, run_drop)


def subset(options: Mapping[str, Any]) -> None:
    """Make a data set of some documents of another one; as `drop`."""
    with _prepare(Subset, options) as given:
        _finish(given, run_subset)


def merge(options: Mapping[str, Any]) -> None:
    """Join data sets to one; as `drop`."""
    with _prepare(Merge, options) as given:
        _finish(given, run_merge)


@dataclass(frozen=True)
class _Given:
    """What a program gives to a function.

    Attributes:
        command: the options.
        records: what is read in place of files; None where files are named.
        call: as of a command.
    """

    command: Any
    records: Records | None
    call: Call


def _finish(given: _Given, run: Callable[[Any, Call], bool]) -> None:
    """Run a job to its end.

    Args:
        given: the command, and how it is called.
        run: runs it, and returns whether the data set is there.

    Raises:
        UserError: the job is not to be waited for, or only to be translated.
    """
    if not given.command.run.wait:
        cause = "the data set is returned, which is there once the job has ended"
        raise UserError(option("wait", False), cause, "Leave it out, or use the command corpusmill")
    if not run(given.command, given.call):
        cause = "the job was translated and checked, and has made no data set"
        raise UserError("beam_options --dry_run", cause, "Leave it out")


@contextmanager
def _prepare(
    kind: type[Any], options: Mapping[str, Any], objective: str | ObjectiveOptions | None = None
) -> Iterator[_Given]:
    """Fill in a command, and open its log while the block runs it."""
    values = {name: value for name, value in options.items() if name != "beam_options"}
    records = None
    with _RUNNING, in_python():
        beam_arguments = _read_beam_options(options.get("beam_options", ()))
        if "input" in values:
            values["input"], records = read_input(values["input"])
        if records is not None and values.get("source"):
            cause = "either all text belongs to sources with names, or none does"
            raise UserError("input and source", cause, "Give input=None, or leave source out")
        command = fill_command(kind, values, objective, FORMAT_NAMES)
        use_beam_options(beam_arguments)
        # Rich would render for a notebook what goes to a stream here.
        console = Terminal(stderr=True, force_jupyter=False)
        with _open_log(getattr(command, "log", LogOptions())):
            call = Call(console, locate_any, engine_arguments=beam_arguments)
            yield _Given(command, records, call)


@contextmanager
def _open_log(options: LogOptions) -> Iterator[None]:
    """Write the log that a call asks for; by default the program's own logging has the events."""
    if options != LogOptions():
        with open_log(options):
            yield
        return
    root, beam = logging.getLogger(), logging.getLogger("apache_beam")
    previous, first_handlers = (
        beam.level,
        [logging.lastResort] if logging.lastResort and not root.handlers else [],
    )
    # The errors that it logs are raised as well.
    beam.setLevel(logging.CRITICAL)
    root.addFilter(_is_not_beams)
    for handler in first_handlers:  # otherwise Beam would make one, and leave it there
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in first_handlers:
            root.removeHandler(handler)
        root.removeFilter(_is_not_beams)
        beam.setLevel(previous)


def _is_not_beams(record: logging.LogRecord) -> bool:
    """Whether a record of the root's logger is from a program's own code."""
    return "apache_beam" not in Path(record.pathname).parts


def _read_beam_options(given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        cure = "Give a list of options as on the command line, such as ['--region=europe-west4']"
        raise UserError(f"beam_options={given!r}", "it is not a list of strings", cure)
    return tuple(given)
