"""The parser of the command line, which is made from dataclasses of options."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, make_dataclass
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any, Literal, NoReturn, TypedDict, get_type_hints, is_typeddict

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from corpusmill.commands.command import Choices, Command
from corpusmill.commands.options import default_of, document_fields, summarize
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
CONFIG = (
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
            description=_wrap(f"{inspect.getdoc(command.options) or ''}\n\n{_FILE.format(name)}"),
            args=arguments,
            config=CONFIG,
            registry=declare_options(command.choices),
        )


def _wrap(text: str) -> str:
    """Wrap each paragraph to the terminal's width.

    The parser would join lines that begin with a letter, so all but the first are indented.
    """
    width = get_terminal_size().columns
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(fill(one, width, subsequent_indent="  ") for one in paragraphs)


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
            stubs, prog=prog, description=_wrap(description), args=arguments, config=CONFIG
        )
    raise AssertionError  # without a command, the parser returns nothing


def declare_options(choices: Choices) -> ConstructorRegistry:
    """Tell the parser the options of a dataclass, and their texts, which it wraps to the terminal.

    Args:
        choices: the values of options whose types do not list them.
    """
    registry = ConstructorRegistry()

    @registry.struct_rule
    def declare(info: StructTypeInfo) -> StructConstructorSpec | None:
        # Some classes of the parser are dataclasses, too, and it declares these itself.
        if not is_dataclass(info.type) or info.type.__module__.startswith("tyro."):
            return None
        kind, hints = info.type, get_type_hints(info.type, include_extras=True)
        declared = {
            field.name: StructFieldSpec(
                field.name.removesuffix("_options"),
                _type_of(hints[field.name], choices.get((kind, field.name))),
                _default_of(field, info.default),
                document_fields(kind).get(field.name) or summarize(hints[field.name]),
            )
            for field in fields(kind)
        }
        return StructConstructorSpec(
            lambda **values: kind(**{name: values[one.name] for name, one in declared.items()}),
            tuple(declared.values()),
        )

    return registry


def _type_of(hint: Any, choices: tuple[str, ...] | None) -> Any:
    """Return the type by which the parser reads an option."""
    if choices is not None:
        return Literal[choices]
    if not is_typeddict(hint):
        return hint
    texts = document_fields(hint)
    options = {
        name: Annotated[kind, tyro.conf.arg(help=texts[name])]
        for name, kind in get_type_hints(hint, include_extras=True).items()
    }
    return TypedDict(hint.__name__, options, total=hint.__total__)  # type: ignore[operator]


def _default_of(field: Field[Any], instance: Any) -> Any:
    """Return the default of an option: that of an instance which is given, or its class's own."""
    default = getattr(instance, field.name) if is_dataclass(instance) else default_of(field)
    return tyro.MISSING if default is MISSING else default
