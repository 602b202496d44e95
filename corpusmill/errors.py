"""The error that a user is shown for a mistake of their own, and text that is safe to show."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

# What steers a terminal, breaks a line or reverses the order of what follows, and what no encoding
# can write: control characters, separators of lines, marks of direction, halves of characters.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

# They enclose a mention of an option in a message.
_BEGIN, _IS, _END = "\ue000", "\ue001", "\ue002"
_MARKS = str.maketrans("", "", _BEGIN + _IS + _END)
_UNSAID = object()


class Mention(NamedTuple):
    """An option that a message mentions.

    Attributes:
        name: with underscores, as the dataclass of its options has it.
        words: its value as words of a command line; empty if the message mentions the name alone.
        literal: its value as Python writes it; likewise.
        is_flag: whether it is named on the command line, and not given by its place.
    """

    name: str
    words: str
    literal: str
    is_flag: bool


# Writes the mention of an option as the user knows the option.
Spelling = Callable[[Mention], str]


@dataclass(frozen=True)
class option:  # noqa: N801  a word within sentences, as a function is
    """An option that a message mentions; what shows the message spells it.

    Attributes:
        name: with underscores, as the dataclass of its options has it.
        value: a value that the option has, or is advised to have.
        is_flag: whether it is named on the command line, and not given by its place.
        is_switch: whether its name alone, or `no` and its name, tells a value that is a bool.

    Example:
        option("num_shards", 3) is read as "--num-shards 3" on the command line, "num_shards=3" in
        Python, and "num_shards: 3" of a file of options.
    """

    name: str
    value: object = _UNSAID
    is_flag: bool = field(default=True, kw_only=True)
    is_switch: bool = field(default=True, kw_only=True)

    def __str__(self) -> str:
        """The mention, as `spell` finds it in a message."""
        value, words, literal = self.value, "", ""
        if value is not _UNSAID:
            words = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            words = "" if self.is_switch and isinstance(value, bool) else words
            literal = repr(value)
        return _mark(Mention(self.name, words, literal, self.is_flag))


def _mark(mention: Mention) -> str:
    # A value may hold any character.
    parts = (str(part).translate(_MARKS) for part in mention)
    return f"{_BEGIN}{_IS.join(parts)}{_END}"


def spell(text: str, spelling: Spelling) -> str:
    """Spell the options that a message mentions."""
    first, *rest = text.split(_BEGIN)
    pieces = [first]
    for piece in rest:
        mention, _, after = piece.partition(_END)
        match mention.split(_IS):
            case [name, words, literal, is_flag]:
                pieces += [spelling(Mention(name, words, literal, is_flag == "True")), after]
            case _:  # a text of the user's holds the mark
                pieces.append(_BEGIN + piece)
    return "".join(pieces)


def as_flag(mention: Mention) -> str:
    """Spell an option as on the command line."""
    name = mention.name.rstrip("_").replace("_", "-")
    if not mention.is_flag:
        return f"{name.replace('-', ' ')} {mention.words}".rstrip()
    if not mention.words and mention.literal in {"True", "False"}:
        return f"--{name}" if mention.literal == "True" else f"--no-{name}"
    return f"--{name} {mention.words}" if mention.literal else f"--{name}"


class UserError(Exception):
    """A user's mistake, found before any work is done.

    It is shown as one message, never as a traceback.

    Args:
        value: the value as the user gave it, an `option` or the name of a file.
        cause: what is wrong with it.
        cure: what to do instead.
    """

    def __init__(self, value: str | option, cause: str, cure: str) -> None:
        super().__init__(str(value), cause, cure)
        self.value, self.cause, self.cure = (spell(part, as_flag) for part in self.args)

    def __str__(self) -> str:
        return f"{self.value}: {self.cause}. {self.cure}."

    def spelled(self, spelling: Spelling) -> "UserError":
        """Return the error, with its notes, as the caller of a program or a file spells options."""
        error = type(self)(*(spell(part, spelling) for part in self.args))
        for note in getattr(self, "__notes__", ()):
            error.add_note(spell(note, spelling))
        return error

    def advise(self, cure: str) -> None:
        """Add to the cure, as another one."""
        self.args = (*self.args[:2], self.args[2] + cure)
        self.cure = spell(self.args[2], as_flag)

    def about(self, value: str | option) -> "UserError":
        """Return the error, of the same class, about another value, such as an option."""
        return type(self)(value, *self.args[1:])

    def renamed(self, name: str, mention: Callable[[str], str | option]) -> "UserError":
        """Return the error with other mentions in the place of those of one option.

        Args:
            name: of the option, as in `Mention`.
            mention: makes a mention of the option's words.
        """

        def rename(found: Mention) -> str:
            return str(mention(found.words)) if found.name == name else _mark(found)

        return type(self)(*(spell(part, rename) for part in self.args))

    def _render_traceback_(self) -> list[str]:
        """Show the message alone in a notebook, which asks for this."""
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]


class OutageError(UserError):
    """A store, the hub or a disk does not do its work now: shown as a mistake is, but none."""


class RefusedError(UserError):
    """What the data is stands against a run, so that the same run would be refused again."""


class NoMatchError(UserError):
    """Nothing is what a user has asked for, who wants that to be a failure."""


def suggest(name: str, known: Iterable[str], most: int = 2) -> str:
    """Begin a cure with the names that a user may have meant.

    Args:
        name: as the user gave it.
        known: the names that there are.
        most: how many of them are suggested.

    Example:
        suggest("brt", ["bert", "gpt"]) is "Did you mean bert? "; where none is like it, "".
    """
    by_lower = {one.lower(): one for one in known}
    close = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, most)]
    return f"Did you mean {' or '.join(close)}? " if close else ""


def count_things(number: int, noun: str, plural: str = "") -> str:
    """Write a number of things, with a plural of its own where no s is added: "1 file", "2 files".

    Example:
        count_things(1, "example is", "examples are") is "1 example is".
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


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
