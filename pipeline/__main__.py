"""`python -m pipeline COMMAND`.

Imports are most of the start, and half of a small job: they take 2.3 seconds, or 1.4 with the two
measures here.
"""

import gc
import os
import signal
import sys


def _end(status: int, text: bytes) -> None:
    os.write(2, text)
    os._exit(status)


def _check_working_folder() -> None:
    try:
        os.stat(os.getcwd())  # noqa: PTH109, PTH116  no more imports before the signals
    except OSError:
        _end(2, b"error: the working directory does not exist any more. Change to another one.\n")


def _explain_missing(module: str) -> bytes:
    """Say where to get a package, for somebody who runs this outside their environment."""
    cause = f"the package {module.partition('.')[0]} is not installed for it"
    cure = "Run `make setup` and `. .venv/bin/activate`, or `pip install '.[job]'`"
    return os.fsencode(f"error: {sys.executable}: {cause}. {cure}.\n")


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _end(130, b"interrupted: nothing was begun\n"))
    # Otherwise the next file that is opened would get the number of a closed stream.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    _check_working_folder()
    # Imports leave no garbage, but the collector would look for it hundreds of times.
    gc.disable()
    # If pandas is installed, Beam imports it for the types of data frames, which no stage uses.
    sys.modules["pandas"] = None  # type: ignore[assignment]
    try:
        from pipeline.command_line import main
        from pipeline.console.terminal import prepare_streams
        from pipeline.outcomes import exit_now
    except ModuleNotFoundError as error:
        _end(2, _explain_missing(error.name or ""))

    del sys.modules["pandas"]
    gc.freeze()
    gc.enable()
    prepare_streams()
    exit_now(main(sys.argv[1:]))
