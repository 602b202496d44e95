"""What a failed job says, as the user's error that it is."""

import re

from corpusmill.faults import UserError

_MESSAGE_OF_USER_ERROR = re.compile(
    r"corpusmill\.faults\.UserError: (.*?)(?: \[while running.*|\n|$)", re.DOTALL
)
_NO_MODULE = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_NO_SPACE = re.compile(r"No space left on device[^\n\[]*|Disk quota exceeded[^\n\[]*")


def raise_user_error(error: Exception) -> None:
    """Raise what a worker reported as text as the user's error that it is, if it is one.

    Raises:
        UserError: it is.
        KeyboardInterrupt: in this process Beam makes an error of what interrupts a stage.
    """
    if re.match(r"(.*\n)*KeyboardInterrupt( \[while running|\n|$)", str(error)):
        raise KeyboardInterrupt from None
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    if found := _MESSAGE_OF_USER_ERROR.search(text):
        value, _, rest = found.group(1).partition(": ")
        cause, _, cure = rest.partition(". ")
        raise UserError(value, cause, cure.rstrip(".")) from None
    if found := _NO_SPACE.search(text):
        raise UserError(
            "--output, --temp-location",
            f"the disk is full ({found.group(0).strip()})",
            "Free some space, or put temporary files on another disk with --temp-location",
        ) from None
    if found := _NO_MODULE.search(text):
        raise UserError(
            "--runner",
            f"its workers lack code of the job ({found.group(1)})",
            "Install the wheels of deploy/build_wheels.py, and what they need, in the workers' "
            "image; or give both, the library's first, with --extra_package behind --",
        ) from None
