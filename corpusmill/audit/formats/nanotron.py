"""Tokens of datatrove, which nanotron trains from: .ds, with .ds.index and .ds.metadata beside it.

The index holds where documents end, uint64; the first line of the metadata names the tokenizer, and
.ds.loss has a byte for each id, 0 where it is not learned. An id has two bytes, or four where the
tokenizer's name ends so (datatrove/pipeline/tokens/tokenizer.py).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from corpusmill.audit.formats.flat import FlatTokens, read_index
from corpusmill.audit.formats.raw import judge_dtype
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat

_PARTS = (".index", ".metadata", ".loss")


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    names = (name for name in folder.sizes if name.endswith(".ds"))
    return {name: [name + part for part in _PARTS if name + part in folder.sizes] for name in names}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    index, loss = f"{name}.index", f"{name}.loss"
    described = (folder.location.read_any(f"{name}.metadata") or b"").decode(errors="replace")
    tokenizer, number, *_ = [*described.splitlines(), "", ""]

    def read_rows() -> Iterator[tuple[np.ndarray, None]]:
        return ((ends, None) for ends in read_index(folder, index, "<i8"))

    file = FlatTokens(
        f"{folder.location}/{name}", "nanotron", folder.dtype or judge_dtype(folder, name),
        tokenizer=tokenizer.split("|")[0], folder=folder, file=name,
        index=read_rows if index in folder.sizes else None,
        expected=int(number) if number.isdecimal() else None,
    )  # fmt: skip
    if folder.sizes.get(loss) == file.tokens:
        file.mask = loss
    elif loss in folder.sizes:
        file.faults.append(f"its .loss has {folder.sizes[loss]:,} bytes for {file.tokens:,} ids")
    return [file]


_ENDS = "Give its DocumentTokenizer eos_token, the token that ends a document"
FORMAT = TokenFormat(_find, _open, "datatrove", _ENDS)
