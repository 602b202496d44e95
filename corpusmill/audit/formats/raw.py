"""Ids alone, as nanoGPT, llm.c, modded-nanogpt and OLMo write them, and arrays of NumPy.

OLMo's .npy has no header, unlike NumPy's; a .csv.gz beside it holds where documents begin and end
(`dolma tokens`). The .bin of llm.c begins with 256 int32: a magic number, the version and the
number of ids.
"""

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import BinaryIO

import numpy as np

from corpusmill.audit.formats.flat import INDEX_NUMBERS, FlatTokens, Index, add_lengths, read_index
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat

_SUFFIXES = (".bin", ".npy", ".raw", ".tokens")
_JUDGED_BYTES = 2**20
_NUMPY, _LLM_C_NUMBERS = b"\x93NUMPY", 256
_LLM_C_TYPES = {20240520: "<u2", 20240801: "<u4"}


def judge_dtype(folder: TokenFolder, name: str, begin: int = 0) -> str:
    """Return the type of the ids of a file, as `judge_numbers` does."""
    with folder.location.open(name) as stream:
        stream.seek(begin)
        return judge_numbers(stream.read(_JUDGED_BYTES))


def judge_numbers(content: bytes) -> str:
    """Return "<u4" if every second number of 16 bits is small, as in ids of 32 bits; or "<u2".

    The upper halves of ids below 2**20 are below 16, of which ids of 16 bits are a few. Likewise
    "<i8", where they are 0 at all.
    """
    halves = np.frombuffer(content, "<u2", len(content) // 8 * 4).reshape(-1, 4)
    if not len(halves) or halves[:, 1].max() >= 16 or halves[:, 3].max() >= 16:
        return "<u2"
    return "<i8" if not halves[:, 2:].any() and halves[:, 0].any() else "<u4"


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    names = [name for name in folder.sizes if name.endswith(_SUFFIXES)]
    return {name: [*_find_indexes(folder, name)] for name in names}


def _find_indexes(folder: TokenFolder, name: str) -> Mapping[str, Index]:
    stem = name.rpartition(".")[0]
    return {
        stem + suffix: partial(read_rows, folder, stem + suffix)
        for suffix, read_rows in _INDEXES.items()
        if stem + suffix in folder.sizes
    }


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open a file.

    Raises:
        ValueError: it is an array of NumPy that holds no ids.
    """
    dtype, begin, expected = "", 0, None
    with folder.location.open(name) as stream:
        head = stream.read(4 * _LLM_C_NUMBERS)
        if head.startswith(_NUMPY):
            dtype, begin, expected = _read_numpy_head(stream)
    if len(head) == 4 * _LLM_C_NUMBERS:
        magic, version, number = np.frombuffer(head, "<i4", 3).tolist()
        if magic in _LLM_C_TYPES and version == 1:
            dtype, begin, expected = _LLM_C_TYPES[magic], len(head), number
    dtype = dtype or folder.dtype or judge_dtype(folder, name)
    index = next(iter(_find_indexes(folder, name).values()), None)
    return [
        FlatTokens(
            f"{folder.location}/{name}", "tokens", dtype, folder=folder, file=name,
            begin=begin, index=index, expected=expected,
        )
    ]  # fmt: skip


def _read_numpy_head(stream: BinaryIO) -> tuple[str, int, int]:
    """Return the type, the first byte and the number of ids; the header is parsed as a literal."""
    stream.seek(0)
    (major, _), numpy_format = np.lib.format.read_magic(stream), np.lib.format
    read = numpy_format.read_array_header_1_0 if major == 1 else numpy_format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.kind not in "iu" or is_fortran:
        raise ValueError(f"it is an array of {dtype}, and no array of ids")
    return dtype.str, stream.tell(), int(np.prod(shape, dtype=np.int64))


def _read_table(folder: TokenFolder, index: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield where documents end and begin, of a table with both."""
    with folder.location.open(index) as stream, gzip.open(stream) as content:
        rows = csv.reader(io.TextIOWrapper(content, errors="replace"))
        numbers = (row[:2] for row in rows if row and row[0].isdigit())
        while bounds := [*islice(numbers, INDEX_NUMBERS)]:
            begins, ends = np.array(bounds, np.int64).T
            yield ends, begins


def _read_lengths(folder: TokenFolder, index: str) -> Iterator[tuple[np.ndarray, None]]:
    return ((ends, None) for ends in add_lengths(read_index(folder, index, "<i4")))


_INDEXES = {".csv.gz": _read_table, ".lengths": _read_lengths}
_ENDS = "Append the tokenizer's end-of-text id to each document's ids"
FORMAT = TokenFormat(_find, _open, "the program that wrote it", _ENDS)
