"""`corpusmill COMMAND`, and `python -m corpusmill COMMAND`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from corpusmill.console.process import (
    USER_ERROR,
    begin_process,
    end_process,
    exit_now,
    quick_imports,
)

if TYPE_CHECKING:
    from corpusmill.commands.command import Job


def main() -> NoReturn:
    """Run the command in the arguments of this process, and end it."""
    start("corpusmill", lambda: None)


def start(package: str, load_job: "Callable[[], Job | None]") -> NoReturn:
    """Run the command in the arguments of this process, and end it.

    Args:
        package: what is to be installed where a package is missing.
        load_job: imports the job; None is the installed one, if there is one.
    """
    begin_process()
    try:
        with quick_imports():
            # Imported here because signals are answered from now on.
            from corpusmill.commands import command_line  # noqa: PLC0415
            from corpusmill.console.terminal import prepare_streams  # noqa: PLC0415

            job = load_job()
    except ModuleNotFoundError as error:
        cause = f"the package {(error.name or '').partition('.')[0]} is not installed for it"
        text = f"error: {sys.executable}: {cause}. Run `pip install {package}`."
        end_process(USER_ERROR, text)
    prepare_streams()
    exit_now(command_line.main(sys.argv[1:], job, quick_imports))


if __name__ == "__main__":
    main()
