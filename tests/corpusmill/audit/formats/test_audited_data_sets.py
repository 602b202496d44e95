"""Data sets of ours, in all formats of shards."""

from pathlib import Path

from corpusmill.dataset.shards import read_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset
from tests.tools.table_rows import check_rows
from tests.tools.token_folders import read_file, read_files


def test_all_formats_are_read_alike(tmp_path: Path) -> None:
    def check(output_format: str) -> None:
        folder = tmp_path / output_format
        recipe = Recipe(OBJECTIVES["gpt_pack"], OutputOptions(output_format=output_format))
        manifest = write_dataset(folder, recipe)
        file = read_file(folder, "corpusmill")
        batches = [
            batch
            for split in manifest.splits.values()
            for shard in split.shards
            for batch in read_shard(locate(str(folder)), manifest, shard.file)
        ]
        assert file.rows == [row for batch in batches for row in batch["input_ids"].to_pylist()]
        assert not file.faults
        assert file.file
        assert Path(file.file.tokenizer).is_file()
        bounds = [row for batch in batches for row in batch["cu_seqlens"].to_pylist()]
        for segments, row in zip(file.columns["segments"], bounds, strict=True):
            changes = [i for i in range(1, len(segments)) if segments[i] != segments[i - 1]]
            assert changes == sorted({*row} - {0, len(segments)})

    check_rows(["parquet", "tfrecord", "mds", "avro"], check)


def test_columns_have_their_meaning_by_their_roles(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", Recipe(OBJECTIVES["bert"]))
    file = read_file(tmp_path, "corpusmill")
    assert {*file.columns} == {"segments"}
    assert not file.faults


def test_damage_is_a_fault_and_the_rest_is_read(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out", Recipe(OBJECTIVES["gpt_stream"]))
    shards = manifest.splits["train"].shards
    path = tmp_path / "out" / shards[0].file
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    (tmp_path / "out" / shards[1].file).unlink()
    file = read_file(tmp_path, "corpusmill")
    assert len(file.rows) == manifest.rows - shards[0].rows - shards[1].rows
    assert [fault.partition(" (")[0] for fault in file.faults] == [
        fault
        for shard in shards[:2]
        for fault in (
            "it cannot be read after 0 rows",
            f"it has 0 rows, and {shard.rows} by its index",
        )
    ]
    (tmp_path / "out" / "dataset.json").write_text("{")
    assert len(read_file(tmp_path, "corpusmill").faults) == 1


def test_all_files_in_its_folder_belong_to_it(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a" / "b", Recipe(output=OutputOptions(output_format="mds")))
    [name] = read_files(tmp_path, "corpusmill")
    assert name == "a/b/dataset.json"
    assert {*read_files(tmp_path, "mds")} == {"a/b/index.json"}
