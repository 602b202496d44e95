"""Indexed data sets of Megatron-LM (`corpusmill.formats.token_files` describes their bytes)."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from corpusmill.audit.formats.flat import open_flat, read_index
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
    dtype = _TYPES[code]
    if "f" in dtype:
        raise ValueError(f"its .idx says that ids are of type {np.dtype(dtype)}")
    file = open_flat(folder, name, "megatron", dtype)
    rest = folder.sizes[index] - MEGATRON_HEADER.size - 12 * sequences - 8 * documents
    # A last section of modes, a byte for each sequence, is there in multimodal data sets.
    if rest not in {0, sequences}:
        file.faults.append(f"its .idx is {abs(rest):,} bytes too {'long' if rest > 0 else 'short'}")
    size = np.dtype(dtype).itemsize
    file.lengths = partial(_read_lengths, folder, index, size, sequences, file.faults)
    return [file]


def _read_lengths(
    folder: TokenFolder, index: str, size: int, sequences: int, faults: list[str]
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the lengths of sequences, and compare where they begin with what the index says."""
    read = partial(read_index, folder.location, index)
    lengths = read("<i4", MEGATRON_HEADER.size, sequences)
    begins = read("<i8", MEGATRON_HEADER.size + 4 * sequences, sequences)
    wrong = place = 0
    for some, their_begins in zip(lengths, begins, strict=False):
        length = some[: len(their_begins)].astype(np.int64)
        ends = place + np.cumsum(length)
        wrong += int(np.count_nonzero((ends - length) * size != their_begins[: len(length)]))
        place = int(ends[-1])
        yield length
    if wrong:
        faults.append(f"its .idx lets {wrong:,} sequences begin elsewhere than the one before ends")


FORMAT = TokenFormat(
    _find,
    _open,
    "Megatron-LM",
    "Run its tools/preprocess_data.py with --append-eod, and the tokenizer that you train with",
)
