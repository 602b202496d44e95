"""Documents that data sets have in common are found in as little memory as it may take."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.dataset.manifest_entries import provenance_name, removal_name
from corpusmill.limits import LIMITS, StageLimits
from corpusmill.location import locate
from corpusmill.provenance.digests import find_shared, list_tables, read_digests
from corpusmill.provenance.documents_table import DocumentsTable, DocumentsWriter, documents_schema


def table_of(digests: Sequence[int], first: int = 0) -> pa.Table:
    ids = np.arange(first, first + len(digests), dtype=np.uint64)
    columns = [ids, ids, ids.astype(np.uint32), np.array(digests, np.uint64)]
    return pa.table(columns, schema=documents_schema())


def write(folder: Path, shards: Sequence[Sequence[int]], removed: Sequence[int] = ()) -> Any:
    """Write tables of documents with these digests; return a manifest that lists them."""
    names = [provenance_name("documents", "train", n, len(shards)) for n in range(len(shards))]
    (folder / "provenance").mkdir(parents=True)
    first = 0
    for name, digests in [*zip(names, shards, strict=True), (removal_name(0), removed)]:
        with (folder / name).open("wb") as sink:
            writer = DocumentsWriter(sink, LIMITS.files)
            writer.add_rows(table_of(digests, first))
            writer.close()
        first += len(digests)
    files = [SimpleNamespace(file=name) for name in names]
    removals = [SimpleNamespace(is_listed=True), SimpleNamespace(is_listed=False)]
    return SimpleNamespace(files=files, splits=["train"], removals=removals)


class Store:
    """The tables of documents of a data set."""

    def __init__(self, folder: Path, manifest: Any) -> None:
        self._folder, self.manifest = folder, manifest

    def tables(self, split: str, columns: list[str]) -> Iterator[pa.Table]:
        assert split == "train"
        for file in self.manifest.files:
            with (self._folder / file.file).open("rb") as stream:
                yield from DocumentsTable(stream).groups(columns)


@pytest.mark.parametrize("filter_bits", [8, 2**20], ids=["all pass", "few pass"])
@pytest.mark.parametrize("most_digests", [3, 10**6], ids=["in parts", "at once"])
def test_what_others_have_or_had_is_found(
    filter_bits: int, most_digests: int, tmp_path: Path
) -> None:
    draws = np.random.default_rng(3).integers(0, 2**64, 90, np.uint64).tolist()
    own, others = draws[:60], draws[40:]
    first = write(tmp_path / "1", [others[:20], others[25:]], others[20:22])
    second = write(tmp_path / "2", [[own[7], own[3]], []])
    third = write(tmp_path / "3", [own[:30], own[30:]])
    earlier = [
        (locate(str(tmp_path / "1")), first),
        (locate(str(tmp_path / "2")), second),
    ]
    store: Any = Store(tmp_path / "3", third)
    limits = StageLimits(shared_filter_bits=filter_bits, shared_digests=most_digests)
    found = find_shared(store, earlier, limits)
    held = {*others[:22], *others[25:], own[7], own[3]}
    assert found.tolist() == [number for number, digest in enumerate(own) if digest in held]
    assert len(found) == 22


def test_the_first_data_set_shares_nothing(tmp_path: Path) -> None:
    store: Any = Store(tmp_path, write(tmp_path / "1", [[1, 2]]))
    assert find_shared(store, [], LIMITS.stages).tolist() == []


def test_tables_of_removed_documents_are_read_if_there_are_any(tmp_path: Path) -> None:
    manifest = write(tmp_path, [[1], [2]], [3, 4])
    names = [*list_tables(manifest)]
    digests = [one.tolist() for one in read_digests(locate(str(tmp_path)), names)]
    assert digests == [[1], [2], [3, 4]]
