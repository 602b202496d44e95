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
import numpy.typing as npt

from corpusmill.audit.formats.flat import INDEX_NUMBERS, open_flat, read_index
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
    indexes = {
        name: [name.rpartition(".")[0] + end for end in (".csv.gz", ".lengths")] for name in names
    }
    return {name: [one for one in indexes[name] if one in folder.sizes] for name in names}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open a file.

    Raises:
        ValueError: it is an array of NumPy that holds no ids.
    """
    dtype, begin, stated = "", 0, None
    with folder.location.open(name) as stream:
        head = stream.read(4 * _LLM_C_NUMBERS)
        if head.startswith(_NUMPY):
            dtype, begin, stated = _read_numpy_head(stream)
    if len(head) == 4 * _LLM_C_NUMBERS:
        magic, version, number = np.frombuffer(head, "<i4", 3).tolist()
        if magic in _LLM_C_TYPES and version == 1:
            dtype, begin, stated = _LLM_C_TYPES[magic], len(head), number
    dtype = dtype or folder.dtype or judge_dtype(folder, name)
    file = open_flat(folder, name, "tokens", dtype, begin, stated)
    stem = name.rpartition(".")[0]
    if (index := f"{stem}.csv.gz") in folder.sizes:
        file.lengths = partial(_read_table, folder, index, file.faults)
    elif (index := f"{stem}.lengths") in folder.sizes:
        file.lengths = partial(read_index, folder.location, index, "<i4")
    else:
        file.is_stream = True
    return [file]


def _read_numpy_head(stream: BinaryIO) -> tuple[str, int, int]:
    """Return the type, the first byte and the number of ids; the header is parsed as a literal."""
    stream.seek(0)
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version[0] == 1
        else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read(stream)
    if dtype.kind not in "iu" or is_fortran:
        raise ValueError(f"it is an array of {dtype}, and no array of ids")
    return dtype.str, stream.tell(), int(np.prod(shape, dtype=np.int64))


def _read_table(
    folder: TokenFolder, index: str, faults: list[str]
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the lengths of documents from where they begin and end."""
    place = wrong = 0
    with folder.location.open(index) as stream, gzip.open(stream) as content:
        rows = csv.reader(io.TextIOWrapper(content, errors="replace"))
        numbers = (row[:2] for row in rows if row and row[0].isdigit())
        while some := [*islice(numbers, INDEX_NUMBERS)]:
            bounds = np.array(some, np.int64)
            wrong += int(np.count_nonzero(bounds[:, 0] != np.append(place, bounds[:-1, 1])))
            yield np.diff(bounds[:, 1], prepend=place)
            place = int(bounds[-1, 1])
    if wrong:
        faults.append(
            f"its .csv.gz lets {wrong:,} documents begin elsewhere than the one before ends"
        )


FORMAT = TokenFormat(
    _find,
    _open,
    "the program that wrote it",
    "Append the tokenizer's end-of-text id to each document's ids",
)
