"""Chunks of ids of LitData, as LitGPT trains from them.

A chunk is the number of its items, where they begin and where the last one ends, uint32 all of
them, and the items, each of ids alone (litdata/streaming: writer.py, TokensLoader).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson

from corpusmill.audit.formats.beside import find_beside, join_beside
from corpusmill.audit.formats.flat import FlatTokens, read_index
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat, UnreadableFile

_TYPES = {
    "no_header_tensor": {
        11: "u1", 12: "i1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8",
        19: "u1", 20: "<u2",
    },
    "no_header_numpy": dict(enumerate(("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8"))),
}  # fmt: skip


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open the chunks of an index.

    Raises:
        ValueError: they are compressed, or their items are not of ids alone.
    """
    index = orjson.loads(folder.location.read(name))
    config = index["config"]
    kind, _, code = config["data_format"][0].partition(":")
    if len(config["data_format"]) > 1 or kind not in _TYPES:
        raise ValueError("its items are not of ids alone (TokensLoader), but of Python objects")
    if config.get("compression") or config.get("encryption"):
        raise ValueError("its chunks are compressed or encrypted; decompress them")
    return [_open_chunk(folder, name, chunk, _TYPES[kind][int(code)]) for chunk in index["chunks"]]


def _open_chunk(folder: TokenFolder, index: str, chunk: Any, dtype: str) -> TokenFile:
    try:
        path = join_beside(folder, index, chunk["filename"])
    except FileNotFoundError as error:
        title = f"{folder.location}/{chunk['filename']}"
        return UnreadableFile(title, "litdata", faults=[str(error)])
    begin, size = 4 * (chunk["chunk_size"] + 2), np.dtype(dtype).itemsize

    def read_rows() -> Iterator[tuple[np.ndarray, None]]:
        for ends in read_index(folder, path, "<u4", 8, chunk["chunk_size"]):
            yield (ends.astype(np.int64) - begin) // size, None

    return FlatTokens(
        f"{folder.location}/{path}", "litdata", dtype, folder=folder, file=path,
        begin=begin, index=read_rows, expected=chunk.get("dim"),
    )  # fmt: skip


_find = partial(find_beside, index="index.json", mark="chunk-")
_ENDS = "Give tokenizer.encode eos=True in the function that optimize() runs"
FORMAT = TokenFormat(_find, _open, "LitData", _ENDS)
