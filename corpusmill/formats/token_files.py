"""Files of token ids without separators, as Megatron-LM and nanoGPT map them into memory."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, arrow_schema
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardFormat, Sink

# The most tokens of a batch that is read, unless a single row has more.
_BATCH_TOKENS = 2**22


class TokenFileFormat(ShardFormat):
    """A format that holds a stream of token ids and the lengths of its documents."""

    group_rows = 1024  # which decides no bytes here, and the documents may be long

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse rows that are not a stream of tokens.

        Raises:
            UserError: there are columns other than the tokens, or the rows have been cut into
                examples already.
        """
        flag = f"--output-format {self.name}"
        others = [column.name for column in columns if column.role is not Role.TOKEN_IDS]
        if others:
            cause = f"it holds token ids alone, and the examples have {', '.join(others)}, too"
            raise UserError(flag, cause, "Use another format, or build a stream of tokens")
        if columns[0].width != ANY_LENGTH:
            cause = "its readers cut examples from one stream of tokens, and these are cut already"
            raise UserError(flag, cause, "Give --mode stream, or another format")


def write_tokens(sink: Sink, input_ids: pa.ListArray, dtype: str) -> npt.NDArray[np.int64]:
    """Write the tokens of rows, without anything between them.

    Args:
        sink: where the bytes go.
        input_ids: the rows.
        dtype: NumPy name of a token's type in the file, with its byte order ("<u2").

    Returns:
        int64[rows], the number of tokens of each row.
    """
    values, offsets = ragged.from_arrow(input_ids)
    sink.write(values[offsets[0] : offsets[-1]].astype(dtype).tobytes())
    return np.diff(offsets).astype(np.int64)


def read_tokens(
    source: BinaryIO, lengths: npt.NDArray[np.int64], dtype: str, column: Column, longest: int
) -> Iterator[pa.RecordBatch]:
    """Read the next rows.

    Args:
        source: at the first token of the first row.
        lengths: int64[rows], the number of tokens of each row.
        dtype: as in `write_tokens`.
        column: input_ids.
        longest: the most tokens of a row.

    Raises:
        ValueError: the file ends too early, a length is impossible, or a token is too large.
    """
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= longest:
        raise ValueError(f"the length of a row is not from 0 to {longest:,}")
    schema, ends = arrow_schema((column,)), np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        start = int(ends[first] - lengths[first])
        stop = max(first + 1, int(np.searchsorted(ends, start + _BATCH_TOKENS, side="right")))
        values = read_array(source, int(ends[stop - 1]) - start, dtype)
        if len(values) and values.max() > np.iinfo(column.dtype).max:
            raise ValueError(f"a token id is larger than {column.dtype} holds")
        offsets = np.concatenate([[0], ends[first:stop] - start])
        yield ragged.to_batch([ragged.to_arrow(values.astype(column.dtype), offsets)], schema)
        first = stop


def read_array(source: BinaryIO, count: int, dtype: str) -> npt.NDArray[np.integer]:
    """Read the next `count` numbers of a file.

    Args:
        source: at the first of them.
        count: how many numbers.
        dtype: NumPy name of their type, with its byte order.

    Raises:
        ValueError: the file ends too early.
    """
    size = count * np.dtype(dtype).itemsize
    content = source.read(size)
    if len(content) != size:
        raise ValueError("it ends too early")
    return np.frombuffer(content, dtype)


def check_end(source: BinaryIO, suffix: str) -> None:
    """Check that the file of the given suffix ends here.

    Raises:
        ValueError: it does not.
    """
    if source.read(1):
        raise ValueError(f"its {suffix} is longer than its rows")
