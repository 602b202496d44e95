"""Indexed data sets of Megatron-LM (`corpusmill.formats.token_files` describes their bytes)."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from corpusmill.audit.formats.flat import FlatTokens, add_lengths, read_index
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat
from corpusmill.formats.token_files import MEGATRON_HEADER, MEGATRON_MAGIC

_TYPES = ("", "u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f4", "<u2")


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    names = (name for name in folder.sizes if name.endswith(".idx"))
    pairs = ((f"{name.removesuffix('.idx')}.bin", name) for name in names)
    return {tokens: [index] for tokens, index in pairs if tokens in folder.sizes}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open a data set.

    Raises:
        ValueError: its index is none of Megatron-LM.
    """
    index = f"{name.removesuffix('.bin')}.idx"
    with folder.location.open(index) as stream:
        head = stream.read(MEGATRON_HEADER.size)
    try:
        magic, version, code, sequences, documents = MEGATRON_HEADER.unpack(head)
    except struct.error:
        raise ValueError("its .idx ends within its header") from None
    if magic != MEGATRON_MAGIC or version != 1 or not 0 < code < len(_TYPES):
        raise ValueError("its .idx is no index of Megatron-LM (MMIDIDX, version 1)")
    kind = np.dtype(_TYPES[code])
    if kind.kind == "f":
        raise ValueError(f"its .idx says that ids are of type {kind}")

    def read_rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        read, begin = partial(read_index, folder, index), MEGATRON_HEADER.size
        begins = read("<i8", begin + 4 * sequences, sequences)
        lengths = add_lengths(read("<i4", begin, sequences))
        for ends, places in zip(lengths, begins, strict=False):
            yield ends[: len(places)], places / kind.itemsize

    file = FlatTokens(
        f"{folder.location}/{name}", "megatron", _TYPES[code],
        folder=folder, file=name, index=read_rows, unit="sequences",
    )  # fmt: skip
    rest = folder.sizes[index] - MEGATRON_HEADER.size - 12 * sequences - 8 * documents
    # A last section of modes, a byte for each sequence, is there in multimodal data sets.
    if rest not in {0, sequences}:
        file.faults.append(f"its .idx is {abs(rest):,} bytes too {'long' if rest > 0 else 'short'}")
    return [file]


_ENDS = "Run its tools/preprocess_data.py with --append-eod, and the tokenizer that you train with"
FORMAT = TokenFormat(_find, _open, "Megatron-LM", _ENDS)
