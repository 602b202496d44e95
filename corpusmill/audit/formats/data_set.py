"""Data sets of ours."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from corpusmill.arrays.columns import Column, Role
from corpusmill.audit.formats.columns import BOUNDS, IDS, ColumnTokens, Lists, find_beside
from corpusmill.audit.token_files import Aligned, TokenFile, TokenFolder, TokenFormat
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.shards import read_manifest, read_shard
from corpusmill.errors import UserError

_MEANINGS = {Role.TOKEN_IDS: IDS, Role.BOUNDARIES: BOUNDS, Role.SEGMENTS: Aligned.SEGMENTS}


def _find_meaning(column: Column) -> str:
    if column.role is Role.LEARNED:  # a mask, or labels
        return Aligned.LEARNED if column.largest == 1 else Aligned.LABELS
    return _MEANINGS.get(column.role, "")


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    within = posixpath.dirname(name)
    location = folder.location / within if within else folder.location
    try:
        manifest = read_manifest(location)
    except UserError as error:  # one of many data sets may be damaged
        raise ValueError(error.cause) from None
    found = {column.name: _find_meaning(column) for column in manifest.columns}
    meanings = {column: meaning for column, meaning in found.items() if meaning}

    def load(file: ColumnTokens, shard: str) -> Iterator[Mapping[str, Lists]]:
        for batch in read_shard(location, manifest, shard):
            yield {column: file.to_lists(column, batch.column(column)) for column in meanings}

    files = list[TokenFile]()
    for split in manifest.splits.values():
        for shard in split.shards:
            file = ColumnTokens(f"{location}/{shard.file}", "corpusmill", meanings=meanings)
            file.rows, file.tokenizer = shard.rows, f"{location}/{manifest.tokenizer.file}"
            file.list_parts = partial(list, [partial(load, file, shard.file)])
            files.append(file)
    return files


FORMAT = TokenFormat(
    partial(find_beside, index=MANIFEST), _open, "corpusmill", "Build it with --end-of-text True"
)
