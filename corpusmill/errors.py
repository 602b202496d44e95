"""The error that a user is shown for a mistake of their own, and text that is safe to show."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

# What steers a terminal, breaks a line or reverses the order of what follows, and what no encoding
# can write: control characters, separators of lines, marks of direction, halves of characters.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


class UserError(Exception):
    """A user's mistake, found before any work is done.

    It is shown as one message, never as a traceback.

    Args:
        value: the value as the user wrote it ("--output out").
        cause: what is wrong with it.
        cure: what to do instead.
    """

    def __init__(self, value: str, cause: str, cure: str) -> None:
        self.value, self.cause, self.cure = value, cause, cure
        super().__init__(value, cause, cure)

    def __str__(self) -> str:
        return f"{self.value}: {self.cause}. {self.cure}."

    def _render_traceback_(self) -> list[str]:
        """Show the message alone in a notebook, which asks for this."""
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]


def check_option(flag: str, value: object, is_valid: bool, allowed: str) -> None:
    """Refuse an option's value that is not valid.

    Args:
        flag: the option's name on the command line, without its dashes ("max-seq-length").
        value: the option's value.
        is_valid: whether the value is accepted.
        allowed: the accepted values, in words ("5 to 65535").

    Raises:
        UserError: the value is not valid.
    """
    if not is_valid:
        raise UserError(f"--{flag} {value}", "the value is out of range", f"Give {allowed}")


class PanicError(Exception):
    """A compiled library met something that it did not foresee."""


@contextmanager
def catch_panics(library: str) -> Iterator[None]:
    """Turn a panic of a library in Rust, which no `except Exception` catches, into an exception.

    It may also decorate a function.

    Args:
        library: what panics, in words.

    Raises:
        PanicError: it panicked.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # each library has one of its own
            raise
        raise PanicError(f"{library} failed: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without a full stop."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(".")


def in_one_line(error: BaseException) -> str:
    """Return a library's error, in which bytes of a damaged file may stand, as one safe line."""
    return printable(first_line(error)) or type(error).__name__


def printable(text: str) -> str:
    r"""Return a foreign text, such as the name of a file, as one line that is safe to print.

    Example:
        a line break becomes \n, the escape character \u001b, and the byte 0xff of a name that is
        not UTF-8 \udcff. JSON has the same escapes.
    """
    return _UNPRINTABLE.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04x}"
