"""How a command of the job ends: what Beam and its engines report becomes one message."""

import logging
import shlex
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from difflib import get_close_matches
from io import StringIO
from typing import Any

import psutil

from corpusmill.commands.command import Call, Run
from corpusmill.console.outcomes import (
    Outcome,
    blame_system,
    explain,
    notes_of,
    outcome_of,
    outcome_with_trace,
    print_outcome,
)
from corpusmill.console.process import CANCELLED, FAILURE, before_exit
from corpusmill.console.terminal import drop_unread_output
from corpusmill.errors import UserError
from pipeline.console.run_log import LogOptions, log_event, open_log
from pipeline.runners.failures import JobCancelledError, JobFailedError, WorkerDiedError
from transforms.storage.file_systems import beam_file_systems, set_beam_options
from transforms.storage.files import locate_any

# How similar a mistyped name is to the one that was meant.
_ALMOST_THE_SAME = 0.88


def run_logged(run: Run, options: Any, call: Call) -> int:
    """Run a command with Beam's file systems, log its run, and report its failure.

    Returns:
        The exit status.
    """
    before_exit(_end_workers)
    log = getattr(options, "log", LogOptions())
    with open_log(log):
        try:
            use_file_systems(call)
            return run(options, replace(call, locate=locate_any))
        except BaseException as error:  # panics of libraries in Rust are not of class Exception
            call.signals.ignore()
            return report_error(error, log)


def use_file_systems(call: Call) -> None:
    """Open files in object stores from now on with the options that a command was called with."""
    if "://" in call.typed:
        with call.importing():
            beam_file_systems()
    use_beam_options(call.engine_arguments)


def report_error(error: BaseException, log: LogOptions) -> int:
    """Print or log why a command ended, in one message, and return the exit status."""
    if isinstance(error, BrokenPipeError) and drop_unread_output():
        return 0
    outcome = _explain(error)
    if not log.takes_stderr:
        print_outcome(outcome)
    if log.takes_stderr or log.log_file:
        fields = {"status": outcome.status, **outcome.fields}
        log_event("run_failed", outcome.text, fields, logging.ERROR)
    return outcome.status


def _explain(error: BaseException) -> Outcome:
    match error:
        case JobCancelledError():
            text = f"cancelled: somebody cancelled job {error}; the data set is not complete"
            return outcome_of(CANCELLED, text + notes_of(error, ". "), {"job_id": str(error)})
        case WorkerDiedError():
            text = (
                f"error: a worker process died ({error}). No file of the data set was published. "
                f"If memory ran out, give fewer --workers; otherwise run "
                f"again.{notes_of(error)}"
            )
            return outcome_of(FAILURE, text)
        case JobFailedError():
            return outcome_with_trace(error, str(error).strip())
        case _:
            return explain(find_system_error(error))


def find_system_error(error: BaseException) -> BaseException:
    """Return the error of the system that Beam's error wraps, with its notes, if it has one."""
    for wrapped in (getattr(error, "exception_details", None) or {}).values():
        if isinstance(wrapped, OSError) and blame_system(wrapped):
            for note in getattr(error, "__notes__", []):
                wrapped.add_note(note)
            return wrapped
    return error


def use_beam_options(arguments: tuple[str, ...]) -> None:
    """Let Beam's file systems use Beam's own options, as the user gave them.

    Raises:
        UserError: they are not valid.
    """
    if arguments:
        _check_beam_options(arguments)
    set_beam_options(arguments)


def _check_beam_options(arguments: tuple[str, ...]) -> None:
    # Imported here because most commands have none, and end sooner without Beam.
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    printed = StringIO()
    try:
        # Their parser prints its usage and ends the process.
        with redirect_stderr(printed):
            PipelineOptions(list(arguments)).get_all_options()
    except SystemExit:
        cause = printed.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        cure = "Give options as Beam's documentation has them"
        raise UserError(f"-- {shlex.join(arguments)}", cause, cure) from None
    _refuse_typos(arguments)


def _refuse_typos(arguments: tuple[str, ...]) -> None:
    """Refuse an option that is almost one of Beam's, which ignores what it does not know.

    Others may be those of an engine.
    """
    from apache_beam.options import pipeline_options  # noqa: PLC0415  as above

    parser = pipeline_options._BeamArgumentParser(allow_abbrev=False)
    kinds = {str(kind): kind for kind in pipeline_options.PipelineOptions.__subclasses__()}
    for kind in kinds.values():
        kind._add_argparse_args(parser)
    known = set(parser._option_string_actions)
    for argument in arguments:
        name = argument.partition("=")[0]
        if not name.startswith("--") or name in known:
            continue
        if close := get_close_matches(name, known, 1, _ALMOST_THE_SAME):
            cause, cure = "Beam has no such option", f"Write {close[0]}"
            raise UserError(f"-- {argument}", cause, cure)


def _end_workers() -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
