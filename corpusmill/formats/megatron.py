r"""Megatron-LM's indexed data sets: all tokens in .bin, and where documents begin in .idx.

Source: megatron/core/datasets/indexed_dataset.py of NVIDIA/Megatron-LM. All numbers are
little-endian:

    .bin   the tokens of all sequences, without separators
    .idx   "MMIDIDX\0\0", uint64 version 1, uint8 code of the tokens' type, uint64 sequences,
           uint64 documents + 1, int32 tokens[sequences], int64 byte of .bin[sequences],
           int64 first sequence[documents + 1]

A row is a document, and a document is one sequence, as tools/preprocess_data.py writes it with
--append-eod. The flag --data-path takes the file's name without its suffix.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import LONGEST_ROW, Column
from corpusmill.formats import token_files
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardWriter, Sinks, Sources

_MAGIC, _VERSION = b"MMIDIDX\0\0", 1
_HEADER = struct.Struct("<9sQBQQ")

# The types of tokens that Megatron-LM itself writes: code and NumPy name.
_NARROW, _WIDE = (8, "<u2"), (4, "<i4")

# The blends of several sources, and Megatron-LM's names of our splits.
_BLEND, _BLEND_BY_SPLIT = "blend.txt", "blend.json"
_SPLITS = {"train": "train", "validation": "valid"}


def _token_type(column: Column) -> tuple[int, str]:
    return _NARROW if np.dtype(column.dtype).itemsize <= 2 else _WIDE


class MegatronFormat(token_files.TokenFileFormat):
    """The tokens of a shard and their index."""

    name = "megatron"
    file_suffixes = (".bin", ".idx")
    companion_names = (_BLEND, _BLEND_BY_SPLIT)

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes tokens as they come and the index at the end."""
        return _Writer(sinks, columns)

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
        code, dtype = _token_type(columns[0])
        rows = _read_header(index, code)
        size, pointer = np.dtype(dtype).itemsize, 0
        for begin in range(0, rows, batch_rows):
            count = min(batch_rows, rows - begin)
            lengths = _read_index(index, 4 * begin, count, "<i4").astype(np.int64)
            pointers = _read_index(index, 4 * rows + 8 * begin, count, "<i8")
            documents = _read_index(index, 12 * rows + 8 * begin, count, "<i8")
            ends = pointer + size * np.cumsum(lengths)
            if (pointers != ends - size * lengths).any():
                raise ValueError("a pointer of its index is not the sum of the lengths before it")
            if (documents != np.arange(begin, begin + count)).any():
                raise ValueError("a document of its index is not one sequence")
            pointer = int(ends[-1])
            yield from token_files.read_tokens(tokens, lengths, dtype, columns[0], longest)
        if _read_index(index, 20 * rows, 1, "<i8")[0] != rows:
            raise ValueError("its index does not end with the number of its sequences")
        token_files.check_end(index, ".idx")
        token_files.check_end(tokens, ".bin")

    def blend_files(self, tokens: Mapping[str, Mapping[str, int]]) -> dict[str, bytes]:
        """Weigh each shard by its tokens, for --data-args-path and --per-split-data-args-path."""
        blends = {
            _SPLITS[split]: [
                (str(number), PurePosixPath(file).stem) for file, number in files.items()
            ]
            for split, files in tokens.items()
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
        prefix = PurePosixPath(files[0]).stem
        yield from ("", "```sh", f"--data-path path/to/{prefix} ...", "```", "")
        yield "A document is one sequence of the index, and ends as the option `end_of_text` says."
        yield ""


class _Writer:
    def __init__(self, sinks: Sinks, columns: Columns) -> None:
        self._tokens, self._index = sinks
        self._column, (self._code, self._dtype) = columns[0].name, _token_type(columns[0])
        self._lengths = [np.zeros(0, "<i4")]

    def write(self, rows: pa.RecordBatch) -> None:
        # Only a row's length is kept, 4 bytes.
        lengths = token_files.write_tokens(self._tokens, rows.column(self._column), self._dtype)
        self._lengths.append(lengths.astype("<i4"))

    def close(self) -> None:
        lengths = np.concatenate(self._lengths)
        rows = len(lengths)
        pointers = np.zeros(rows, "<i8")
        np.cumsum(lengths[:-1], out=pointers[1:])
        pointers *= np.dtype(self._dtype).itemsize
        self._index.write(_HEADER.pack(_MAGIC, _VERSION, self._code, rows, rows + 1))
        for numbers in (lengths, pointers, np.arange(rows + 1, dtype="<i8")):
            self._index.write(numbers.tobytes())


def _read_index(index: BinaryIO, place: int, count: int, dtype: str) -> npt.NDArray[np.integer]:
    """Read numbers from a place after the header."""
    index.seek(_HEADER.size + place)
    return token_files.read_array(index, count, dtype)


def _read_header(index: BinaryIO, code: int) -> int:
    """Return the number of sequences."""
    content = index.read(_HEADER.size)
    if len(content) < _HEADER.size:
        raise ValueError("its .idx is too short for a header")
    magic, version, actual_code, rows, documents = _HEADER.unpack(content)
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError("its .idx is not an index of Megatron-LM, version 1")
    if actual_code != code:
        raise ValueError(f"its .idx says that tokens have the type {actual_code}, not {code}")
    if documents != rows + 1:
        raise ValueError(f"its .idx has {documents - 1:,} documents for {rows:,} sequences")
    return int(rows)
