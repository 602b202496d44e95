r"""Files of token ids without separators, as Megatron-LM and nanoGPT map them into memory.

An indexed data set of Megatron-LM has all tokens in .bin, and where documents begin in .idx
(megatron/core/datasets/indexed_dataset.py of NVIDIA/Megatron-LM). All numbers are little-endian:

    .bin   the tokens of all sequences, without separators
    .idx   "MMIDIDX\0\0", uint64 version 1, uint8 code of the tokens' type, uint64 sequences,
           uint64 documents + 1, int32 tokens[sequences], int64 byte of .bin[sequences],
           int64 first sequence[documents + 1]

A row is a document, and a document is one sequence, as tools/preprocess_data.py writes it with
--append-eod. The flag --data-path takes the file's name without its suffix.

nanoGPT has train.bin and val.bin, uint16 tokens without separators (data/openwebtext/prepare.py of
karpathy/nanoGPT). It maps the file into memory and cuts examples at random places. The file does
not say where documents end, and a text may contain the
end-of-text token. So a companion file says it: .lengths, the number of tokens of each document,
int32. All numbers are little-endian. The concatenation of two files of a kind is a file of that
kind.
"""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, LONGEST_ROW, Column, Role, arrow_schema
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import (
    GROUP_ROWS,
    READ_TOKENS,
    Columns,
    DataSetContents,
    ShardFormat,
    ShardWriter,
    Sinks,
    Sources,
)

_MOST_GROUP_ROWS = 1024


class TokenFileFormat(ShardFormat):
    """A format that holds a stream of token ids and the lengths of its documents."""

    @property
    def group_rows(self) -> int:
        """The most rows that are written at once: few, as documents may be long."""
        return min(_MOST_GROUP_ROWS, GROUP_ROWS)

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse rows that are not a stream of tokens.

        Raises:
            UserError: there are columns other than the tokens, or the rows have been cut into
                examples already.
        """
        flag = option("output_format", self.name)
        others = [column.name for column in columns if column.role is not Role.TOKEN_IDS]
        if others:
            cause = f"it holds token ids alone, and the examples have {', '.join(others)}, too"
            raise UserError(flag, cause, "Use another format, or build a stream of tokens")
        if columns[0].width != ANY_LENGTH:
            cause = "its readers cut examples from one stream of tokens, and these are cut already"
            raise UserError(flag, cause, f"Give {option('mode', 'stream')}, or another format")


class _Writer:
    """Writes tokens as they come, and at the end what a file tells of the documents' lengths.

    Args:
        sinks: of the tokens, and of the lengths.
        column: the tokens.
        dtype: NumPy name of a token's type in the file, with its byte order ("<u2").
        encode: returns what the file tells, from lengths, int32[documents].
    """

    def __init__(
        self, sinks: Sinks, column: Column, dtype: str, encode: Callable[[np.ndarray], bytes]
    ) -> None:
        self._tokens, self._companion = sinks
        self._column, self._dtype, self._encode = column.name, dtype, encode
        self._lengths = [np.zeros(0, "<i4")]  # only a row's length is kept, 4 bytes

    def write(self, rows: pa.RecordBatch) -> None:
        values, offsets = ragged.from_arrow(rows.column(self._column))
        self._tokens.write(values[offsets[0] : offsets[-1]].astype(self._dtype).tobytes())
        self._lengths.append(np.diff(offsets).astype("<i4"))

    def close(self) -> None:
        self._companion.write(self._encode(np.concatenate(self._lengths)))


def read_tokens(
    source: BinaryIO,
    lengths: npt.NDArray[np.int64],
    dtype: str,
    column: Column,
    longest: int,
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
        stop = max(first + 1, int(np.searchsorted(ends, start + READ_TOKENS, side="right")))
        size = np.dtype(dtype).itemsize * (int(ends[stop - 1]) - start)
        content = source.read(size)
        if len(content) != size:
            raise ValueError("it ends too early")
        values = np.frombuffer(content, dtype)
        if len(values) and values.max() > np.iinfo(column.dtype).max:
            raise ValueError(f"a token id is larger than {column.dtype} holds")
        offsets = np.concatenate([[0], ends[first:stop] - start])
        yield ragged.to_batch([ragged.to_arrow(values.astype(column.dtype), offsets)], schema)
        first = stop


def check_end(source: BinaryIO, suffix: str) -> None:
    """Check that the file of the given suffix ends here.

    Raises:
        ValueError: it does not.
    """
    if source.read(1):
        raise ValueError(f"its {suffix} is longer than its rows")


MEGATRON_MAGIC, _VERSION = b"MMIDIDX\0\0", 1
MEGATRON_HEADER = struct.Struct("<9sQBQQ")

# The types of tokens that Megatron-LM itself writes: code and NumPy name.
_NARROW, _WIDE = (8, "<u2"), (4, "<i4")

# The blends of several sources, and Megatron-LM's names of our splits.
_BLEND, _BLEND_BY_SPLIT = "blend.txt", "blend.json"
_SPLITS = {"train": "train", "validation": "valid"}


def _token_type(column: Column) -> tuple[int, str]:
    return _NARROW if np.dtype(column.dtype).itemsize <= 2 else _WIDE


class MegatronFormat(TokenFileFormat):
    """The tokens of a shard and their index."""

    name = "megatron"
    file_suffixes = (".bin", ".idx")
    companion_names = (_BLEND, _BLEND_BY_SPLIT)

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes tokens as they come and the index at the end."""
        encode = partial(_encode_index, column=columns[0])
        return _Writer(sinks, columns[0], _token_type(columns[0])[1], encode)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the documents, and check every byte of the index."""
        tokens, index = sources
        dtype, content = _token_type(columns[0])[1], index.read()
        rows = MEGATRON_HEADER.unpack(
            content[: MEGATRON_HEADER.size].ljust(MEGATRON_HEADER.size, b"\0")
        )[3]
        held = max(0, len(content) - MEGATRON_HEADER.size) // np.dtype("<i4").itemsize
        lengths = np.frombuffer(
            content, "<i4", min(rows, held), min(MEGATRON_HEADER.size, len(content))
        )
        # All else follows from the lengths.
        if content != _encode_index(lengths, columns[0]):
            raise ValueError("its .idx is not the index of Megatron-LM for its sequences")
        for begin in range(0, rows, batch_rows):
            own = lengths[begin : begin + batch_rows].astype(np.int64)
            yield from read_tokens(tokens, own, dtype, columns[0], longest)
        check_end(tokens, ".bin")

    def companion_files(self, contents: DataSetContents) -> dict[str, bytes]:
        """Weigh each shard by its tokens, for --data-args-path and --per-split-data-args-path."""
        if not contents.has_sources:
            return {}
        blends = {
            _SPLITS[split]: [
                (str(shard.tokens), str(PurePosixPath(shard.file).with_suffix("")))
                for shard in shards
                if shard.tokens
            ]
            for split, shards in contents.shards.items()
        }
        lines = "".join(f"{weight} {prefix}\n" for weight, prefix in blends.get("train", ()))
        # Megatron-LM takes no list that is empty, and looks for each of its splits.
        by_split = {
            split: [word for pair in blends.get(split, ()) for word in pair] or None
            for split in ("train", "valid", "test")
        }
        content = json.dumps(by_split, indent=1) + "\n"
        return {_BLEND: lines.encode(), _BLEND_BY_SPLIT: content.encode()}

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by Megatron-LM's flag."""
        yield "Megatron-LM takes the names of shards without their endings, from any folder:"
        prefix = PurePosixPath(files[0]).with_suffix("")
        yield from ("", "```sh", f"--data-path path/to/{prefix} ...", "```", "")
        yield "A document is one sequence of the index, and ends as the option `end_of_text` says."
        yield ""


