"""Help pages, the list of commands, and the scripts by which shells complete a command line."""

import inspect
from argparse import ArgumentParser, BooleanOptionalAction, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Mapping
from shutil import get_terminal_size
from textwrap import fill, wrap
from typing import Any, Literal, get_args, get_origin

from corpusmill.commands.command import Command
from corpusmill.console.terminal import Terminal
from corpusmill.errors import UserError
from corpusmill.settings.options import Option

PROGRAM = "corpusmill"
COMPLETION = "--print-completion"
_SHELLS = ("bash", "zsh")
DESCRIPTION = "Raw text in, ready-to-train examples for language-model pretraining out."
_SEE = (
    f"Type `{PROGRAM} COMMAND --help` for the options of a command, `{PROGRAM} --version` for the "
    f"versions, or `{PROGRAM} {COMPLETION} bash` (or zsh) for a script that completes words."
)
_FILE = (
    "With --config FILE, options come from a YAML or TOML file; `corpusmill config {}` prints one."
)
# Values that do not fit into a line of so many columns are listed in the text.
_NARROWEST = 80
_METAVARS = {bool: "{True,False}", int: "INT", float: "FLOAT", str: "STR"}


class _Formatter(RawDescriptionHelpFormatter):
    """Keeps words whole that have hyphens, as the names of options."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False, break_long_words=False)


def print_help(name: str, command: Command) -> None:
    """Print the help page of a command, wrapped to the terminal's width.

    Args:
        name: of the command, with the word that has chosen its options ("inspect-corpus bert").
        command: the command.
    """
    parser = _make_parser(name, command)
    parser.epilog = _wrap(_FILE.format(name))
    _print(parser.format_help())


def print_list(prog: str, summary: str, entries: Mapping[str, str]) -> None:
    """Print words that may follow, such as commands, each with what it does.

    Args:
        prog: what comes before the word.
        summary: what all of them are for.
        entries: what each of them does, by the word.
    """
    parser = ArgumentParser(
        prog=prog, usage=f"{prog} COMMAND [OPTIONS]", description=_wrap(summary), add_help=False,
        formatter_class=_Formatter, epilog=_wrap(_SEE),
    )  # fmt: skip
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in entries.items():
        commands.add_parser(name, help=text.replace("%", "%%"))
    _print(parser.format_help())


def print_completion(shell: str, commands: Mapping[str, Command]) -> None:
    """Print the script by which a shell completes words of the command line.

    Args:
        shell: "bash" or "zsh".
        commands: all commands, by name.

    Raises:
        UserError: there is no script for the shell.
    """
    import shtab  # noqa: PLC0415  nothing else needs it

    if shell not in _SHELLS:
        cause = "there is no script for this shell"
        raise UserError(f"{COMPLETION} {shell}".rstrip(), cause, f"Give {' or '.join(_SHELLS)}")
    parser = ArgumentParser(prog=PROGRAM)
    subparsers = parser.add_subparsers()
    for name, command in commands.items():
        _add_command(subparsers, name, command)
    _print(shtab.complete(parser, shell))


def _add_command(subparsers: Any, name: str, command: Command) -> None:
    parser = subparsers.add_parser(name, help=inspect.getdoc(command.options))
    if not command.variants:
        _add_options(parser, command.list_options())
        return
    variants = parser.add_subparsers()
    for word in command.variants:
        _add_options(variants.add_parser(word, help=word), command.choose(word).list_options())


def _make_parser(name: str, command: Command) -> ArgumentParser:
    options = command.list_options()
    places = "".join(f" {_metavar(declared)}" for declared in options if declared.is_positional)
    words = f" [{'|'.join(command.variants)}]" if command.variants else ""
    parser = ArgumentParser(
        prog=f"{PROGRAM} {name}", usage=f"%(prog)s{places}{words} [OPTIONS]", add_help=False,
        description=_wrap(inspect.getdoc(command.options) or ""),
        formatter_class=_Formatter,
    )  # fmt: skip
    _add_options(parser, options)
    return parser


def _add_options(parser: ArgumentParser, options: Iterable[Option]) -> None:
    """Add options to a parser, which only shows them: `corpusmill.settings.filling` reads them."""
    groups: dict[str, list[Option]] = {}
    for declared in options:
        groups.setdefault(declared.title, []).append(declared)
    for title, members in groups.items():
        text = _wrap(members[0].group, 4) if title != "options" else None
        group = parser.add_argument_group(title, text)
        for member in members:
            one_of = ""
            if member.choices and _metavar(member) == member.name.upper():
                one_of = f" One of {', '.join(map(str, member.choices))}."
            default = member.default
            words = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
            told = f"(default: {words})" if words and default is not None else ""
            text = f"{member.text}{one_of} {'(required)' if member.is_required else told}"
            given: dict[str, Any] = {"help": text.strip().replace("%", "%%")}
            if member.is_switch:
                given |= {"action": BooleanOptionalAction, "default": None}
            else:
                choices = [*map(str, member.choices)] or None
                given |= {"metavar": _metavar(member), "choices": choices}
                given |= {"nargs": "*"} if member.is_list else {}
                given |= {} if member.alone is None else {"nargs": "?"}
            group.add_argument(member.name if member.is_positional else member.flag, **given)


def _metavar(declared: Option) -> str:
    """Return how the help page shows the value of an option."""
    shown = "|".join(_show_kinds(declared))
    is_long = len(f"  {declared.flag} {shown}") > _NARROWEST
    return declared.name.upper() if declared.is_positional or is_long or not shown else shown


def _show_kinds(declared: Option) -> Iterator[str]:
    for kind in declared.kinds:
        if get_origin(kind) is Literal:
            yield f"{{{','.join(map(str, get_args(kind)))}}}"
        elif get_origin(kind) is tuple:
            yield _METAVARS.get(get_args(kind)[0], "STR")
        elif kind in _METAVARS:
            yield _METAVARS[kind]


def _wrap(text: str, margin: int = 2) -> str:
    """Wrap each paragraph to the terminal's width, less a margin."""
    width = get_terminal_size().columns - margin
    paragraphs = (" ".join(one.split()) for one in text.split("\n\n"))
    return "\n\n".join(fill(one, width, break_on_hyphens=False) for one in paragraphs)


def _print(text: str) -> None:
    Terminal().print(*text.rstrip().splitlines(), sep="\n", soft_wrap=True)
