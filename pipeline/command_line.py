"""The command line: from arguments to an exit status."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr
from io import StringIO
from itertools import pairwise

import tyro
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from corpusmill.errors import UserError
from pipeline.commands.build_dataset import build
from pipeline.commands.builds import BUILDS
from pipeline.commands.inspect_corpus import InspectCorpus, inspect_corpus
from pipeline.commands.inspect_dataset import Inspect, inspect
from pipeline.commands.train_tokenizer import TrainTokenizer, train_tokenizer
from pipeline.commands.verify_dataset import Verify, verify
from pipeline.console.run_log import LogOptions, open_log
from pipeline.console.terminal import Terminal, drop_unread_output
from pipeline.console.usage_errors import explain_mistakes, refuse_command
from pipeline.outcomes import EndingSignals, report_error
from pipeline.preparation.recipe import Build

Command = Build | TrainTokenizer | Inspect | InspectCorpus | Verify
COMMANDS: dict[str, Callable[..., Command]] = {
    **BUILDS,
    "train-tokenizer": TrainTokenizer,
    "inspect": Inspect,
    "inspect-corpus": InspectCorpus,
    "verify": Verify,
}
PROGRAM = "python -m pipeline"
_CONFIG = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
DESCRIPTION = "Raw text in, ready-to-train examples for language-model pretraining out."


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: the command, its flags, and Beam's own options after `--`.

    Returns:
        The exit status: 0, or one of those in `pipeline.outcomes`.
    """
    own, beam_arguments = _split(arguments)
    log = LogOptions()
    with EndingSignals() as signals, ExitStack() as stack:
        try:
            _refuse_empty(own)
            command = parse(merge_repeats(own))
            options = getattr(command, "log", log)
            stack.enter_context(open_log(options))
            log = options
            return _run(
                command, beam_arguments, shlex.join(["python", "-m", "pipeline", *arguments])
            )
        except SystemExit:  # the parser of the command line ends like this
            drop_unread_output()
            raise
        except BaseException as error:  # panics of libraries in Rust are not of class Exception
            signals.ignore()
            return report_error(error, log)


def parse(arguments: list[str]) -> Command:
    """Parse the arguments of a command.

    Raises:
        UserError: they are not valid.
        SystemExit: they ask for help, which is printed.
    """
    name = arguments[0] if arguments else ""
    is_named = bool(name) and not name.startswith("-")
    if is_named and name not in COMMANDS:
        raise refuse_command(name, list(COMMANDS))
    prog = f"{PROGRAM} {name}" if is_named else PROGRAM
    rest = arguments[1:] if is_named else arguments
    with explain_mistakes(prog, COMMANDS[name] if is_named else None, rest):
        if is_named:
            return tyro.cli(COMMANDS[name], prog=prog, args=rest, config=_CONFIG)
        command: Command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog=prog, description=DESCRIPTION, args=rest, config=_CONFIG
        )
    return command


def _run(command: Command, beam_arguments: tuple[str, ...], typed: str) -> int:
    console = Terminal()
    # Commands open files in object stores with these options.
    FileSystems.set_options(_parse_beam_options(beam_arguments))
    match command:
        case Build():
            return build(command, beam_arguments, console)
        case TrainTokenizer():
            return train_tokenizer(command, console)
        case Inspect():
            return inspect(command, console)
        case InspectCorpus():
            return inspect_corpus(command, beam_arguments, console, typed)
        case Verify():
            return verify(command, console)


def _parse_beam_options(arguments: tuple[str, ...]) -> PipelineOptions:
    """Parse Beam's own options, whose parser prints its usage and ends the process."""
    options, printed = PipelineOptions(list(arguments)), StringIO()
    try:
        with redirect_stderr(printed):
            options.get_all_options()
    except SystemExit:
        cause = printed.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        cure = "Give options as Beam's documentation has them"
        raise UserError(f"-- {shlex.join(arguments)}", cause, cure) from None
    return options


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse a value that is empty, which would mean the folder in which the command was started.

    Raises:
        UserError: there is one.
    """
    for before, argument in pairwise(("", *arguments)):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            value = argument.rstrip("=") or before
            cause = "its value is empty, as that of a variable that is not set"
            raise UserError(value, cause, "Give a value, or leave the option out")


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), tuple(arguments[end + 1 :])


def merge_repeats(arguments: Sequence[str]) -> list[str]:
    """Put the values of all --input together, and refuse any other option that is given twice.

    The parser would take the last one and say nothing.

    Example:
        --input a --seed 1 --input b becomes --input a b --seed 1.

    Raises:
        UserError: an option is given twice.
    """
    groups: dict[str, list[str]] = {"": []}
    name = ""
    for argument in arguments:
        if not argument.startswith("--") or argument == "--":
            groups[name].append(argument)
            continue
        option, is_joined, value = argument.partition("=")
        option = option.replace("_", "-")
        name = option.removeprefix("--").removeprefix("no-")
        if name not in groups:
            groups[name] = [option]
        elif name != "input":
            first = " ".join(groups[name])
            raise UserError(f"{first} ... {argument}", "the option is given twice", "Give it once")
        groups[name] += [value] * bool(is_joined)
    return [argument for group in groups.values() for argument in group]
