"""The rows of a data set, shard by shard, from any folder and in any format it was written in."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from corpusmill.faults import UserError
from corpusmill.formats.table import FORMATS, part_names
from corpusmill.manifest import MANIFEST, SUCCESS, columns_of, decode, output_options_of
from corpusmill.storage import Folder


def read_manifest(folder: Folder) -> dict[str, Any]:
    """The manifest of a data set that is complete.

    Raises:
        UserError: there is no data set, or not yet.
    """
    try:
        folder.read(SUCCESS)
        content = folder.read(MANIFEST)
    except FileNotFoundError as error:
        cause = f"there is no {error.filename or SUCCESS}, so it is no data set, or not yet"
        raise UserError(folder.url, cause, "Give the folder that a build has finished") from None
    return decode(content, folder.url)


def read_shard(
    folder: Folder, manifest: Mapping[str, Any], shard: str, rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard, in order, in batches of at most `rows`.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shard: a file that the manifest lists as one.
        rows: most in a batch.
    """
    options = output_options_of(manifest)
    of = FORMATS[options.output_format]
    with ExitStack() as files:
        names = part_names(shard, of.suffixes(options))
        streams = [files.enter_context(folder.open(name)) for name in names]
        yield from of.read(streams, columns_of(manifest), options, rows)
