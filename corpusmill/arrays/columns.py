"""The one table that says what a column of a data set is, for writers and readers alike."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def smallest_integer(largest: int) -> np.dtype:
    """The smallest integer type that holds 0 to `largest`; signed where both have the size.

    Example:
        127 gives int8, 511 int16, 40000 uint16, 100000 int32.
    """
    return np.dtype(next((name for name in INTEGERS if largest <= np.iinfo(name).max), "int64"))


# The width of lists without a greatest length, and the pad of lists that nothing can fill. No
# column has the value -2; labels of words are padded with -1.
ANY_LENGTH, NO_PAD = -1, -2

# The most tokens of a row: a document has no more bytes, and a token takes at least one.
LONGEST_ROW = 2**28
# The most values of a list in a row that are no tokens and do not belong to tokens.
_MOST_OTHERS = 2**22
# No class has more values.
_MOST_CLASSES = 2**16


class Role(StrEnum):
    """What the values of a column are, and so how its rows are counted, checked and padded.

    Attributes:
        TOKEN_IDS: the row's tokens, a list, whatever its name; the first column of every data set.
        WINDOW: tokens whose last one is a target only; cut by readers, never stored.
        SEGMENTS: one value per token: 0 in the first segment, 1 in the second.
        WORDS: one value per token: 0 for the first of a word, 1 for the others, -1 outside words.
        WORD_STARTS: one value per token: 1 for the first of a word and for special tokens, 0 for
            the others; for trainers of others, not for models.
        LEARNED: one value per token, which is the column's padding where the token is not learned.
        TOKEN_VALUES: one value per token, of another meaning.
        POSITIONS: positions of predicted tokens in the row, ascending; 0 is never predicted.
        PREDICTED_IDS: one token id per position, the original one.
        TARGET_IDS: the tokens that a decoder predicts, a list of its own length.
        BOUNDARIES: where the pieces of a packed row begin, and where the last one ends.
        CLASS: one number per row, a class of the example.
        FIRST_LENGTH: the tokens of the first segment, between two special tokens; built, but not
            written, as SEGMENTS are derived from it.
        SPANS: the documents and tokens that the row is made of, three numbers for each span
            (`corpusmill.objectives.examples.row_spans`); built, but not written.
        VALUE: one number or list per row, of another meaning.
    """

    TOKEN_IDS = "token_ids"  # noqa: S105  not a password
    WINDOW = "window"
    SEGMENTS = "segments"
    WORDS = "words"
    WORD_STARTS = "word_starts"
    LEARNED = "learned"
    TOKEN_VALUES = "token_values"  # noqa: S105
    POSITIONS = "positions"
    PREDICTED_IDS = "predicted_ids"
    TARGET_IDS = "target_ids"
    BOUNDARIES = "boundaries"
    CLASS = "class"
    FIRST_LENGTH = "first_length"
    SPANS = "spans"
    VALUE = "value"

    @property
    def aligned_with(self) -> "Role | None":
        """The role of the column whose lists have the same lengths; None where no other has."""
        if self in _OF_TOKENS:
            return Role.TOKEN_IDS
        return Role.POSITIONS if self is Role.PREDICTED_IDS else None


_OF_TOKENS = frozenset(
    {Role.SEGMENTS, Role.WORDS, Role.WORD_STARTS, Role.LEARNED, Role.TOKEN_VALUES}
)


@dataclass(frozen=True)
class Column:
    """One column of a data set.

    Attributes:
        name: the name that trainers expect ("input_ids").
        dtype: NumPy name of the type of one value ("int16").
        meaning: one sentence for the manifest and the data set card.
        width: 0 for one number an example; otherwise a list an example, and the number of values
            to which the padded layout fills it; ANY_LENGTH where there is none.
        pad: the value that fills it; NO_PAD where none can be told from the row's own values.
        role: what the values are.
        smallest: the smallest value.
        largest: the largest value; None where the vocabulary or the row's length limits it.
        value_names: names of the values of a class, from 0 ("next", "random").
        title: what a class is about, for reports ("second segment").
        feature: the name by which Google's trainers parse it from TFRecord; empty for `name`.

    Example:
        Column("token_type_ids", "int8", "0, then 1", 512, role=Role.SEGMENTS, largest=1).
    """

    name: str
    dtype: str
    meaning: str
    width: int = 0
    pad: int = 0
    role: Role = Role.VALUE
    smallest: int = 0
    largest: int | None = None
    value_names: tuple[str, ...] = ()
    title: str = ""
    feature: str = ""

    def arrow_field(self, padded: bool) -> pa.Field:
        """The column's Arrow field; `padded` gives lists of fixed size."""
        value = pa.from_numpy_dtype(np.dtype(self.dtype))
        if self.width:
            element = pa.field("element", value, nullable=False)
            value = pa.list_(element, self.width) if padded else pa.list_(element)
        return pa.field(self.name, value, nullable=False)


def column_of(columns: Iterable[Column], role: Role) -> Column | None:
    """The first column of a role; None where there is none."""
    return next((column for column in columns if column.role is role), None)


