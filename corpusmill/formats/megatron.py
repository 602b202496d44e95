r"""Megatron-LM's indexed data sets: the tokens of all documents in .bin, where they begin in .idx.

Source: megatron/core/datasets/indexed_dataset.py of NVIDIA/Megatron-LM. All numbers are
little-endian:

    .bin   the tokens of all sequences, one behind the other
    .idx   "MMIDIDX\0\0", uint64 version 1, uint8 code of the tokens' type, uint64 sequences,
           uint64 documents + 1, int32 tokens[sequences], int64 byte of .bin[sequences],
           int64 first sequence[documents + 1]

A row is a document, and a document is one sequence, as tools/preprocess_data.py writes it with
--append-eod. What --data-path takes is the name without its ending.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.token_files import (
    check_end,
    check_stream,
    read_array,
    read_tokens,
    write_tokens,
)

_MAGIC, _VERSION = b"MMIDIDX\0\0", 1
_HEADER = struct.Struct("<9sQBQQ")

# The types of tokens that Megatron-LM writes itself: code and NumPy name.
_NARROW, _WIDE = (8, "<u2"), (4, "<i4")


def _token_type(column: Column) -> tuple[int, str]:
    return _NARROW if np.dtype(column.dtype).itemsize <= 2 else _WIDE


class MegatronShardWriter:
    """Writes one shard: tokens as they come, the index at the end.

    Args:
        streams: of .bin and .idx; they are only written to, never read or sought.
        columns: input_ids alone.
    """

    def __init__(
        self, streams: Sequence[BinaryIO | HashingWriter], columns: tuple[Column, ...]
    ) -> None:
        self._tokens, self._index = streams
        self._code, self._dtype = _token_type(columns[0])
        self._lengths: list[np.ndarray] = []

    def write(self, group: pa.RecordBatch) -> None:
        """Write rows; what is kept of a row is its length, 4 bytes."""
        lengths = write_tokens(self._tokens, group.column("input_ids"), self._dtype)
        self._lengths.append(lengths.astype("<i4"))

    def close(self) -> None:
        """Write the index; the streams stay open."""
        lengths = np.concatenate([np.zeros(0, "<i4"), *self._lengths])
        rows, size = len(lengths), np.dtype(self._dtype).itemsize
        pointers = np.zeros(rows, "<i8")
        np.cumsum(lengths[:-1], out=pointers[1:])
        pointers *= size
        self._index.write(_HEADER.pack(_MAGIC, _VERSION, self._code, rows, rows + 1))
        for numbers in (lengths, pointers, np.arange(rows + 1, dtype="<i8")):
            self._index.write(numbers.tobytes())


def suffixes(_: OutputOptions) -> tuple[str, ...]:
    """The tokens and their index."""
    return (".bin", ".idx")


def open_writer(
    streams: Sequence[BinaryIO | HashingWriter],
    columns: tuple[Column, ...],
    _: OutputOptions,
) -> MegatronShardWriter:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    return MegatronShardWriter(streams, columns)


def read_shard(
    streams: Sequence[BinaryIO],
    columns: tuple[Column, ...],
    _: OutputOptions,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    tokens, index = streams
    code, dtype = _token_type(columns[0])
    rows = _read_header(index, code)
    size, pointer = np.dtype(dtype).itemsize, 0
    for begin in range(0, rows, batch_rows):
        number = min(batch_rows, rows - begin)
        index.seek(_HEADER.size + 4 * begin)
        lengths = read_array(index, number, "<i4").astype(np.int64)
        index.seek(_HEADER.size + 4 * rows + 8 * begin)
        pointers = read_array(index, number, "<i8")
        index.seek(_HEADER.size + 12 * rows + 8 * begin)
        documents = read_array(index, number, "<i8")
        expected = pointer + size * np.cumsum(lengths)
        if (pointers != expected - size * lengths).any():
            raise ValueError("a pointer of its index is not the sum of the lengths before it")
        if (documents != np.arange(begin, begin + number)).any():
            raise ValueError("a document of its index is not one sequence")
        pointer = int(expected[-1])
        yield from read_tokens(tokens, lengths, dtype, columns[0])
    index.seek(_HEADER.size + 20 * rows)
    if read_array(index, 1, "<i8")[0] != rows:
        raise ValueError("its index does not end with the number of its sequences")
    check_end(index, ".idx")
    check_end(tokens, ".bin")


def _read_header(index: BinaryIO, code: int) -> int:
    """The number of sequences."""
    content = index.read(_HEADER.size)
    if len(content) < _HEADER.size:
        raise ValueError("its .idx is too short for a header")
    magic, version, found, rows, documents = _HEADER.unpack(content)
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError("its .idx is no index of Megatron-LM, version 1")
    if found != code:
        raise ValueError(f"its .idx names the type {found} of tokens, not {code}")
    if documents != rows + 1:
        raise ValueError(f"its .idx has {documents - 1:,} documents for {rows:,} sequences")
    return int(rows)


def check(columns: tuple[Column, ...], _: OutputOptions) -> None:
    """Refuse what is no stream of tokens.

    Raises:
        UserError: other columns than input_ids, or rows that are examples by themselves.
    """
    check_stream("megatron", columns)


def load_megatron(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By Megatron-LM's flag."""
    shards = [shard["file"] for split in manifest["splits"].values() for shard in split["shards"]]
    yield "Megatron-LM takes the names of shards without their endings, from any folder:"
    yield from ("", "```sh", f"--data-path path/to/{PurePosixPath(shards[0]).stem} ...", "```", "")
    yield "A document is one sequence of the index, and ends as the option `end_of_text` says."
    yield ""
