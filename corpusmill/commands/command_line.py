"""The command line: from arguments to an exit status."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from corpusmill.commands.arguments import (
    merge_repeats,
    names_file,
    refuse_empty,
    split_arguments,
)
from corpusmill.commands.command import Call, Command, Importing, Job, Run, choose_variant
from corpusmill.commands.completion import FLAG, print_completion
from corpusmill.commands.parsing import PROGRAM, parse_options, refuse_without_command
from corpusmill.commands.table import (
    JOB_PACKAGE,
    find_job,
    list_commands,
    list_versions,
    load_command,
    mark_missing,
    name_missing,
    needs_job,
)
from corpusmill.console.compilation import announce_compilation
from corpusmill.console.outcomes import report_error
from corpusmill.console.process import EndingSignals
from corpusmill.console.terminal import Terminal, drop_unread_output
from corpusmill.errors import UserError


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
            if arguments and arguments[0] == FLAG:
                print_completion(" ".join(arguments[1:]), _load_all(job, importing))
            typed = shlex.join([PROGRAM, *arguments])
            if names_file(arguments):
                # Imported here because few command lines have such a file.
                from corpusmill.commands.configuration import (  # noqa: PLC0415
                    apply_configuration,
                )

                arguments = apply_configuration(arguments, partial(_load, job, importing))
            command, options = parse(arguments, job, importing)
            announce_compilation()
            own, rest = split_arguments(arguments)
            call = Call(
                Terminal(),
                typed=typed,
                engine_arguments=rest,
                signals=signals,
                job=job,
                importing=importing,
            )
            return _import_runner(command, own, call, importing)(options, call)
        except SystemExit:  # the parser of the command line ends like this
            drop_unread_output()
            raise
        except BaseException as error:  # panics of libraries in Rust are not of class Exception
            signals.ignore()
            return report_error(error)


def parse(
    arguments: Sequence[str], job: Job | None = None, importing: Importing = nullcontext
) -> tuple[Command, Any]:
    """Parse the arguments of a command, as of `main`.

    Returns:
        The command and its options.

    Raises:
        UserError: they are not valid.
        SystemExit: they ask for help, which is printed.
    """
    own, _ = split_arguments(arguments)
    refuse_empty(own)
    words = merge_repeats(own)
    if not words or words[0].startswith("-"):
        entries = list_commands()
        refuse_without_command(entries if job else mark_missing(entries), words)
    command = _load(job, importing, words[0])
    command, named = choose_variant(command, words)
    name = " ".join(words[:named])
    return command, parse_options(name, command, command.expand([name, *words[named:]])[1:])


def _load_all(job: Job | None, importing: Importing) -> dict[str, Command]:
    """Import every command that can be used here."""
    names = [name for name, _, is_of_job in list_commands() if job or not is_of_job]
    return {name: _load(job, importing, name) for name in names}


def _load(job: Job | None, importing: Importing, name: str) -> Command:
    with importing():
        return load_command(name, job)


def _import_runner(command: Command, own: Sequence[str], call: Call, importing: Importing) -> Run:
    """Import what runs a command: with the job where it is needed, or files are elsewhere."""
    from corpusmill.location import scheme_of  # noqa: PLC0415  help needs no files

    rest = call.engine_arguments
    if rest and not call.job:
        cause = "these are options of Beam, and the job is not installed"
        raise UserError(f"-- {shlex.join(rest)}", cause, f"Run `pip install {JOB_PACKAGE}`")
    uses_job = needs_job(own[0]) or rest or any(map(scheme_of, own))
    with importing(), name_missing(own[0]):
        return call.job.runner(command) if call.job and uses_job else command.runner()
