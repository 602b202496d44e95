"""Scripts by which a shell completes the words of a command line."""

import inspect
from collections.abc import Mapping
from dataclasses import make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, NoReturn

import tyro

from corpusmill.commands.command import Command
from corpusmill.commands.parsing import CONFIG, PROGRAM, declare_options
from corpusmill.errors import UserError

FLAG = "--print-completion"
_SHELLS = ("bash", "zsh")


def print_completion(shell: str, commands: Mapping[str, Command]) -> NoReturn:
    """Print the script for a shell.

    Args:
        shell: "bash" or "zsh".
        commands: all commands, by name.

    Raises:
        UserError: there is no script for the shell.
        SystemExit: the script is printed.
    """
    if shell not in _SHELLS:
        cause = "there is no script for this shell"
        raise UserError(f"{FLAG} {shell}".rstrip(), cause, f"Give {' or '.join(_SHELLS)}")
    choices = {place: names for one in commands.values() for place, names in one.choices.items()}
    tyro.extras.subcommand_cli_from_dict(
        {name: _options_of(name, command) for name, command in commands.items()},
        prog=PROGRAM,
        args=["--tyro-print-completion", shell],
        config=CONFIG,
        registry=declare_options(choices),
    )
    raise AssertionError  # the parser ends the process when it has printed


def _options_of(name: str, command: Command) -> Any:
    """Return the options of a command, with those of each word that may follow its name."""
    if not command.variants:
        return command.options
    words = (
        Annotated[options, tyro.conf.subcommand(word)] for word, options in command.variants.items()
    )
    variants = make_dataclass(name.title().replace("-", ""), [("variant", reduce(or_, words))])
    variants.__doc__ = inspect.getdoc(command.options)
    return variants
