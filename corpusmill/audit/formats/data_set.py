"""Data sets of ours."""

import posixpath
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role
from corpusmill.audit.formats.beside import find_beside
from corpusmill.audit.formats.columns import BOUNDS, IDS, ColumnTokens, Part
from corpusmill.audit.token_files import Aligned, TokenFile, TokenFolder, TokenFormat
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.shards import read_manifest, read_shard
from corpusmill.errors import UserError
from corpusmill.location import Location

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
    roles = {column.name: _find_meaning(column) for column in manifest.columns}
    meanings = {column: meaning for column, meaning in roles.items() if meaning}
    # Only in a stream is a row a document, and `inspect` judges what the others are to end with.
    bounds = manifest.objective.bounds_of_text
    ends_documents = manifest.columns[0].width == ANY_LENGTH and bool(bounds and bounds[1])
    files = list[ColumnTokens]()
    for shard in chain.from_iterable(split.shards for split in manifest.splits.values()):
        file = ColumnTokens(f"{location}/{shard.file}", "corpusmill", meanings=meanings)
        file.rows, file.tokenizer = shard.rows, f"{location}/{manifest.tokenizer.file}"
        file.ends_documents = ends_documents
        file.list_parts = partial(_list_parts, file, location, manifest, shard.file)
        files.append(file)
    return files


def _list_parts(
    file: ColumnTokens, location: Location, manifest: Manifest, shard: str
) -> Iterator[Part]:
    yield map(file.take_batch, read_shard(location, manifest, shard))


_find = partial(find_beside, index=MANIFEST)
FORMAT = TokenFormat(_find, _open, "corpusmill", "Build it with --end-of-text True")
