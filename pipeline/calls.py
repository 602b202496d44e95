"""The job as functions: what `corpusmill.build` and its sisters in `corpusmill.job` call.

They run in somebody else's process: they raise what the command line prints, leave signals,
collector and standard streams as they find them, and may be called any number of times. Keyword
arguments become the options of a command, `input` names files or holds the texts themselves, and
messages spell options as keywords.
"""

import glob
import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, is_typeddict

from corpusmill.commands.command import Call
from corpusmill.console.outcomes import blame_system
from corpusmill.console.terminal import Terminal
from corpusmill.corpus.hub_data_sets import WIKITEXT
from corpusmill.errors import Mention, UserError, option, spell, suggest
from corpusmill.inspection.findings import find
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.filling import fill, read_value
from corpusmill.settings.options import Choices, groups_of, options_of
from corpusmill.settings.words import refuse_unknown
from pipeline.commands.builds import FORMAT_NAMES, add_objective
from pipeline.commands.drop import Drop
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.commands.train_tokenizer import TrainTokenizer
from pipeline.console.run_log import LogOptions, open_log
from pipeline.job_options import Build
from pipeline.jobs.build import log_end, run_build
from pipeline.jobs.corpus_inspection import measure_corpus
from pipeline.jobs.editing import run_drop
from pipeline.jobs.tokenizer_training import run_training
from pipeline.outcomes import find_system_error, use_beam_options
from pipeline.recipe.preparation import prepare
from pipeline.runners.failures import WorkerDiedError
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


