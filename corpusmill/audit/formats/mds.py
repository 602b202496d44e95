"""Shards of MosaicML's streaming (`corpusmill.formats.mds` describes their bytes)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from corpusmill.audit.formats.beside import find_beside, join_beside
from corpusmill.audit.formats.columns import IDS, ColumnTokens, Lists, choose_columns
from corpusmill.audit.formats.raw import judge_numbers
from corpusmill.audit.token_files import BATCH_TOKENS, TokenFile, TokenFolder, TokenFormat
from corpusmill.corpus.decompression import open_decompressed, read_fully
from corpusmill.formats.mds import Field, find_columns
from corpusmill.formats.varints import gather

_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
# The first byte of an array whose type is not that of its column.
_CODES = dict(zip((8, 9, 16, 17, 32, 33, 64, 65), _INTEGERS, strict=True))


class _Encoding(NamedTuple):
    """How a list is stored.

    Attributes:
        column: name of the column.
        dtype: NumPy name of the type of its numbers; empty for one to be judged, or in its head.
        has_head: whether its shape precedes it, and its type if it has none.
    """

    column: str
    dtype: str
    has_head: bool = False


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open the shards of an index.

    Raises:
        ValueError: they have no column of ids.
    """
    index = orjson.loads(folder.location.read(name))
    return [_open_shard(folder, name, shard) for shard in index["shards"]]


def _open_shard(folder: TokenFolder, index: str, shard: Any) -> TokenFile:
    # Of a shard that is compressed the raw file need not be there.
    names = [file["basename"] for file in (shard["raw_data"], shard["zip_data"]) if file]
    keys = ("column_names", "column_encodings", "column_sizes")
    columns = zip(*map(shard.get, keys), strict=True)
    fields = [Field(name, encoding, size or None) for name, encoding, size in columns]
    encodings = {field.name: encoding for field in fields if (encoding := _find_encoding(field))}
    file = ColumnTokens(f"{folder.location}/{names[-1]}", "mds", folder.dtype or "")
    file.meanings, file.rows = choose_columns(encodings), shard["samples"]

    def load() -> Iterator[Mapping[str, Lists]]:
        path = join_beside(folder, index, *names)
        with open_decompressed(folder.location.open(path), path) as stream:
            for data, bounds in _read_rows(stream):
                places = find_columns(data, bounds, fields)
                yield {
                    name: _take_lists(file, encodings[name], data, *places[name])
                    for name in file.meanings
                }

    file.list_parts = lambda: [load()]
    return file


def _find_encoding(field: Field) -> _Encoding | None:
    """Return how a column stores lists of integers; None if it stores something else."""
    kind, _, rest = field.encoding.partition(":")
    dtype, _, shape = rest.partition(":")
    if kind == "ndarray" and (dtype in _INTEGERS or not rest):
        return _Encoding(field.name, dtype, not shape)
    if kind == "bytes" or (kind in _INTEGERS and not field.size):
        return _Encoding(field.name, "" if kind == "bytes" else kind)
    return None


def _read_rows(stream: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the bytes of rows, some at a time, and where they begin and end in these.

    Raises:
        ValueError: the shard is damaged, or ends too early; the rows before that were yielded.
    """
    rows = int(np.frombuffer(read_fully(stream, 4), "<u4")[0])
    head = read_fully(stream, 4 * rows + 4)
    begins = np.frombuffer(head, "<u4", len(head) // 4).astype(np.int64)
    if len(begins) <= rows or begins[0] < 4 * rows + 8 or (np.diff(begins) < 0).any():
        raise ValueError("its rows do not follow each other")
    read_fully(stream, int(begins[0]) - 4 * rows - 8)
    first = 0
    while first < rows:
        stop = int(np.searchsorted(begins, begins[first] + 8 * BATCH_TOKENS, side="right")) - 1
        data = read_fully(stream, int(begins[max(first + 1, stop)] - begins[first]))
        stop = int(np.searchsorted(begins, begins[first] + len(data), side="right")) - 1
        if stop <= first:
            raise ValueError("it ends too early")
        bounds = begins[first : stop + 1] - begins[first]
        yield np.frombuffer(data, np.uint8)[: bounds[-1]], bounds
        first = stop


def _take_lists(
    file: ColumnTokens, encoding: _Encoding, data: np.ndarray, begins: np.ndarray, ends: np.ndarray
) -> Lists:
    """Decode the lists of a column, whose type is judged, and kept, if nothing says it."""
    column, dtype, has_head = encoding
    if has_head:
        head = np.append(data, np.zeros(2, np.uint8))[begins[:, None] + np.arange(2)]
        shapes = head[:, 0 if dtype else 1].astype(np.int64)
        if not dtype:
            dtype = _CODES[int(head[0, 0])]
            if (head[:, 0] != head[0, 0]).any():
                raise ValueError(f"{column} has arrays of several types")
        # The number of dimensions, and of how many bytes each is, as a power of 2.
        begins = begins + (1 if encoding.dtype else 2) + ((shapes >> 2) << (shapes & 3))
    if (begins > ends).any():
        raise ValueError(f"an array of {column} ends within its shape")
    values, offsets = gather(data, begins, ends)
    if not dtype:
        file.dtype = file.dtype or judge_numbers(values.tobytes())
        is_ids = file.meanings[column] == IDS
        dtype = file.dtype if is_ids else np.dtype(file.dtype).str.replace("u", "i")
    return values.view(np.dtype(dtype).newbyteorder("<")), offsets // np.dtype(dtype).itemsize


_find = partial(find_beside, index="index.json", mark=".mds")
FORMAT = TokenFormat(
    _find, _open, "streaming", "Run llm-foundry's convert_dataset_hf.py with --eos_text"
)
