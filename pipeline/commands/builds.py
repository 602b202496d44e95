"""The commands that build a data set, one for each objective in the registry."""

from collections.abc import Callable
from dataclasses import field, make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any

from tyro.conf import subcommand

from corpusmill.objectives.objective import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES, options_class
from pipeline.preparation.recipe import Build

_OPTIONS: dict[str, type[ObjectiveOptions]] = {name: options_class(name) for name in OBJECTIVES}


def _make_command(name: str, options: type[ObjectiveOptions]) -> type[Build]:
    """The class of a command, whose docstring is its help."""
    objective = ("objective", options, field(default_factory=options))
    command = make_dataclass(
        f"Build{name.capitalize()}", [objective], bases=(Build,), frozen=True, kw_only=True
    )
    command.__doc__ = options.summary
    return command


BUILDS: dict[str, Callable[..., Build]] = {
    name: _make_command(name, options) for name, options in _OPTIONS.items()
}

# Any objective, for a command that takes its name after the other flags; the first is the default.
AnyObjective: Any = reduce(
    or_, (Annotated[options, subcommand(name)] for name, options in _OPTIONS.items())
)
DefaultObjective = _OPTIONS[OBJECTIVES[0]]
