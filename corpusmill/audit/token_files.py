"""What the reader of every format of token files gives: rows of ids, and what is wrong with a file.

A row is what the file keeps apart: a document of an index, a row of a table, a sample. A file
without an index is one row.
"""

import csv
import struct
import tokenize
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.errors import in_one_line
from corpusmill.knobs import knob
from corpusmill.location import Location
from corpusmill.plugins import Plugins

BATCH_TOKENS = knob("batch_tokens", 2**22, test=50)
"""The tokens of a token file that are measured at once; longer rows are measured in pieces."""


class Aligned(StrEnum):
    """What a column with one value for each id tells of it.

    Attributes:
        LABELS: the id to be learned there, or a negative number.
        LEARNED: 0 where nothing is learned.
        ATTENDED: 0 where the row is padding.
        SEGMENTS: numbers of documents or segments.
        POSITIONS: positions within documents.
    """

    LABELS = "labels"
    LEARNED = "learned"
    ATTENDED = "attended"
    SEGMENTS = "segments"
    POSITIONS = "positions"


class TokenRows(NamedTuple):
    """Consecutive rows of a token file.

    Attributes:
        ids: integers[tokens].
        offsets: int64[rows + 1] into ids, from 0 to their number.
        columns: what further columns say of each id: numbers[tokens].
        is_begun: whether the first row begins here, and not in the piece before.
        is_ended: whether the last row ends here.
        first: the number of the first row in its file.

    Example:
        rows [7, 8] and [9] are ids [7, 8, 9] and offsets [0, 2, 3].
    """

    ids: np.ndarray
    offsets: npt.NDArray[np.int64]
    columns: Mapping[Aligned, np.ndarray] = {}
    is_begun: bool = True
    is_ended: bool = True
    first: int = 0


@dataclass
class TokenFile(ABC):
    """A token file, or the files that belong to one index.

    Attributes:
        name: where it is, as the user wrote it.
        format: name of its format.
        dtype: NumPy name of the type of its ids.
        is_stream: whether it keeps no rows apart.
        tokens: as it says itself, or its size tells; None where nothing does.
        tokenizer: the name that the file gives its tokenizer; empty without one.
        ends_documents: whether each row is to end with the id that ends documents.
        label_names: the columns in which labels were found.
        faults: what contradicts itself or is missing, in sentences without an end; more may be
            added while it is read.
    """

    name: str
    format: str
    dtype: str = ""
    is_stream: bool = False
    tokens: int | None = None
    tokenizer: str = ""
    ends_documents: bool = True
    label_names: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)

    @abstractmethod
    def read(self, every: int = 1) -> Iterator[TokenRows]:
        """Yield its rows in order, about `BATCH_TOKENS` at a time; what is damaged ends it.

        Args:
            every: yields the first of this many batches, to read a sample.
        """


class UnreadableFile(TokenFile):
    """A file that could not be opened, as its faults say."""

    def read(self, every: int = 1) -> Iterator[TokenRows]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()


# Their messages say no cause; the last is of a header of NumPy.
_ODD = (LookupError, TypeError, AttributeError, tokenize.TokenError)
DAMAGE = (
    *_ODD, RecursionError, ValueError, OSError, EOFError, ArithmeticError, MemoryError,
    pa.ArrowException, csv.Error, struct.error, zlib.error, DamagedStreamError,
)  # fmt: skip
"""What raises where a file is damaged, or an index of JSON is something else."""


def explain(error: BaseException) -> str:
    """Return the error of a library as a phrase of a fault."""
    odd = "it is damaged, or its index is something else: " * isinstance(error, _ODD)
    return odd + in_one_line(error)[:200]


class TokenFolder(NamedTuple):
    """The files that a reader may choose from.

    Attributes:
        location: of the folder.
        sizes: the bytes of each file, by its name in the folder.
        dtype: the type of ids, where the user has given it.
    """

    location: Location
    sizes: Mapping[str, int]
    dtype: str | None = None


class TokenFormat(NamedTuple):
    """A format of token files.

    Attributes:
        find: finds the files of this format, each with the names of the files that belong to it.
        open: opens one of them, or those that it names; raises what is in DAMAGE.
        tool: what writes it, as messages name it.
        ends: how that tool ends each document with a token; a cure.
        begins: likewise for what begins a document.
    """

    find: Callable[[TokenFolder], Mapping[str, Sequence[str]]]
    open: Callable[[TokenFolder, str], Sequence[TokenFile]]
    tool: str
    ends: str
    begins: str = "Let the tokenizer add it (add_special_tokens=True), and tokenize again"


_MODULES = {
    "corpusmill": "data_set", "mds": "mds", "litdata": "litdata", "levanter": "levanter",
    "megatron": "megatron", "nanotron": "nanotron", "tokens": "raw", "tfrecord": "tfrecord",
    "table": "tables",
}  # fmt: skip
TOKEN_FORMATS: Plugins[TokenFormat] = Plugins(
    "corpusmill.token_formats",
    "format",
    {name: f"corpusmill.audit.formats.{module}:FORMAT" for name, module in _MODULES.items()},
    lambda value: value if isinstance(value, TokenFormat) else None,
    "a corpusmill.audit.token_files.TokenFormat",
)
"""The formats, those first whose files another one would take for its own."""


def open_files(folder: TokenFolder, chosen: str | None, wanted: str) -> Iterator[TokenFile]:
    """Open the token files of a folder, each in the first format that takes it.

    Args:
        folder: the files.
        chosen: the only format that is tried; None for all.
        wanted: name of the only file that is opened, with those that belong to it; empty for all.
    """
    taken = set[str]()
    for name in [chosen] if chosen else TOKEN_FORMATS.names:
        for file, parts in sorted(TOKEN_FORMATS[name].find(folder).items()):
            files = {file, *parts}
            if files & taken or (wanted and wanted not in files):
                continue
            taken |= files
            try:
                yield from TOKEN_FORMATS[name].open(folder, file)
            except DAMAGE as error:
                yield UnreadableFile(f"{folder.location}/{file}", name, faults=[explain(error)])
