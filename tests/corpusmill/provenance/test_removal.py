"""The digests of all documents that a data set has or had."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusmill.dataset.manifest import Manifest, Split, entry_of
from corpusmill.dataset.manifest_entries import Removal, provenance_name, removal_name
from corpusmill.location import locate
from corpusmill.provenance.documents_table import DocumentsWriter, documents_schema
from corpusmill.provenance.store import list_tables, read_column
from tests.tools.manifests import small_manifest, small_shard


def table_of(digests: Sequence[int], first: int = 0) -> pa.Table:
    ids = np.arange(first, first + len(digests), dtype=np.uint64)
    columns = [ids, ids, ids.astype(np.uint32), np.array(digests, np.uint64)]
    return pa.table(columns, schema=documents_schema())


def write(folder: Path, shards: Sequence[Sequence[int]], removed: Sequence[int] = ()) -> Manifest:
    """Write tables of documents with these digests; return a manifest that lists them."""
    names = [provenance_name("documents", "train", n, len(shards)) for n in range(len(shards))]
    (folder / "provenance").mkdir(parents=True)
    first = 0
    for name, digests in [*zip(names, shards, strict=True), (removal_name(0), removed)]:
        with (folder / name).open("wb") as sink:
            writer = DocumentsWriter(sink)
            writer.add_rows(table_of(digests, first))
            writer.close()
        first += len(digests)
    removals = (
        Removal("a reason", len(removed), 0, 0),
        Removal("nothing", 0, 0, 0, is_listed=False),
    )
    files = (entry_of(name, b"") for name in (*names, removal_name(0)))
    split = Split.from_shards([small_shard("train-00000-of-00001.parquet")], {})
    return small_manifest(splits={"train": split}, files=tuple(files), removals=removals)


def test_tables_of_removed_documents_are_read_if_there_are_any(tmp_path: Path) -> None:
    manifest = write(tmp_path, [[1], [2]], [3, 4])
    names = [*list_tables(manifest)]
    digests = [one.tolist() for one in read_column(locate(str(tmp_path)), names, "digest")]
    assert digests == [[1], [2], [3, 4]]