def _encode_index(lengths: npt.NDArray[np.int32], column: Column) -> bytes:
    """Return the index of documents.

    Args:
        lengths: int32[documents], their tokens.
        column: input_ids.
    """
    code, dtype = _token_type(column)
    pointers = np.zeros(len(lengths), "<i8")
    np.cumsum(lengths[:-1], out=pointers[1:])
    pointers *= np.dtype(dtype).itemsize
    header = MEGATRON_HEADER.pack(MEGATRON_MAGIC, _VERSION, code, len(lengths), len(lengths) + 1)
    documents = np.arange(len(lengths) + 1, dtype="<i8")
    return header + lengths.tobytes() + pointers.tobytes() + documents.tobytes()


_TOKEN, _LENGTH = "<u2", "<i4"


class NanogptFormat(TokenFileFormat):
    """One file of 16-bit tokens per split."""

    name = "nanogpt"
    file_suffixes = (".bin", ".lengths")
    joined = {"train": "train", "validation": "val"}  # noqa: RUF012 - never changed

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse rows that are not a stream of 16-bit tokens.

        Raises:
            UserError: likewise, or the vocabulary has more than 65,536 tokens.
        """
        super().check(columns, options)
        if np.dtype(columns[0].dtype).itemsize > 2:
            raise UserError(
                option("output_format", "nanogpt"),
                "its tokens have 16 bits, and the vocabulary has more than 65,536",
                "Use a smaller tokenizer, or another format",
            )

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes tokens as they come and the lengths at the end."""
        return _Writer(sinks, columns[0], _TOKEN, np.ndarray.tobytes)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the documents."""
        tokens, companion = sources
        size = np.dtype(_LENGTH).itemsize
        while content := companion.read(batch_rows * size):
            if len(content) % size:
                raise ValueError("its .lengths ends within a number")
            lengths = np.frombuffer(content, _LENGTH).astype(np.int64)
            yield from read_tokens(tokens, lengths, _TOKEN, columns[0], longest)
        check_end(tokens, ".bin")

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by NumPy, as nanoGPT does."""
        lengths = PurePosixPath(files[0]).with_suffix(".lengths")
        what = "nanoGPT reads `train.bin` and `val.bin` in `data/<dataset>`: link them there."
        yield from (what, "", "```python")
        yield from ("import numpy as np", "")
        yield f'tokens = np.memmap("{files[0]}", dtype=np.uint16, mode="r")'
        yield f'lengths = np.fromfile("{lengths}", dtype=np.int32)  # of the documents'
        yield from ("```", "")
