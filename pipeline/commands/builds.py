"""The commands that build a data set, one for each objective in the registry."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, field, fields, make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar

from tyro.conf import subcommand

from corpusmill.commands.build_command import list_flags
from corpusmill.commands.command import Choices, Command
from corpusmill.console.usage_errors import list_options
from corpusmill.corpus.input_formats import FORMATS as INPUT_FORMATS
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.objectives.options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from pipeline.preparation.build_options import Build, BuildOptions

_Options = TypeVar("_Options", bound=BuildOptions)

# The objectives that installed packages provide, but whose commands cannot be offered, and why.
UNUSABLE: dict[str, UserError] = {}


def _load_objectives() -> Iterator[tuple[str, type[ObjectiveOptions]]]:
    """Yield all objectives that can be used, ours first."""
    common = {"objective", *list_options(Build)}
    for name in OBJECTIVES.names:
        try:
            options = OBJECTIVES[name]
            taken = sorted({*list_options(options)} & common)
            if taken:
                cause = f"its option {taken[0]} is one of every command"
                raise UserError(f"objective {name}", cause, "Rename the option in its package")
        except UserError as error:
            UNUSABLE[name] = error
        else:
            yield name, options


_OPTIONS = dict(_load_objectives())


def make_commands(prefix: str, base: type[_Options]) -> dict[str, Callable[..., _Options]]:
    """Make a class of options for each objective, by its name; their docstrings are their help.

    Args:
        prefix: of the names of the classes.
        base: the options that do not depend on the objective, of `BuildOptions`.
    """
    return {name: _make_command(prefix, base, name) for name in _OPTIONS}


def _make_command(prefix: str, base: type[_Options], name: str) -> type[_Options]:
    options = _OPTIONS[name]
    members: list[tuple[str, Any, Any]] = [("objective", options, field(default_factory=options))]
    if options.presets:
        presets = Literal[tuple(options.presets)] | None  # type: ignore[valid-type]
        members.append(("preset", presets, None))
    command = make_dataclass(
        f"{prefix}{name.capitalize()}", members, bases=(base,), frozen=True, kw_only=True
    )
    command.__doc__ = options.summary
    return command


BUILDS: dict[str, Callable[..., Build]] = make_commands("Build", Build)

# The names of all formats, which no type of an option lists.
FORMAT_NAMES: Choices = {
    (DocumentOptions, "input_format"): ("auto", *INPUT_FORMATS.names),
    (OutputOptions, "output_format"): OUTPUT_FORMATS.names,
}

# Any objective, for a command that takes its name after the other flags; the first is the default.
AnyObjective: Any = reduce(
    or_, (Annotated[options, subcommand(name)] for name, options in _OPTIONS.items())
)
DefaultObjective = next(iter(_OPTIONS.values()))


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
    words = [word for word in arguments if word in _OPTIONS]
    place = arguments.index("--preset") if "--preset" in arguments else len(arguments)
    if not words or place + 1 >= len(arguments) or arguments[place + 1] == "None":
        return arguments
    options, name = _OPTIONS[words[-1]], arguments[place + 1]
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
    if objective in UNUSABLE:
        raise UNUSABLE[objective]
    build = "pipeline.commands.build_dataset:build"
    return Command(BUILDS[objective], build, apply_preset, FORMAT_NAMES)
