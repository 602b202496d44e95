"""What the argument `input` of a call means: the names of files, or records."""

import glob
import os
import re
from collections.abc import Sequence
from typing import Any

from corpusmill.corpus.hub_data_sets import WIKITEXT
from corpusmill.errors import UserError, option
from pipeline.recipe.records import Records

# One word with a slash or a suffix, or a URL.
_LIKE_A_NAME = re.compile(r"\S*/\S*|\S+\.[A-Za-z0-9]{1,9}")
_LONGEST_NAME = 4096


def read_input(given: Any) -> tuple[tuple[str, ...], Records | None]:
    """Return the names of files, or the records that stand in their place.

    A string or a path names files. So does each member of a list whose first member is a path or a
    string that names a file: one that exists, or that is written like the name of a file or a URL.
    Everything else holds the records itself. None is for a corpus whose parts are named elsewhere.

    Raises:
        UserError: it is empty.
    """
    if given is None:
        return (), None
    if isinstance(given, str | os.PathLike):
        name = os.fspath(given)
        if "\n" in name or len(name) > _LONGEST_NAME:
            cause = "it is one string of text, and a string alone names a file"
            raise UserError(option("input"), cause, "Give a list of texts, each of them a document")
        return (name,), None
    if not isinstance(given, list | tuple):
        return (), Records(given)
    if not given:
        raise UserError(
            option("input"), "it has no value", "Name files, or give an iterable of texts"
        )
    if not _names_files(given[0]):
        return (), Records(given)
    return tuple(_check_names(given)), None


def _check_names(given: Sequence[Any]) -> Sequence[str]:
    for name in given:
        if not isinstance(name, str | os.PathLike):
            cause = (
                f"the first of its values names files, and another is of type {type(name).__name__}"
            )
            raise UserError(option("input"), cause, "Give the names of files alone, or iter(texts)")
    return [os.fspath(name) for name in given]


def _names_files(value: Any) -> bool:
    if isinstance(value, os.PathLike):
        return True
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or "\n" in value:
        return False
    if not value.strip():
        return False
    if value in WIKITEXT or _LIKE_A_NAME.fullmatch(value):
        return True
    path = os.path.expanduser(value)  # noqa: PTH111  no error for ~ and a word
    return os.path.lexists(path) or bool(glob.glob(path))  # noqa: PTH207
