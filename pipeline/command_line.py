"""The command line: from arguments to an exit status."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkstemp

import psutil
import tyro
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from corpusmill.faults import UserError
from pipeline.builds import BUILDS, Build
from pipeline.commands import Inspect, Verify, build, inspect, verify
from pipeline.inspect_corpus import InspectCorpus, inspect_corpus
from pipeline.runners.worker_watch import WorkerDiedError
from pipeline.train_tokenizer import TrainTokenizer, train_tokenizer

USER_ERROR, FAILURE, INTERRUPTED = 2, 1, 130

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
        arguments: the command, its flags, and Beam's own options behind `--`.

    Returns:
        The exit status: 0, USER_ERROR, FAILURE or INTERRUPTED.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("apache_beam").setLevel(
        logging.CRITICAL
    )  # the errors it logs are raised, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    own, beam_arguments = _split(arguments)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        return _run(parse(own), beam_arguments)
    except UserError as error:
        errors.print(f"error: {error}{_notes(error)}", markup=False)
        return USER_ERROR
    except KeyboardInterrupt as interrupt:
        said = f"interrupted: nothing was put under a final name{_notes(interrupt, '. ')}"
        errors.print(said, markup=False)
        return INTERRUPTED
    except WorkerDiedError as error:
        errors.print(
            f"error: a worker process died ({error}). Nothing was put under a final name. "
            f"If memory ran out, give fewer --workers; otherwise run again.{_notes(error)}",
            markup=False,
        )
        return FAILURE
    except (
        Exception
    ) as error:  # the last line of defence; the trace goes to a file, not to the user
        errors.print(
            f"error: {_last_line(error)}. The whole trace is in {_write_trace()}"
            f"{_notes(error, '. ')}",
            markup=False,
        )
        return FAILURE


def parse(arguments: list[str]) -> Command:
    """The command that the arguments are; ends the process with a message where they are none."""
    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="python -m pipeline",
        description=DESCRIPTION,
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    return command


def _run(command: Command, beam_arguments: tuple[str, ...]) -> int:
    console = Console(highlight=False)
    # Whatever a command opens in an object store, it opens with these.
    FileSystems.set_options(PipelineOptions(list(beam_arguments)))
    match command:
        case Build():
            return build(command, beam_arguments, console)
        case TrainTokenizer():
            return train_tokenizer(command, console)
        case Inspect():
            return inspect(command, console)
        case InspectCorpus():
            return inspect_corpus(command, beam_arguments, console)
        case Verify():
            return verify(command, console)


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    if "--" not in arguments:
        return list(arguments), ()
    place = list(arguments).index("--")
    return list(arguments[:place]), tuple(arguments[place + 1 :])


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _notes(error: BaseException, begin: str = " ") -> str:
    """What else there is to say of an error, such as how to go on."""
    return "".join(f"{begin}{note}" for note in getattr(error, "__notes__", []))


def _write_trace() -> str:
    handle, path = mkstemp(prefix="corpusmill-", suffix=".log")
    os.close(handle)
    Path(path).write_text(traceback.format_exc(), encoding="utf-8")
    return path


def exit_now(status: int) -> None:
    """End the process and its workers at once: a failed runner leaves threads that never end."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
