"""Token ids one behind the other in a file, as Megatron-LM and nanoGPT map them into memory."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, arrow_schema
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.errors import UserError

# Most tokens of a batch that is read, but for a row that has more.
_BATCH_TOKENS = 2**22


def check_stream(output_format: str, columns: tuple[Column, ...]) -> None:
    """Refuse rows that are no stream of tokens.

    Args:
        output_format: the format's name.
        columns: of the data set.

    Raises:
        UserError: there are other columns than input_ids, or its rows are examples by themselves.
    """
    value = f"--output-format {output_format}"
    others = [column.name for column in columns if column.name != "input_ids"]
    if others:
        cause = f"it holds token ids alone, and the examples have {', '.join(others)}, too"
        raise UserError(value, cause, "Use another format, or build `gpt --mode stream`")
    if columns[0].width != ANY_LENGTH:
        cause = "its readers cut examples from one stream of tokens, and these are cut already"
        raise UserError(value, cause, "Give --mode stream, or another format")


def write_tokens(
    stream: BinaryIO | HashingWriter, input_ids: pa.ListArray, dtype: str
) -> np.ndarray:
    """Write rows one behind the other.

    Args:
        stream: where the bytes go.
        input_ids: the rows.
        dtype: NumPy name of the type of a token in the file, with its byte order ("<u2").

    Returns:
        int64[rows], the tokens of each.
    """
    values, offsets = ragged.from_arrow(input_ids)
    stream.write(values[offsets[0] : offsets[-1]].astype(dtype).tobytes())
    lengths: np.ndarray = np.diff(offsets).astype(np.int64)
    return lengths


def read_tokens(
    stream: BinaryIO, lengths: np.ndarray, dtype: str, column: Column
) -> Iterator[pa.RecordBatch]:
    """Read the next rows.

    Args:
        stream: stands at the first of them.
        lengths: int64[rows], tokens of each.
        dtype: as it was written with.
        column: input_ids.

    Raises:
        ValueError: the file ends before, or a length is negative.
    """
    if (lengths < 0).any():
        raise ValueError("a row has a negative length")
    schema, behind = arrow_schema((column,)), np.cumsum(lengths)
    begin = 0
    while begin < len(lengths):
        before = int(behind[begin] - lengths[begin])
        fitting = int(np.searchsorted(behind, before + _BATCH_TOKENS, side="right"))
        end = max(begin + 1, fitting)
        values = read_array(stream, int(behind[end - 1]) - before, dtype)
        if len(values) and values.max() > np.iinfo(column.dtype).max:
            raise ValueError(f"a token id is larger than {column.dtype} holds")
        offsets = np.concatenate([[0], behind[begin:end] - before])
        rows = ragged.to_arrow(values.astype(column.dtype), offsets)
        yield ragged.to_batch([rows], schema)
        begin = end


def read_array(stream: BinaryIO, number: int, dtype: str) -> np.ndarray:
    """The next numbers of a file.

    Args:
        stream: stands at the first of them.
        number: how many.
        dtype: NumPy name of their type, with its byte order.

    Raises:
        ValueError: the file ends before.
    """
    content = stream.read(number * np.dtype(dtype).itemsize)
    if len(content) != number * np.dtype(dtype).itemsize:
        raise ValueError("it ends too early")
    return np.frombuffer(content, dtype)


def check_end(stream: BinaryIO, name: str) -> None:
    """Make sure that nothing follows.

    Raises:
        ValueError: something does.
    """
    if stream.read(1):
        raise ValueError(f"its {name} is longer than its rows")
