"""Keyword arguments: from what a program gives to the options of a command."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, is_typeddict

from corpusmill.console.outcomes import blame_system
from corpusmill.errors import Mention, UserError, option, spell
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.filling import fill
from corpusmill.settings.options import Choices, groups_of, options_of
from corpusmill.settings.values import read_value
from corpusmill.settings.words import refuse_unknown
from pipeline.commands.builds import add_objective
from pipeline.outcomes import find_system_error
from pipeline.runners.failures import WorkerDiedError

_CAPITAL = re.compile(r"(?<=.)(?=[A-Z])")
_LONGEST_SHOWN = 200
_AFTER_DEATH = (
    "A worker process died, and no file of the data set was published. If memory ran out, give "
    "fewer workers; otherwise run again."
)


def fill_command(
    command: type[Any],
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
    declared = {one.name: one for one in options_of(kind, choices)}
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
    owners = [one for one in OBJECTIVES.names if name in {f.name for f in fields(OBJECTIVES[one])}]
    if owners and "preset" in known:
        cause = f"it is an option of {' and '.join(owners)} alone"
        return UserError(f"{name}=", cause, "Leave it out")
    function = _CAPITAL.sub("_", command.__name__).lower()
    error = refuse_unknown(name, known, f"help(corpusmill.{function}) explains all options")
    return UserError(f"{name}=", *error.args[1:])


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
        close = get_close_matches(str(objective), names, 1)
        cure = f"Did you mean {close[0]!r}? " if close else ""
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
