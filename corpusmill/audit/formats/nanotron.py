"""Tokens of datatrove, which nanotron trains from: .ds, with .ds.index and .ds.metadata beside it.

The index holds where documents end, uint64; the first line of the metadata names the tokenizer, and
.ds.loss has a byte for each id, 0 where it is not learned. An id has two bytes, or four where the
tokenizer's name ends so (datatrove/pipeline/tokens/tokenizer.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from corpusmill.audit.formats.flat import open_flat, read_index
from corpusmill.audit.formats.raw import judge_dtype
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat

_PARTS = (".index", ".metadata", ".loss")


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    names = (name for name in folder.sizes if name.endswith(".ds"))
    return {name: [name + part for part in _PARTS if name + part in folder.sizes] for name in names}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    sizes, index = folder.sizes, f"{name}.index"
    described = (folder.location.read_any(f"{name}.metadata") or b"").decode(errors="replace")
    tokenizer, stated, *_ = [*described.splitlines(), "", ""]
    dtype = folder.dtype or judge_dtype(folder, name)
    number = int(stated) if stated.isdecimal() else None
    file = open_flat(folder, name, "nanotron", dtype, stated=number)
    file.tokenizer = tokenizer.split("|")[0]
    if index in sizes:
        file.lengths = partial(_read_lengths, folder, index)
    else:
        file.is_stream = True
    if (loss := f"{name}.loss") in sizes:
        file.mask = loss
        if sizes[loss] != file.stored:
            file.faults.append(f"its .loss has {sizes[loss]:,} bytes for {file.stored:,} ids")
            file.mask = ""
    return [file]


def _read_lengths(folder: TokenFolder, index: str) -> Iterator[np.ndarray]:
    place = 0
    for ends in read_index(folder.location, index, "<i8"):
        yield np.diff(ends, prepend=place)
        place = int(ends[-1])


FORMAT = TokenFormat(
    _find,
    _open,
    "datatrove",
    "Give its DocumentTokenizer eos_token, the token that ends a document",
)