def tokens_of(columns: Iterable[Column]) -> Column:
    """The column of the rows' tokens.

    Raises:
        ValueError: there is none.
    """
    tokens = column_of(columns, Role.TOKEN_IDS)
    if tokens is None:
        raise ValueError("no column has the role token_ids")
    return tokens


# A data set may have several columns of these roles.
_REPEATED = {Role.TOKEN_VALUES, Role.CLASS, Role.VALUE}


def check_columns(columns: Sequence[Column], vocab_size: int) -> None:
    """Refuse columns that could not be verified, read or shown.

    Raises:
        ValueError: a column has a name, a type, a width or values that its role does not allow, or
            columns contradict one another.
    """
    for column in columns:
        _check_column(column)
        if column.role in {Role.TOKEN_IDS, Role.PREDICTED_IDS, Role.TARGET_IDS}:
            _check_holds(column, vocab_size - 1)
        if column.role.aligned_with:
            other = column_of(columns, column.role.aligned_with)
            if other is None or other.width != column.width:
                raise ValueError(f"the width of {column.name}, which is not that of other columns")
    names = [column.name for column in columns]
    roles = [column.role for column in columns if column.role not in _REPEATED]
    if (
        not columns
        or columns[0].role is not Role.TOKEN_IDS
        or len({*names}) < len(names)
        or len({*roles}) < len(roles)
        or (Role.POSITIONS in roles) != (Role.PREDICTED_IDS in roles)
    ):
        raise ValueError(f"the columns {', '.join(names)}")


def _check_column(column: Column) -> None:
    name = column.name
    if not (name.isascii() and name.isidentifier() and name[0] != "_"):
        raise ValueError(f"the column {name!r}")
    if column.dtype not in INTEGERS:
        raise ValueError(f"the type {column.dtype!r} of {name}")
    if not ANY_LENGTH <= column.width <= LONGEST_ROW:
        raise ValueError(f"the width of {name}")
    if column.role in {Role.WINDOW, Role.FIRST_LENGTH, Role.SPANS}:
        raise ValueError(f"the role {column.role} of {name}, which is never stored")
    if column.role is not Role.VALUE and (column.role is Role.CLASS) == bool(column.width):
        raise ValueError(f"the role {column.role} of {name}, with its width")
    bounds = (column.smallest, column.smallest if column.largest is None else column.largest)
    padding = () if column.pad == NO_PAD or not column.width else (column.pad,)
    _check_holds(column, *bounds, *padding)
    if bounds[0] > bounds[1]:
        raise ValueError(f"the smallest value of {name}, which is above its largest")
    if column.role is Role.CLASS:
        is_class = bounds[0] == 0 and column.largest is not None and bounds[1] < _MOST_CLASSES
        if not is_class or len(column.value_names) > bounds[1] + 1:
            raise ValueError(f"the values of {name}")
    texts = (column.meaning, column.title, column.feature, *column.value_names)
    if not all(text.isprintable() for text in texts):
        raise ValueError(f"a text of {name}")


def _check_holds(column: Column, *values: int) -> None:
    limits = np.iinfo(column.dtype)
    for value in values:
        if not limits.min <= value <= limits.max:
            raise ValueError(f"the type {column.dtype} of {column.name}, which lacks {value}")


def most_values(column: Column, longest: int, padded: bool) -> int:
    """The most values of a column in one row, of which a damaged shard may claim any number.

    Args:
        column: the column.
        longest: the most tokens of a row.
        padded: whether lists have a fixed size.

    Example:
        With 512 tokens, a list of token types gives 512, and one of 20 predictions 20.
    """
    if not column.width or (padded and column.width != ANY_LENGTH):
        return column.width or 1
    is_other = column.role in {Role.VALUE, Role.TARGET_IDS}
    limit = _MOST_OTHERS if is_other else longest + 1  # one more boundary
    return limit if column.width == ANY_LENGTH else min(limit, column.width)


def arrow_schema(columns: Iterable[Column], padded: bool = False) -> pa.Schema:
    """The Arrow schema of a table of columns."""
    return pa.schema([column.arrow_field(padded) for column in columns])


def pad_rows(values: np.ndarray, offsets: np.ndarray, width: int, pad: int) -> np.ndarray:
    """Ragged rows as a matrix.

    Args:
        values: any[total].
        offsets: integers[rows + 1].
        width: columns of the matrix, at least the longest row.
        pad: what fills the rest of a row.

    Returns:
        any[rows, width].

    Example:
        values [7, 8, 9], offsets [0, 2, 3], width 3, pad 0 give [[7, 8, 0], [9, 0, 0]].
    """
    lengths = np.diff(offsets)
    matrix = np.full((len(lengths), width), pad, values.dtype)
    matrix[np.arange(width) < lengths[:, None]] = values[offsets[0] : offsets[-1]]
    return matrix


# Which example a row is; every objective's `build` puts these columns first.
IDENTITY_SCHEMA = pa.schema(
    [
        pa.field("document", pa.uint64(), nullable=False),
        pa.field("repeat", pa.uint16(), nullable=False),
        pa.field("index", pa.uint32(), nullable=False),
    ]
)
