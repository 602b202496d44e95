"""The commands that build a data set, one for each objective in the registry."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, field, fields, make_dataclass
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, cast

from tyro.conf import subcommand

from corpusmill.commands.command import Choices, Command
from corpusmill.commands.flags import list_flags
from corpusmill.console.usage_errors import list_options
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.registry import FORMATS as INPUT_FORMATS
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.objectives.options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from pipeline.recipe.recipe import Build, BuildOptions

_Options = TypeVar("_Options", bound=BuildOptions)


@cache
def load_options(objective: str) -> type[ObjectiveOptions]:
    """Import the options of an objective.

    Raises:
        UserError: no command can be offered for it.
    """
    options = OBJECTIVES[objective]
    taken = sorted({*list_options(options)} & {"objective", *list_options(Build)})
    if taken:
        cause = f"its option {taken[0]} is one of every command"
        raise UserError(f"objective {objective}", cause, "Rename the option in its package")
    return options


def list_usable() -> list[str]:
    """List the objectives for which commands can be offered, ours first."""
    usable = []
    for name in OBJECTIVES.names:
        with suppress(UserError):
            load_options(name)
            usable.append(name)
    return usable


def make_commands(base: type[_Options]) -> dict[str, Callable[..., _Options]]:
    """Make a class of options for each objective, by its name; their docstrings are their help.

    Args:
        base: the options that do not depend on the objective.
    """
    return {name: make_command(base, name) for name in list_usable()}


def make_command(base: type[_Options], objective: str) -> Callable[..., _Options]:
    """Make the class of options of an objective, as `make_commands`; always the same one.

    Raises:
        UserError: the objective cannot be used.
    """
    return cast(Callable[..., _Options], _make(cast(Any, base), objective))


@cache
def _make(base: Any, objective: str) -> Any:
    options = load_options(objective)
    members: list[tuple[str, Any, Any]] = [("objective", options, field(default_factory=options))]
    if options.presets:
        presets = Literal[tuple(options.presets)] | None  # type: ignore[valid-type]
        members.append(("preset", presets, None))
    name = f"{base.__name__.removesuffix('Options')}{objective.capitalize()}"
    command = make_dataclass(name, members, bases=(base,), frozen=True, kw_only=True)
    command.__doc__ = options.summary
    return command


# The names of all formats, which no type of an option lists.
FORMAT_NAMES: Choices = {
    (DocumentOptions, "input_format"): ("auto", *INPUT_FORMATS.names),
    (OutputOptions, "output_format"): OUTPUT_FORMATS.names,
}


def any_objective() -> Any:
    """The objective's name on the command line, and its options; the first one is the default."""
    named = (Annotated[load_options(name), subcommand(name)] for name in list_usable())
    return reduce(or_, named)


def apply_preset(arguments: list[str]) -> list[str]:
    """Add the options of a preset to the arguments of a command, except those that are given.

    Args:
        arguments: of a build, or of a command that takes an objective's name after its own flags;
            without those after a lone `--`.

    Raises:
        UserError: the objective has no such preset.

    Example:
        bert --preset roberta --duplicates 2 becomes bert --preset roberta --duplicates 2
        --segments full-sentences --mask dynamic --max-predictions-per-seq None.
    """
    # There may be thousands of words, and each look at OBJECTIVES searches what is installed.
    names = frozenset(OBJECTIVES.names)
    words = [word for word in arguments if word in names]
    place = arguments.index("--preset") if "--preset" in arguments else len(arguments)
    if not words or place + 1 >= len(arguments) or arguments[place + 1] == "None":
        return arguments
    options, name = load_options(words[-1]), arguments[place + 1]
    rest = [*arguments[:place], *arguments[place + 2 :]]
    given = {word.replace("--no-", "--", 1) for word in rest}
    values = asdict(options.from_preset(name))
    added = {
        option.name: values[option.name]
        for option in fields(options)
        if f"--{option.name.replace('_', '-')}" not in given
    }
    return [rest[0], "--preset", name, *rest[1:], *list_flags(options, added)]


def command_for(objective: str) -> Command:
    """Return the command that builds data sets of an objective.

    Raises:
        UserError: the objective cannot be used.
    """
    build = "pipeline.jobs.build:build"
    return Command(make_command(Build, objective), build, apply_preset, FORMAT_NAMES)
