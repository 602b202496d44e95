"""The documents that were removed from a data set, as its files of provenance list them."""

from collections.abc import Iterator

import pyarrow as pa

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import removal_name
from corpusmill.location import Location
from corpusmill.provenance.documents import DocumentsTable


def read_removed(folder: Location, manifest: Manifest, column: str) -> Iterator[pa.UInt64Array]:
    """Yield a column of the lists of documents that were removed, some at a time.

    Args:
        folder: of the data set.
        manifest: of the data set.
        column: "document" or "digest".
    """
    for number, removal in enumerate(manifest.removals):
        if removal.is_listed:
            with folder.open(removal_name(number)) as stream:
                for table in DocumentsTable(stream).groups([column]):
                    yield table.column(column).combine_chunks()
