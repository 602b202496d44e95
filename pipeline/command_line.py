"""The command line: from arguments to an exit status."""

import logging
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkstemp

import psutil
import tyro
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from corpusmill.errors import UserError
from pipeline.commands.build_dataset import build
from pipeline.commands.builds import BUILDS
from pipeline.commands.inspect_corpus import InspectCorpus, inspect_corpus
from pipeline.commands.inspect_dataset import Inspect, inspect
from pipeline.commands.train_tokenizer import TrainTokenizer, train_tokenizer
from pipeline.commands.verify_dataset import Verify, verify
from pipeline.console.run_log import LogOptions, log_event, open_log
from pipeline.preparation.recipe import Build
from pipeline.runners.failures import JobCancelledError, JobFailedError, WorkerDiedError

# They hold for a job that runs elsewhere as well; --no-wait exits with 0 once it is submitted.
USER_ERROR, FAILURE, CANCELLED, INTERRUPTED = 2, 1, 3, 130

Command = Build | TrainTokenizer | Inspect | InspectCorpus | Verify
COMMANDS: dict[str, Callable[..., Command]] = {
    **BUILDS,
    "train-tokenizer": TrainTokenizer,
    "inspect": Inspect,
    "inspect-corpus": InspectCorpus,
    "verify": Verify,
}
DESCRIPTION = "Raw text in, ready-to-train examples for language-model pretraining out."


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: the command, its flags, and Beam's own options after `--`.

    Returns:
        The exit status: 0, USER_ERROR, FAILURE, CANCELLED or INTERRUPTED.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    own, beam_arguments = _split(arguments)
    log = LogOptions()
    with ExitStack() as stack:
        try:
            command = parse(merge_repeats(own))
            options = getattr(command, "log", log)
            stack.enter_context(open_log(options))
            log = options
            return _run(
                command, beam_arguments, shlex.join(["python", "-m", "pipeline", *arguments])
            )
        except (KeyboardInterrupt, Exception) as error:
            return _report(error, log)


def _report(error: BaseException, log: LogOptions) -> int:
    """Print why the command ended, in one message, and return the exit status."""
    status, text, fields = _explain(error)
    if not log.takes_stderr:
        Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)
    if log.takes_stderr or log.log_file:
        log_event("run_failed", text, {"status": status, **fields}, logging.ERROR)
    return status


def _explain(error: BaseException) -> tuple[int, str, dict[str, str]]:
    """Return the exit status, the message, and its parts."""
    match error:
        case UserError():
            parts = {"value": error.value, "cause": error.cause, "cure": error.cure}
            return USER_ERROR, f"error: {error}{_notes(error)}", parts
        case KeyboardInterrupt():
            outcome = str(error) or "no file of the data set was published"
            return INTERRUPTED, f"interrupted: {outcome}{_notes(error, '. ')}", {}
        case JobCancelledError():
            text = f"cancelled: somebody cancelled job {error}; the data set is not complete"
            return CANCELLED, text + _notes(error, ". "), {"job_id": str(error)}
        case WorkerDiedError():
            text = (
                f"error: a worker process died ({error}). No file of the data set was published. "
                f"If memory ran out, give fewer --workers; otherwise run again.{_notes(error)}"
            )
            return FAILURE, text, {}
        case _:  # the trace goes to a file, not to the user
            trace = _write_trace()
            cause = str(error).strip() or type(error).__name__
            if not isinstance(error, JobFailedError):
                cause = cause.splitlines()[-1].strip()
            text = f"error: {cause.rstrip('.')}. The whole trace is in {trace}"
            return FAILURE, text + _notes(error, ". "), {"trace": trace}


def parse(arguments: list[str]) -> Command:
    """Parse the arguments of a command; end the process with a message if they are not valid."""
    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="python -m pipeline",
        description=DESCRIPTION,
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    return command


def _run(command: Command, beam_arguments: tuple[str, ...], typed: str) -> int:
    console = Console(highlight=False)
    # Commands open files in object stores with these options.
    FileSystems.set_options(PipelineOptions(list(beam_arguments)))
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


def _notes(error: BaseException, begin: str = " ") -> str:
    """Join the notes on an error, such as how to resume."""
    return "".join(f"{begin}{note}" for note in getattr(error, "__notes__", []))


def _write_trace() -> str:
    handle, path = mkstemp(prefix="corpusmill-", suffix=".log")
    os.close(handle)
    Path(path).write_text(traceback.format_exc(), encoding="utf-8")
    return path


def exit_now(status: int) -> None:
    """End the process and its workers at once: a failed engine leaves threads that never end."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
