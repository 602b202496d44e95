"""Which rows of a table hold no text that can be used, and why."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.tables.table import TextRows, lengths_of
from corpusmill.corpus.text.line_kernels import find_invalid_utf_8


class Fault(NamedTuple):
    """A fault that rows may have.

    Attributes:
        is_bad: bool[n], whether each row has it.
        reason: for which such rows are rejects.
        explain: returns the detail of a row that has it.
    """

    is_bad: npt.NDArray[np.bool_]
    reason: str
    explain: Callable[[int], str]


def find_faults(rows: TextRows, options: DocumentOptions) -> Iterator[Fault]:
    """Yield all faults of some rows. A row that has several is refused for the first one.

    Args:
        rows: n rows.
        options: with the names of the fields, and the most bytes of a text.
    """
    texts, limit, field = rows.texts, options.max_line_bytes, options.text_field
    is_null = ragged.to_numpy(texts.is_null())
    yield Fault(is_null, "not-text", lambda row: f"{field} holds {rows.kinds.get(row, 'null')}")
    yield _find_long("", texts, limit)
    text, offsets = ragged.from_arrow(texts)
    invalid = find_invalid_utf_8(text, offsets[:-1], offsets[1:])
    yield Fault(invalid, "invalid-utf-8", lambda row: _explain_invalid(texts[row]))
    for name, values in zip(options.keep_fields, rows.fields, strict=True):
        yield _find_long(f"{name} has ", values, limit)


def measure_texts(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n], the bytes of each text; 0 for a null."""
    sizes = np.where(ragged.to_numpy(texts.is_null()), 0, lengths_of(texts))
    return sizes.astype(np.int64)


def _find_long(name: str, values: pa.Array, limit: int) -> Fault:
    sizes = measure_texts(values)

    def explain(row: int) -> str:
        return f"{name}{sizes[row]} bytes, above --max-line-bytes {limit}"

    return Fault(sizes > limit, "record-too-long", explain)


def _explain_invalid(text: pa.Scalar) -> str:
    try:
        return str(text.as_buffer(), "utf-8")
    except UnicodeDecodeError as error:
        return str(error)
