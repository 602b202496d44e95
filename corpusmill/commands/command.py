"""What a command is, how it was called, and what the job adds to the command line."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, cast

from rich.console import Console

from corpusmill.console.process import EndingSignals
from corpusmill.location import Location, locate
from corpusmill.settings.options import Choices, Option, options_of

# What a block of imports is wrapped in: `quick_imports`, or nothing in somebody else's process.
Importing = Callable[..., AbstractContextManager[Any]]


@dataclass(frozen=True)
class Call:
    """How a command was called.

    Attributes:
        console: where it prints.
        locate: parses a path or a URL.
        typed: the whole command line, for reports.
        engine_arguments: what follows after a lone `--`.
        signals: of the process.
        job: the job; None if it is not installed.
        importing: wraps slow imports while the command runs.
    """

    console: Console
    locate: Callable[[str], Location] = locate
    typed: str = ""
    engine_arguments: tuple[str, ...] = ()
    signals: EndingSignals = field(default_factory=EndingSignals)
    job: "Job | None" = None
    importing: Importing = nullcontext


@dataclass(frozen=True)
class Command:
    """A command, which its module offers as `COMMAND`.

    Attributes:
        options: the dataclass of its options, whose docstring is its help.
        run: runs it with such options, and returns the exit status; or the "package.module:name" of
            what does, so that help needs no slow imports.
        choices: the values of options whose types do not list them.
        variants: the dataclasses of its options by the word that chooses them, such as the name of
            an objective; empty for a command without such a word.
        variant: the word by default; empty for a command without such a word.
    """

    options: type[Any]
    run: "Run | str"
    choices: Choices = field(default_factory=dict)
    variants: Mapping[str, type[Any]] = field(default_factory=dict)
    variant: str = ""

    def runner(self) -> "Run":
        """Import what runs it."""
        if not isinstance(self.run, str):
            return self.run
        module, _, name = self.run.partition(":")
        return cast(Run, getattr(import_module(module), name))

    def choose(self, variant: str) -> "Command":
        """Return the command with the options of a variant; itself if it has none."""
        if not variant:
            return self
        return replace(self, options=self.variants[variant], variants={}, variant="")

    def list_options(self) -> list[Option]:
        """List the options, those of the variant by default included."""
        return options_of(self.choose(self.variant).options, self.choices)


# Runs a command with its options, and returns the exit status.
Run = Callable[[Any, Call], int]


class Job(Protocol):
    """What the job adds to the command line, which its package registers as an entry point."""

    def load(self, name: str) -> Command:
        """Import a command of the table.

        Raises:
            UserError: the package of its objective is broken.
        """

    def function(self, name: str) -> Callable[..., Any]:
        """Import a function that `corpusmill.job` calls."""

    def runner(self, command: Command) -> Run:
        """Import what runs any command with Beam's file systems and the log of its options.

        It reports a failure itself.
        """
