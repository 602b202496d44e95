"""The table of commands, and where each one is; nothing that is slow is imported for it.

To import all objectives takes a second, and the list of all commands is there at once: what an
objective's command builds is read from the source of its options, which is not run.
"""

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from corpusmill.commands.command import Command, Job
from corpusmill.errors import UserError, first_line, suggest
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.plugins import Plugins, installed_entries


def read_summary(objectives: Plugins[Any], name: str) -> str:
    """Return the `summary` of an objective's options; empty if it is not a plain text there.

    Args:
        objectives: the table of objectives.
        name: of the objective.
    """
    try:
        entry = objectives.find_entry(name)
        path = _find_source(entry.module)
        tree = ast.parse(path.read_bytes()) if path else ast.Module([], [])
    except (UserError, ImportError, OSError, SyntaxError, ValueError):
        return ""  # its command says what is wrong
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    members = (member for node in classes if node.name == entry.attr for member in node.body)
    for member in members:
        match member:
            case (
                ast.AnnAssign(target=ast.Name(id="summary"), value=ast.Constant(value=str(text)))
                | ast.Assign(targets=[ast.Name(id="summary")], value=ast.Constant(value=str(text)))
            ):
                return text
    return ""


def _find_source(module: str) -> Path | None:
    """Return the file of a module, without importing the packages that it is in."""
    package, *inner = module.split(".")
    spec = find_spec(package)
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        for path in (Path(folder, *inner).with_suffix(".py"), Path(folder, *inner, "__init__.py")):
            if path.is_file():
                return path
    return None


JOB_PACKAGE, _JOB_GROUP = "corpusmill-job", "corpusmill.job"


class Entry(NamedTuple):
    """A command in the table.

    Attributes:
        name: as a user types it.
        summary: what it does, in one line.
        is_of_job: whether it needs the job. Its module is `pipeline.commands.NAME` then, and
            `corpusmill.commands.NAME` otherwise.
    """

    name: str
    summary: str
    is_of_job: bool = False


_COMMANDS = (
    Entry("train-tokenizer", "Train a tokenizer on a corpus of any size.", is_of_job=True),
    Entry("inspect-corpus", "Measure a corpus, and estimate what a build of it would give.", True),
    Entry("drop", "Remove documents from a data set, and every row that holds their text.", True),
    Entry("inspect", "Show decoded examples and the distributions of a data set."),
    Entry("verify", "Check every byte, row and count of a data set against its manifest."),
    Entry("trace", "Trace rows to their documents and text, and documents to their rows."),
    Entry("audit", "Say what is wrong with token files, whoever wrote them."),
    Entry("files", "Print the paths of the shards of a data set, one on each line."),
    Entry("config", "Print all options of a command, or of a data set, as a file for --config."),
    Entry("push", "Push a data set to the Hugging Face hub, or go on with such a push."),
)
_OF_LIBRARY = {entry.name for entry in _COMMANDS if not entry.is_of_job}


def list_commands() -> list[Entry]:
    """List all commands: one that builds data sets for each objective, and then the others."""
    builds = (Entry(name, read_summary(OBJECTIVES, name), True) for name in OBJECTIVES.names)
    return [*builds, *_COMMANDS]


def needs_job(name: str) -> bool:
    """Whether a command is part of the job, and not of the library."""
    return name not in _OF_LIBRARY


def load_command(name: str, job: Job | None) -> Command:
    """Import a command.

    Raises:
        UserError: there is no such command, or it needs a package that is not installed.
    """
    names = [*OBJECTIVES.names, *(entry.name for entry in _COMMANDS)]
    if name not in names:
        raise refuse_command(name, names)
    with name_missing(name):
        if not needs_job(name):
            module = import_module(f"corpusmill.commands.{name.replace('-', '_')}")
            return cast(Command, module.COMMAND)
        if job is not None:
            return job.load(name)
    cause = "the command needs the job, which is not installed"
    raise UserError(name, cause, f"Run `pip install {JOB_PACKAGE}`")


def refuse_command(name: str, names: Sequence[str]) -> UserError:
    """Return the error for a command that does not exist.

    Args:
        name: as the user typed it.
        names: of the commands.
    """
    cure = f"{suggest(name, names)}Give one of {', '.join(names)}"
    return UserError(name, "there is no such command", cure)


@contextmanager
def name_missing(name: str) -> Iterator[None]:
    """Name the package that is missing if imports of a command in a block fail.

    Raises:
        UserError: one is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        cause = f"the package {(error.name or '').partition('.')[0]} is not installed"
        package = JOB_PACKAGE if needs_job(name) else "corpusmill"
        raise UserError(name, cause, f"Run `pip install {package}`") from error


def find_job() -> Job | None:
    """Find the job, if it is installed.

    Raises:
        UserError: it cannot be imported.
    """
    for entry in installed_entries().select(group=_JOB_GROUP):
        try:
            return cast(Job, entry.load())
        except ImportError as error:
            cause = f"{entry.value} cannot be imported ({first_line(error)})"
            raise UserError(JOB_PACKAGE, cause, f"Run `pip install {JOB_PACKAGE}`") from error
    return None


def list_versions() -> list[str]:
    """List the versions of the library and, where it is installed, of the job."""
    lines = []
    for package in ("corpusmill", JOB_PACKAGE):
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return lines or ["corpusmill, from a checkout that is not installed"]
