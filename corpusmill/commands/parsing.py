"""The parser of the command line, which is made from dataclasses of options."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass, replace
from typing import Any, Literal, NoReturn, cast

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo
from tyro.constructors._struct_spec_dataclass import dataclass_rule

from corpusmill.commands.command import Choices, Command
from corpusmill.commands.table import Entry
from corpusmill.console.usage_errors import explain_mistakes, refuse_command

PROGRAM = "corpusmill"
_DESCRIPTION = (
    "Raw text in, ready-to-train examples for language-model pretraining out.\n\n"
    # A line that begins with a sign would get a blank line more.
    f"Type `{PROGRAM} COMMAND --help` for the options of a command, or `{PROGRAM} --version`."
)
_FILE = (
    "With --config FILE, options come from a YAML or TOML file; `corpusmill config {}` prints one."
)
_CONFIG = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.HelptextFromCommentsOff,  # options have docstrings; to look for comments takes longer
)


def parse_options(name: str, command: Command, arguments: Sequence[str]) -> Any:
    """Parse the options of a command.

    Args:
        name: of the command, with the word that has chosen its options.
        command: the command.
        arguments: what follows its name.

    Raises:
        UserError: they are not valid.
        SystemExit: they ask for help, which is printed.
    """
    prog = f"{PROGRAM} {name}"
    if command.variants:
        _refuse_without_variant(prog, command, arguments)
    with explain_mistakes(prog, command.options, arguments):
        return tyro.cli(
            command.options,
            prog=prog,
            description=f"{inspect.getdoc(command.options) or ''}\n\n{_FILE.format(name)}",
            args=arguments,
            config=_CONFIG,
            registry=_offer(command.choices),
        )


def _refuse_without_variant(prog: str, command: Command, arguments: Sequence[str]) -> NoReturn:
    """Print the words that may follow a command, or refuse what is none of them."""
    if arguments and not arguments[0].startswith("-"):
        raise refuse_command(arguments[0], list(command.variants))
    entries = {name: inspect.getdoc(options) or "" for name, options in command.variants.items()}
    _print_list(prog, inspect.getdoc(command.options) or "", entries, arguments)


def refuse_without_command(entries: Sequence[Entry], arguments: Sequence[str]) -> NoReturn:
    """Print the list of all commands, or refuse arguments that do not begin with one.

    Raises:
        UserError: there are arguments, but no command.
        SystemExit: they ask for help, which is printed.
    """
    summaries = {entry.name: entry.summary for entry in entries}
    _print_list(PROGRAM, _DESCRIPTION, summaries, arguments)


def _print_list(
    prog: str, description: str, summaries: Mapping[str, str], arguments: Sequence[str]
) -> NoReturn:
    stubs: dict[str, Callable[..., Any]] = {}
    for name, summary in summaries.items():
        stubs[name] = make_dataclass(name.title(), ())
        stubs[name].__doc__ = summary
    with explain_mistakes(prog, None, arguments):
        tyro.extras.subcommand_cli_from_dict(
            stubs, prog=prog, description=description, args=arguments, config=_CONFIG
        )
    raise AssertionError  # without a command, the parser returns nothing


def _offer(choices: Choices) -> ConstructorRegistry:
    """Let the parser offer the values of options whose types do not list them."""
    registry = ConstructorRegistry()
    classes = {options for options, _ in choices}

    @registry.struct_rule
    def offer(info: StructTypeInfo) -> StructConstructorSpec | None:
        spec = dataclass_rule(info) if info.type in classes else None
        if spec is None:
            return None
        options = (
            replace(option, type=cast(Any, Literal[choices[info.type, option.name]]))
            if (info.type, option.name) in choices
            else option
            for option in spec.fields
        )
        return replace(spec, fields=tuple(options))

    return registry
