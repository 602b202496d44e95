"""What the options that a data set was built with say of its rows when they are loaded."""

from collections.abc import Mapping
from typing import Any

from corpusmill.arrays.columns import Role, column_of
from corpusmill.errors import UserError
from corpusmill.objectives.masking.masked_lm import Masker
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import read_options
from corpusmill.reading.data_set import Samples

_UNSUITED = {
    "mask_word_prob": "masks are not drawn by whole words or tokens",
    "token_weights": "masks are not drawn of single tokens",
}


def check_suits(name: str, value: object, is_valid: bool, cause: str) -> None:
    """Refuse an option that does not suit the data set.

    Raises:
        UserError: it is not valid.
    """
    if not is_valid:
        raise UserError(f"{name}={value}", cause, "Omit it, or give data that it suits")


def options_of(samples: Samples) -> ObjectiveOptions:
    """Return the options of the objective that a data set was built with.

    Raises:
        UserError: the package of the objective is not installed.
    """
    entry = samples.manifest.objective
    return read_options(entry.name, entry.package, entry.options)


def masker_of(samples: Samples) -> Masker | None:
    """Return what masks a data set's rows when they are loaded; None if they are not masked then.

    Raises:
        UserError: the rows lack words, or the tokenizer a mask token.
    """
    columns = samples.manifest.columns
    if column_of(columns, Role.POSITIONS):
        return None
    masker = options_of(samples).masker(samples.manifest.tokenizer)
    if masker:
        has_words = column_of(columns, Role.WORDS) is not None
        is_valid = has_words or not masker.whole_words
        check_suits("mask", True, is_valid, "the rows lack the words that are masked whole")
    return masker


def change_masker(masker: Masker, settings: Mapping[str, Any]) -> Masker:
    """Return a masker with other settings, such as the share of tokens that are predicted.

    Raises:
        UserError: it has no such setting, or a value is out of range or not allowed by the build.
    """
    for name, value in settings.items():
        shown = "..." if name == "token_weights" else value
        suits = name in getattr(masker, "changeable", ())
        check_suits(name, shown, suits, _UNSUITED.get(name, "masks are not drawn by such a share"))
    changed: Masker = masker.change(**settings) if settings else masker  # type: ignore[attr-defined]
    return changed
