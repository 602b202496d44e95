"""The messages of the command line in the terms of Python: keywords in place of flags."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from corpusmill.console.outcomes import blame_system
from corpusmill.errors import UserError
from pipeline.calls.keywords import choices
from pipeline.outcomes import find_system_error
from pipeline.runners.failures import WorkerDiedError

_FLAG = re.compile(r"--(no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
# What a message advises to add, with its value.
_ADDED = re.compile(r"(?<=[Aa]dd )--[a-z][a-z0-9-]* \w[\w.-]*(?: --[a-z][a-z0-9-]* \w[\w.-]*)*")
_PAIR = re.compile(r"--([a-z][a-z0-9-]*) (\w[\w.-]*)")
_LONGEST_VALUE = 200
_AFTER_DEATH = (
    "A worker process died, and no file of the data set was published. If memory ran out, give "
    "fewer workers; otherwise run again."
)


@dataclass(frozen=True)
class Keywords:
    """The keywords of a call.

    Attributes:
        types: the type of each option, by name.
        given: the values that the call gives, by name.
    """

    types: Mapping[str, Any]
    given: Mapping[str, Any]

    def translate(self, error: UserError) -> UserError:
        """Return an error with keywords in place of flags.

        Example:
            "--max-seq-length 3: the value is out of range" becomes "max_seq_length=3: ...", and
            "add --replace" becomes "add replace=True".
        """
        value = self._translate_value(error.value)
        cause, cure = self.translate_text(error.cause), self.translate_text(error.cure)
        translated = UserError(value, cause, cure.replace("the flag", "the keyword"))
        for note in getattr(error, "__notes__", ()):
            translated.add_note(self.translate_text(note))
        return translated

    def translate_notes(self, error: BaseException) -> None:
        """Put keywords in place of flags in the notes of an error, such as how to resume."""
        if notes := getattr(error, "__notes__", None):
            notes[:] = [self.translate_text(note) for note in notes]

    def _translate_value(self, text: str) -> str:
        """Translate "--flag value" one by one."""
        pieces = re.split(r"(?<!\S)(?=--[a-z])", text)
        return "".join(map(self._translate_pair, pieces)).strip()

    def _translate_pair(self, text: str) -> str:
        match = _FLAG.match(text)
        name = match[2].replace("-", "_") if match else ""
        if not match or name not in self.types:
            return text
        value = text[match.end() :].strip(" ='")
        if self.types[name] is bool:
            return f"{name}={not match[1]} {value}"
        given = self.given.get(name)
        if isinstance(given, str | os.PathLike | int | float) and str(given) == value:
            value = repr(os.fspath(given) if isinstance(given, os.PathLike) else given)
        elif value and self.types[name] in {str, str | None}:  # by default, or as a part
            value = repr(value)
        if len(value) > _LONGEST_VALUE:
            value = f"{value[:_LONGEST_VALUE]}..."
        return f"{name}={value} " if value else f"{name} "

    def translate_text(self, text: str) -> str:
        """Put keywords in place of flags in a sentence.

        Example:
            "Add --sentence-rule split" becomes "Add sentence_rule='split'".
            "Leave them out with --existing skip" becomes "Leave them out with existing='skip'".
        """

        def pair(match: re.Match[str]) -> str:
            name = match[1].replace("-", "_")
            # Beam's own options have no keywords; those without a value are followed by any word.
            if self.types.get(name, bool) is bool:
                return match[0]
            return f"{name}={match[2] if match[2].isdigit() else repr(match[2])}"

        def choice(match: re.Match[str]) -> str:
            allowed = choices(self.types.get(match[1].replace("-", "_")))
            return pair(match) if match[2] in allowed else match[0]

        def add(match: re.Match[str]) -> str:
            return _PAIR.sub(pair, match[0]).replace(" --", ", --").replace("' ", "', ")

        def name(match: re.Match[str]) -> str:
            option = match[2].replace("-", "_")
            if option not in self.types:
                return match[0]
            return f"{option}={not match[1]}" if self.types[option] is bool else option

        return _FLAG.sub(name, _PAIR.sub(choice, _ADDED.sub(add, text)))


@contextmanager
def in_python(keywords: Keywords) -> Iterator[None]:
    """Raise the errors of a job in the terms of Python while the block runs it.

    Raises:
        UserError: a mistake of the user's, or the state of the machine.
    """
    try:
        yield
    except UserError as error:
        raise keywords.translate(error) from None
    except BaseException as error:
        if isinstance(error, WorkerDiedError):
            error.add_note(_AFTER_DEATH)
        mistake = blame_system(find_system_error(error))
        if mistake is None:
            keywords.translate_notes(error)
            raise
        for note in getattr(error, "__notes__", ()):
            mistake.add_note(note)
        raise keywords.translate(mistake) from error
