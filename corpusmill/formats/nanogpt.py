"""nanoGPT's token files: train.bin and val.bin, uint16 tokens one behind the other.

Source: data/openwebtext/prepare.py of karpathy/nanoGPT, which maps the file into memory and cuts
examples at random places. Its file does not say where documents end, and a text may hold the
end-of-text token, so that a companion does: .lengths, the number of tokens of each document, int32.
All numbers are little-endian. Two such files of each kind, joined, are one of the kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.token_files import (
    check_end,
    check_stream,
    read_tokens,
    write_tokens,
)

_TOKEN, _LENGTH = "<u2", "<i4"


class NanogptShardWriter:
    """Writes one shard as a stream.

    Args:
        streams: of .bin and .lengths; they are only written to, never read or sought.
    """

    def __init__(self, streams: Sequence[BinaryIO | HashingWriter]) -> None:
        self._tokens, self._lengths = streams

    def write(self, group: pa.RecordBatch) -> None:
        """Write rows."""
        lengths = write_tokens(self._tokens, group.column("input_ids"), _TOKEN)
        self._lengths.write(lengths.astype(_LENGTH).tobytes())

    def close(self) -> None:
        """Nothing stands behind the last row."""


def suffixes(_: OutputOptions) -> tuple[str, ...]:
    """The tokens, and how many each document has."""
    return (".bin", ".lengths")


def open_writer(
    streams: Sequence[BinaryIO | HashingWriter],
    _columns: tuple[Column, ...],
    _options: OutputOptions,
) -> NanogptShardWriter:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    return NanogptShardWriter(streams)


def read_shard(
    streams: Sequence[BinaryIO],
    columns: tuple[Column, ...],
    _: OutputOptions,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    tokens, companion = streams
    size = np.dtype(_LENGTH).itemsize
    while content := companion.read(batch_rows * size):
        if len(content) % size:
            raise ValueError("its .lengths ends within a number")
        lengths = np.frombuffer(content, _LENGTH).astype(np.int64)
        yield from read_tokens(tokens, lengths, _TOKEN, columns[0])
    check_end(tokens, ".bin")


def check(columns: tuple[Column, ...], _: OutputOptions) -> None:
    """Refuse what is no stream of 16-bit tokens.

    Raises:
        UserError: other columns than input_ids, rows that are examples by themselves, or a
            vocabulary of more than 65,536 tokens.
    """
    check_stream("nanogpt", columns)
    if np.dtype(columns[0].dtype).itemsize > 2:
        raise UserError(
            "--output-format nanogpt",
            "its tokens have 16 bits, and the vocabulary has more than 65,536",
            "Use a smaller tokenizer, or another format",
        )


def load_nanogpt(manifest: Mapping[str, Any]) -> Iterator[str]:
    """As nanoGPT does, by numpy."""
    file = next(iter(manifest["splits"].values()))["shards"][0]["file"]
    lengths = PurePosixPath(file).with_suffix(".lengths")
    yield from ("nanoGPT reads this folder as `data/<dataset>`.", "", "```python")
    yield from ("import numpy as np", "")
    yield f'tokens = np.memmap("{file}", dtype=np.uint16, mode="r")'
    yield f'lengths = np.fromfile("{lengths}", dtype=np.int32)  # of the documents'
    yield from ("```", "")
