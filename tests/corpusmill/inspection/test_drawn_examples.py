from collections import Counter
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
import pytest

from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.inspection.decoded_examples import DrawnExample, draw_examples
from corpusmill.location import locate
from tests.tools.knobs import knobs
from tests.tools.small_datasets import Recipe, write_dataset


def draw(folder: Path, manifest: Manifest, number: int, split: str = "train") -> list[DrawnExample]:
    tokenizer_json = (folder / "tokenizer.json").read_text()
    return draw_examples(locate(str(folder)), manifest, tokenizer_json, split, number)


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord", "avro"])
def test_examples_are_drawn_from_all_shards(
    output_format: Literal["parquet", "tfrecord", "avro"], tmp_path: Path
) -> None:
    recipe = Recipe(shards=3, output=OutputOptions(output_format=output_format))
    manifest = write_dataset(tmp_path / "out", recipe)
    drawn = draw(tmp_path / "out", manifest, 90)
    assert drawn[:40] == draw(tmp_path / "out", manifest, 40)
    places = [(one.shard, one.row) for one in drawn]
    assert len(set(places)) == 90
    shards = manifest.splits["train"].shards
    counts = Counter(one.shard for one in drawn)
    for shard in shards:
        expected = 90 * shard.rows / manifest.splits["train"].rows
        assert expected / 2 < counts[shard.file] < 2 * expected
        assert {row for name, row in places if name == shard.file} == set(range(counts[shard.file]))


def test_there_are_no_more_than_all(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out", Recipe(shards=2, validation_share=0.1))
    rows = manifest.splits["validation"].rows
    assert len(draw(tmp_path / "out", manifest, 10 * rows, "validation")) == rows
    assert draw(tmp_path / "out", manifest, 0) == []


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord"])
def test_shards_are_not_read_to_their_ends(
    output_format: Literal["parquet", "tfrecord", "avro"], tmp_path: Path
) -> None:
    """Damage after the rows that are shown goes unnoticed."""
    recipe = Recipe(shards=1, output=OutputOptions(output_format=output_format))
    folder = tmp_path / "out"
    with knobs(group_rows=200):
        manifest = write_dataset(folder, recipe)
    shard = folder / manifest.splits["train"].shards[0].file
    content, begin = bytearray(shard.read_bytes()), -100
    end = len(content)
    if output_format == "parquet":
        footer = pq.read_metadata(shard)
        last = footer.row_group(footer.num_row_groups - 1).column(0)
        begin = last.data_page_offset
        end = begin + last.total_compressed_size
    content[begin:end] = bytes(len(content[begin:end]))
    shard.write_bytes(content)
    assert len(draw(folder, manifest, 5)) == 5
    with pytest.raises(UserError, match="its rows cannot be shown"):
        draw(folder, manifest, 10**6)
