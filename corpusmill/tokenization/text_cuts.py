"""Texts that an objective cuts before they are tokenized, so that no token crosses a cut.

Or marks in texts, which are taken out before they are tokenized, and cut the tokens.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the process that renders conversations needs no arrays
    import numpy as np
    import numpy.typing as npt

# Noncharacters of Unicode, which no text needs.
APART, BEGIN, END, _COUNTS = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd8"
RESERVED = frozenset(map(chr, range(0xFDD0, 0xFDF0)))


class TextCuts(Protocol):
    """Where texts are cut; frozen, small and hashable, as it travels to the workers.

    The cuts of a text depend on its document's id and the seed alone.
    """

    def __call__(
        self,
        documents: "npt.NDArray[np.uint64]",
        text: "npt.NDArray[np.uint8]",
        offsets: "npt.NDArray[np.int64]",
    ) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]":
        """Cut the texts of documents into pieces, of which some may be empty.

        Args:
            documents: uint64[documents], their ids.
            text: uint8[bytes], valid UTF-8.
            offsets: int64[documents + 1] into text.

        Returns:
            pieces: int64[pieces + 1] into text.
            document_offsets: int64[documents + 1] into the pieces; each document has at least one.
        """

    def __hash__(self) -> int:
        """Two that cut in the same way have the same hash."""


@dataclass(frozen=True)
class TextMarks:
    r"""Marks in texts (`corpusmill.tokenization.marked_texts`).

    A document's tokens are those of its whole text without marks, in which special tokens are
    recognized. They are cut into pieces: what stands between BEGIN and END is every second piece,
    and a token that crosses a mark belongs to the piece outside. APART stands within what would be
    a special token and is ordinary text. A text may begin with what is counted of it
    (`write_counts`).
    """


Cuts = TextCuts | TextMarks
_HEADER = re.compile(f"{_COUNTS}([^{_COUNTS}]*){_COUNTS}")
_NO_MARKS = dict.fromkeys(map(ord, RESERVED))


def write_counts(counts: Mapping[str, int]) -> str:
    """Return what a marked text begins with, to count things of it by name."""
    return f"{_COUNTS}{json.dumps(counts, separators=(',', ':'))}{_COUNTS}"


def read_counts(text: str) -> tuple[dict[str, int], str]:
    """Return what is counted of a marked text, and the text without that."""
    header = _HEADER.match(text)
    return (json.loads(header[1]), text[header.end() :]) if header else ({}, text)


def remove_marks(text: str) -> str:
    """Return a text without its marks."""
    return read_counts(text)[1].translate(_NO_MARKS)
