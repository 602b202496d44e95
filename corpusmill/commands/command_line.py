"""The command line: from arguments to an exit status."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from corpusmill.commands.command import Call, Command, Importing, Job, Run
from corpusmill.commands.help_pages import (
    COMPLETION,
    DESCRIPTION,
    PROGRAM,
    print_completion,
    print_help,
    print_list,
)
from corpusmill.commands.table import (
    JOB_PACKAGE,
    find_job,
    list_commands,
    list_versions,
    load_command,
    name_missing,
    needs_job,
    refuse_command,
)
from corpusmill.console.compilation import announce_compilation
from corpusmill.console.outcomes import report_error
from corpusmill.console.process import EndingSignals
from corpusmill.console.terminal import Terminal, drop_unread_output
from corpusmill.errors import UserError
from corpusmill.settings.filling import fill
from corpusmill.settings.options import options_of
from corpusmill.settings.words import find_word, gather_words, read_words

# Names a file of options.
FILE_FLAG = "--config"
_HELP = {"-h", "--help"}


def main(
    arguments: Sequence[str], job: Job | None = None, importing: Importing = nullcontext
) -> int:
    """Run one command.

    Args:
        arguments: the command, its flags, and an engine's own options after `--`.
        job: the job; the installed one by default, if there is one.
        importing: wraps slow imports.

    Returns:
        The exit status: 0, or one of those in `corpusmill.console.process`.
    """
    with EndingSignals() as signals:
        try:
            if list(arguments) == ["--version"]:
                Terminal().print(*list_versions(), sep="\n")
                return 0
            job = job or find_job()
            if arguments and arguments[0] == COMPLETION:
                with importing():
                    usable = (entry.name for entry in list_commands() if job or not entry.is_of_job)
                    commands = {name: load_command(name, job) for name in usable}
                print_completion(" ".join(arguments[1:]), commands)
                return 0
            command, options, beam = parse(arguments, job, importing)
            announce_compilation()
            call = Call(
                Terminal(),
                typed=shlex.join([PROGRAM, *arguments]),
                engine_arguments=beam,
                signals=signals,
                job=job,
                importing=importing,
            )
            return _import_runner(command, arguments, call)(options, call)
        except SystemExit:  # help was asked for, and is printed
            drop_unread_output()
            raise
        except BaseException as error:  # panics of libraries in Rust are not of class Exception
            signals.ignore()
            return report_error(error)


def parse(
    arguments: Sequence[str], job: Job | None = None, importing: Importing = nullcontext
) -> tuple[Command, Any, tuple[str, ...]]:
    """Parse the arguments of a command, as of `main`.

    Returns:
        The command, its options, and the words for an engine.

    Raises:
        UserError: they are not valid.
        SystemExit: they ask for help, which is printed.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, beam = list(arguments[:end]), tuple(arguments[end + 1 :])
    if not words or words[0].startswith("-"):
        _print_commands(words, job)
        raise SystemExit
    name, *words = words
    with importing():
        command = load_command(name, job)
    path = _take_file(words)
    content: dict[str, Any] = {}
    if path:
        # Imported here because few command lines have a file.
        from corpusmill.settings.files import (  # noqa: PLC0415
            BEAM,
            as_entry,
            list_beam_options,
            read_file,
            read_options,
        )

        content = read_file(path)
        beam = (*list_beam_options(path, content.pop(BEAM, None), beam), *beam)
    command, name = _choose_variant(name, command, words, content)
    if _HELP & {*words}:
        print_help(name, command)
        raise SystemExit
    options = options_of(command.options, command.choices)
    given = gather_words(words, options)
    by_name = {option.name: option for option in options}
    typed = {name: read_words(by_name[name], value) for name, value in given.items()}
    try:
        values = {**(read_options(path, content, options) if path else {}), **typed}
        return command, fill(command.options, values, f"{PROGRAM} {name}"), beam
    except UserError as error:
        if not path:
            raise
        raise error.spelled(partial(as_entry, path, content.keys() - typed.keys())) from None


def _take_file(words: list[str]) -> str:
    """Take `--config FILE` out of the words, and return the path; empty if there is none."""
    places = [n for n, word in enumerate(words) if word.partition("=")[0] == FILE_FLAG]
    if not places:
        return ""
    if len(places) > 1:
        raise UserError(FILE_FLAG, "the option is given twice", "Give it once")
    word = words.pop(places[0])
    _, is_joined, path = word.partition("=")
    if not is_joined and places[0] < len(words) and not words[places[0]].startswith("--"):
        path = words.pop(places[0])
    if not path:
        raise UserError(FILE_FLAG, "its value is missing", "Name a YAML or TOML file")
    return path


def _choose_variant(
    name: str, command: Command, words: list[str], content: dict[str, Any]
) -> tuple[Command, str]:
    """Choose the options of a command by a word, which is taken out, or by its file."""
    if not command.variants:
        return command, name
    place = find_word(words, command.variants, command.list_options())
    listed = str(content.pop("objective", ""))
    variant = words.pop(place) if place >= 0 else listed or command.variant
    if variant not in command.variants:
        raise refuse_command(variant, list(command.variants))
    # Without the word, the page is that of the command.
    is_page = place < 0 and _HELP & {*words}
    return (command, name) if is_page else (command.choose(variant), f"{name} {variant}")


def _print_commands(words: Sequence[str], job: Job | None) -> None:
    """Print the commands, or refuse an option that comes before them."""
    if words and not _HELP & {*words}:
        cure = f"{PROGRAM} --help lists the commands"
        raise UserError(words[0], "the command comes before its options", cure)
    missing = "" if job else f" (needs {JOB_PACKAGE})"
    summaries = {
        entry.name: entry.summary + (missing if entry.is_of_job else "")
        for entry in list_commands()
    }
    print_list(PROGRAM, DESCRIPTION, summaries)


def _import_runner(command: Command, arguments: Sequence[str], call: Call) -> Run:
    """Import what runs a command: with the job where it is needed, or files are elsewhere."""
    from corpusmill.location import scheme_of  # noqa: PLC0415  help needs no files

    rest = call.engine_arguments
    if rest and not call.job:
        cause = "these are options of Beam, and the job is not installed"
        raise UserError(f"-- {shlex.join(rest)}", cause, f"Run `pip install {JOB_PACKAGE}`")
    uses_job = needs_job(arguments[0]) or rest or any(map(scheme_of, arguments))
    with call.importing(), name_missing(arguments[0]):
        return call.job.runner(command) if call.job and uses_job else command.runner()
