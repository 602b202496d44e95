"""Shards from which rows are taken: what stays is copied, and the rest encoded again."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.dataset.editing import rewrite_shard
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import as_mapping
from corpusmill.dataset.shards import read_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet import PagesWriter
from corpusmill.location import locate
from tests.tools.knobs import knobs
from tests.tools.small_datasets import Recipe, write_dataset

GROUP = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


def make(folder: Path, **options: object) -> tuple[Manifest, str, pa.Table]:
    """Write a data set of one shard with many groups; return it, the shard and the rows."""
    output = OutputOptions(**options)  # type: ignore[arg-type]
    manifest = write_dataset(folder, Recipe(output=output, shards=1, validation_share=0))
    [shard] = manifest.splits["train"].shards
    rows = pa.Table.from_batches(read_shard(locate(str(folder)), manifest, shard.file))
    batch = rows.combine_chunks().to_batches()[0]
    with (folder / shard.file).open("wb") as sink:
        shard_format, own = manifest.output.shard_format, manifest.output.options
        writer = shard_format.open_writer([sink], manifest.columns, own)
        for begin in range(0, len(batch), GROUP):
            writer.write(batch.slice(begin, GROUP))
        writer.close()
    return manifest, shard.file, rows


def rewrite(
    folder: Path, manifest: Manifest, shard: str, removed: Sequence[int]
) -> tuple[bytes, Counter[int]]:
    """Return the shard without some rows, and how many of each length were removed."""
    kept = np.ones(manifest.rows, np.bool_)
    kept[list(removed)] = False
    sink = io.BytesIO()
    with knobs(group_rows=GROUP):
        counts = rewrite_shard(locate(str(folder)), manifest, shard, kept, [sink])
    return sink.getvalue(), Counter(as_mapping(counts["length"]))


@pytest.mark.parametrize(
    "options",
    [{}, {"padding": "max_length"}, {"compression": "none"}],
    ids=["ragged", "padded", "not compressed"],
)
@pytest.mark.parametrize("removed", [[0], [45, 46, 100], [*range(40, 60)], [*range(0, 199, 7)]])
def test_the_rows_that_stay_are_as_they_were(
    options: dict[str, object], removed: list[int], folder: Path
) -> None:
    manifest, shard, rows = make(folder, **options)
    content, lengths = rewrite(folder, manifest, shard, removed)
    kept = [row for number, row in enumerate(rows.to_pylist()) if number not in removed]
    assert pq.read_table(io.BytesIO(content)).to_pylist() == kept
    (folder / shard).write_bytes(content)
    again = pa.Table.from_batches(read_shard(locate(str(folder)), manifest, shard))
    assert again.to_pylist() == kept
    tokens = [sum(token != 0 for token in row["input_ids"]) for row in rows.to_pylist()]
    assert lengths == Counter(tokens[number] for number in removed)


@pytest.mark.parametrize(("removed", "encoded"), [([45], 1), ([45, 100], 2), ([59, 60], 2)])
def test_only_groups_that_lose_rows_are_encoded_again(
    removed: list[int], encoded: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, shard, _ = make(folder)
    written: list[int] = []
    write = PagesWriter.write

    def count(writer: PagesWriter, rows: pa.RecordBatch) -> None:
        written.append(rows.num_rows)
        write(writer, rows)

    monkeypatch.setattr(PagesWriter, "write", count)
    content, _ = rewrite(folder, manifest, shard, removed)
    assert len(written) == encoded
    assert sum(written) == encoded * GROUP - len(removed)
    before, after = (folder / shard).read_bytes(), pq.ParquetFile(io.BytesIO(content))
    chunks = [after.metadata.row_group(n).column(0) for n in range(after.num_row_groups)]
    places = [(one.data_page_offset, one.total_compressed_size) for one in chunks]
    copied = [place for place, size in places if content[place : place + size] in before]
    assert len(copied) == -(-manifest.rows // GROUP) - encoded


def test_a_shard_that_ends_early_is_not_copied(folder: Path) -> None:
    manifest, shard, _ = make(folder)
    content = (folder / shard).read_bytes()
    file = pq.ParquetFile(io.BytesIO(content))
    group = file.metadata.row_group(file.num_row_groups - 2).column(1)
    # A footer may claim any size of a column.
    size = group.total_compressed_size
    claimed = content.replace(_number(size), _number(2**27 + size % 2**20))
    assert claimed != content
    (folder / shard).write_bytes(claimed)
    with pytest.raises((ValueError, OSError)):
        rewrite(folder, manifest, shard, [0])


def _number(value: int) -> bytes:
    """A 64-bit number of Thrift's compact protocol."""
    value, content = 2 * value, bytearray()
    while value >= 128:
        content.append(value % 128 | 128)
        value //= 128
    return bytes([*content, value])
