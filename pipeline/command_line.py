"""What the job adds to the command line `corpusmill`: its commands, and how they are run."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, cast

from corpusmill.commands import command_line
from corpusmill.commands.command import Command, Run
from corpusmill.objectives.registry import OBJECTIVES


class JobCommands:
    """A `corpusmill.commands.command.Job`; Beam is imported when a command is loaded or run."""

    def load(self, name: str) -> Command:
        """Import a command: the module of its name, or one that builds data sets.

        Raises:
            UserError: the objective cannot be used.
        """
        if name in OBJECTIVES:
            from pipeline.commands.builds import command_for  # noqa: PLC0415

            return command_for(name)
        module = import_module(f"pipeline.commands.{name.replace('-', '_')}")
        return cast(Command, module.COMMAND)

    def function(self, name: str) -> Callable[..., Any]:
        """Import a function of the job, which `corpusmill.job` calls."""
        return cast(Callable[..., Any], getattr(import_module("pipeline.calls"), name))

    def runner(self, command: Command) -> Run:
        """Import what runs a command, with Beam's file systems and the log of its options."""
        from pipeline.jobs.ranks import run_shared  # noqa: PLC0415

        return partial(run_shared, command.runner())


JOB = JobCommands()


def main(arguments: Sequence[str]) -> int:
    """Run one command in this process, as `corpusmill.commands.command_line.main`."""
    return command_line.main(arguments, JOB)
