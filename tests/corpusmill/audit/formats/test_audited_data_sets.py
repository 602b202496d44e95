"""Data sets of ours, in all formats of shards."""

from pathlib import Path

from corpusmill.dataset.shards import read_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset
from tests.tools.table_rows import check_rows
from tests.tools.token_folders import read_file


def test_all_formats_are_read_alike(tmp_path: Path) -> None:
    def check(output_format: str) -> None:
        folder = tmp_path / output_format
        recipe = Recipe(OBJECTIVES["gpt_pack"], OutputOptions(output_format=output_format))
        manifest = write_dataset(folder, recipe)
        file = read_file(folder, "corpusmill")
        shards = [shard for split in manifest.splits.values() for shard in split.shards]
        batches = [
            batch
            for shard in shards
            for batch in read_shard(locate(str(folder)), manifest, shard.file)
        ]
        assert file.rows == [row for batch in batches for row in batch["input_ids"].to_pylist()]
        assert file.numbers == [row for shard in shards for row in range(shard.rows)]
        assert not file.faults
        assert all(Path(shard.tokenizer).is_file() for shard in file.files)
        bounds = [row for batch in batches for row in batch["cu_seqlens"].to_pylist()]
        for segments, row in zip(file.columns["segments"], bounds, strict=True):
            changes = [i for i in range(1, len(segments)) if segments[i] != segments[i - 1]]
            assert changes == sorted({*row} - {0, len(segments)})

    check_rows(["parquet", "tfrecord", "mds", "avro"], check)


def test_columns_have_their_meaning_by_their_roles(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a" / "b", Recipe(OBJECTIVES["bert"]))
    file = read_file(tmp_path, "corpusmill")
    assert ({*file.columns}, file.faults) == ({"segments"}, [])


def test_damage_is_a_fault_and_other_shards_are_read(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out", Recipe(OBJECTIVES["gpt_stream"]))
    shards = manifest.splits["train"].shards
    path = tmp_path / "out" / shards[0].file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (tmp_path / "out" / shards[1].file).unlink()
    file = read_file(tmp_path, "corpusmill")
    assert len(file.rows) == manifest.rows - shards[0].rows - shards[1].rows
    faulty = [shard.name.rpartition("/")[2] for shard in file.files if shard.faults]
    assert faulty == [shard.file for shard in shards[:2]]
    for shard, cause in zip(file.files, ("Parquet magic bytes", "No such file"), strict=False):
        assert cause in shard.faults[0]
    index = tmp_path / "out" / "dataset.json"
    index.write_text(index.read_text().replace(shards[0].file, "../outside.parquet"))
    [fault] = read_file(tmp_path, "corpusmill").faults
    assert "do not have the sha256 that they state" in fault
