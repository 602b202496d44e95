"""The commands that build a data set, one for each objective in the registry."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, make_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

from corpusmill.commands.command import Command
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.options import Choices, options_of
from pipeline.job_options import Build, BuildOptions, list_input_formats

_Options = TypeVar("_Options", bound=BuildOptions)


def make_commands(base: type[_Options]) -> Mapping[str, type[_Options]]:
    """Make a class of options for each objective that can be used, by its name, ours first.

    Args:
        base: the options that do not depend on the objective.
    """
    commands = {}
    for name in OBJECTIVES.names:
        with suppress(UserError):
            commands[name] = make_command(base, name)
    return commands


def make_command(base: type[_Options], objective: str) -> type[_Options]:
    """Make the class of options of an objective, as `make_commands`; always the same one.

    Raises:
        UserError: the objective cannot be used.
    """
    return cast(type[_Options], add_objective(cast(Any, base), OBJECTIVES[objective]))


@cache
def add_objective(base: Any, options: Any) -> Any:
    """Add the options of an objective to those that do not depend on it; always the same class.

    Args:
        base: the class of the options that do not depend on the objective.
        options: that of the objective's; what they build is the help of the new class.

    Raises:
        UserError: an option has the name of one that every command has.
    """
    common = {"objective", *(one.name for one in options_of(Build))}
    taken = sorted(common.intersection(one.name for one in options_of(options)))
    if taken:
        cause = f"its option {taken[0]} is one of every command"
        raise UserError(options.__name__, cause, "Rename the option in its package")
    members: list[tuple[str, Any, Any]] = [("objective", options, field(default_factory=options))]
    if options.presets:
        presets = Literal[tuple(options.presets)] | None  # type: ignore[valid-type]
        members.append(("preset", presets, None))
    command = make_dataclass(base.__name__, members, bases=(base,), frozen=True, kw_only=True)
    command.__doc__ = options.summary
    return command


# The names of all formats, which no type of an option lists.
FORMAT_NAMES: Choices = {
    **list_input_formats(),
    (OutputOptions, "output_format"): OUTPUT_FORMATS.names,
}


def command_for(objective: str) -> Command:
    """Return the command that builds data sets of an objective.

    Raises:
        UserError: the objective cannot be used.
    """
    return Command(make_command(Build, objective), "pipeline.jobs.build:build", FORMAT_NAMES)