def train_tokenizer(options: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Train a tokenizer and write its file.

    Args:
        options: all arguments of `corpusmill.train_tokenizer`, by name.

    Returns:
        The kind of tokenizer, and what was trained, in words.

    Raises:
        UserError: a mistake of the user's.
    """
    with _prepare(TrainTokenizer, options) as given:
        return given.command.suited.model, run_training(given.command, given.call, given.records)


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


@dataclass(frozen=True)
class _Given:
    """What a program gives to a function.

    Attributes:
        command: the options.
        records: what is read in place of files; None where files are named.
        call: as of a command.
    """

    command: Any
    records: Any
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
        cause = "the job was translated, and has made no data set"
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
        if kind is not InspectCorpus and (command.run.ranks or 1) > 1:
            cause = "only the command corpusmill takes part as a rank, started by a launcher"
            raise UserError(option("ranks", command.run.ranks), cause, "Leave it out")
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
    if isinstance(given, str) or not all(isinstance(word, str) for word in given):
        cure = "Give a list of options as on the command line, such as ['--region=europe-west4']"
        raise UserError(f"beam_options={given!r}", "it is not a list of strings", cure)
    return tuple(given)


# One word with a slash or a suffix, or a URL.
_LIKE_A_NAME = re.compile(r"\S*/\S*|\S+\.[A-Za-z0-9]{1,9}")
_LONGEST_NAME = 4096


def read_input(given: Any) -> tuple[tuple[str, ...], Any]:
    """Return the names of files, or the records that stand in their place.

    A string or a path names files. So does each member of a list whose first member is a path or a
    string that names a file: one that exists, or that is written like the name of a file or a URL.
    Everything else holds the records itself. None is for a corpus whose parts are named elsewhere.

    Raises:
        UserError: it is empty.
    """
    if given is None:
        return (), None
    if isinstance(given, str | os.PathLike):
        name = os.fspath(given)
        if "\n" in name or len(name) > _LONGEST_NAME:
            cause = "it is one string of text, and a string alone names a file"
            raise UserError(option("input"), cause, "Give a list of texts, each of them a document")
        return (name,), None
    if not isinstance(given, list | tuple):
        return (), given
    if not given:
        raise UserError(
            option("input"), "it has no value", "Name files, or give an iterable of texts"
        )
    if not _names_files(given[0]):
        return (), given
    return tuple(_check_names(given)), None


def _check_names(given: Sequence[Any]) -> Sequence[str]:
    for name in given:
        if not isinstance(name, str | os.PathLike):
            cause = (
                f"the first of its values names files, and another is of type {type(name).__name__}"
            )
            raise UserError(option("input"), cause, "Give the names of files alone, or iter(texts)")
    return [os.fspath(name) for name in given]


def _names_files(value: Any) -> bool:
    if isinstance(value, os.PathLike):
        return True
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or "\n" in value:
        return False
    if not value.strip():
        return False
    if value in WIKITEXT or _LIKE_A_NAME.fullmatch(value):
        return True
    path = os.path.expanduser(value)  # noqa: PTH111  no error for ~ and a word
    return os.path.lexists(path) or bool(glob.glob(path))  # noqa: PTH207


_CAPITAL = re.compile(r"(?<=.)(?=[A-Z])")
_LONGEST_SHOWN = 200
_AFTER_DEATH = (
    "A worker process died, and no file of the data set was published. If memory ran out, give "
    "fewer workers; otherwise run again."
)


def fill_command(
    command: Any,
    given: Mapping[str, Any],
    objective: str | ObjectiveOptions | None = None,
    choices: Choices | None = None,
) -> Any:
    """Return the options of a command.

    Args:
        command: the dataclass of its options.
        given: the keyword arguments by name: options, or the dataclass of a whole group of them by
            the name of its field.
        objective: its name, or its options; None for a command without one.
        choices: the values of options whose types do not list them.

    Raises:
        UserError: an option does not exist, or its value is not valid.
    """
    values, kind = dict(given), command
    if objective is not None:
        kind = add_objective(command, kind_of(objective))
        if isinstance(objective, ObjectiveOptions):
            _refuse_preset(objective, given.get("preset"))
            values["objective"] = objective
    declared = {entry.name: entry for entry in options_of(kind, choices)}
    groups = groups_of(command)
    for name, value in given.items():
        if name in groups:
            _check_group(name, value, groups[name])
        elif name in declared:
            values[name] = read_value(declared[name], value)
        else:
            raise _refuse_unknown(name, declared, command)
    return fill(kind, values)


def _check_group(name: str, value: Any, kind: Any) -> None:
    expected = dict if is_typeddict(kind) else kind
    if not isinstance(value, expected):
        cause = f"it is of type {type(value).__name__}"
        raise UserError(f"{name}=", cause, f"Give {kind.__name__}(...), or its options")


def _refuse_unknown(name: str, known: Collection[str], command: type[Any]) -> UserError:
    owners = [
        owner for owner in OBJECTIVES.names if name in {f.name for f in fields(OBJECTIVES[owner])}
    ]
    if owners and "preset" in known:
        cause = f"it is an option of {' and '.join(owners)} alone"
        return UserError(f"{name}=", cause, "Leave it out")
    function = _CAPITAL.sub("_", command.__name__).lower()
    error = refuse_unknown(name, known, f"help(corpusmill.{function}) explains all options")
    return error.about(f"{name}=")


def _refuse_preset(objective: ObjectiveOptions, preset: str | None) -> None:
    if preset is not None:
        cause = "the options of the objective are given, and those of a preset would replace them"
        cure = f"Give {type(objective).__name__}.from_preset({preset!r}), or the objective's name"
        raise UserError(option("preset", preset), cause, cure)


def kind_of(objective: str | ObjectiveOptions) -> type[ObjectiveOptions]:
    """Return the class of an objective's options.

    Raises:
        UserError: there is no such objective.
    """
    if isinstance(objective, ObjectiveOptions):
        return type(objective)
    names = OBJECTIVES.names
    if not isinstance(objective, str) or objective not in names:
        cure = suggest(str(objective), names, 1)
        cure += f"Give one of {', '.join(names)}, or the options of an objective"
        raise UserError(option("objective", objective), "there is no such objective", cure)
    return OBJECTIVES[objective]


def as_keyword(mention: Mention) -> str:
    """Spell an option as a keyword argument."""
    if not mention.literal:
        return mention.name
    literal = mention.literal
    if len(literal) > _LONGEST_SHOWN:
        literal = f"{literal[:_LONGEST_SHOWN]}..."
    return f"{mention.name}={literal}"


@contextmanager
def in_python() -> Iterator[None]:
    """Raise the errors of a job in the terms of Python while the block runs it.

    Raises:
        UserError: a mistake of the user's, or the state of the machine.
    """
    try:
        yield
    except UserError as error:
        raise error.spelled(as_keyword) from None
    except BaseException as error:
        if isinstance(error, WorkerDiedError):
            error.add_note(_AFTER_DEATH)
        mistake = blame_system(find_system_error(error))
        notes = getattr(error, "__notes__", [])
        if mistake is None:
            notes[:] = [spell(note, as_keyword) for note in notes]
            raise
        for note in notes:
            mistake.add_note(note)
        raise mistake.spelled(as_keyword) from error
