"""Whole jobs with length bins."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from corpusmill.dataset.manifest_entries import base_name
from corpusmill.dataset.manifest_json import seal
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import find_files
from tests.tools.jobs import build, read_manifest_json, rows_of, run_here
from tests.tools.lazily import LazyModule

datasets = LazyModule("datasets")

LENGTH, BIN_SIZE, BINS, SHARDS = 64, 12, 6, 3
# One example is short of the full length here and there, none as short as the first bins.
FLAGS = ("--validation-share", "0.2", "--bin-size", str(BIN_SIZE))


@pytest.fixture(scope="module")
def binned(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("binned") / "out"
    build([sample], tokenizer_path, folder, *FLAGS)
    return folder


def test_every_bin_is_a_set_of_shards_of_its_own(binned: Path) -> None:
    names = {path.name for path in find_files(binned, "*.parquet")}
    assert names == {
        f"{split}-bin-{number:02d}-of-06-{shard:05d}-of-{total:05d}.parquet"
        for split, total in (("train", SHARDS), ("validation", 1))
        for number in range(BINS)
        for shard in range(total)
    }
    assert verify(binned) == []


def test_the_manifest_knows_the_lengths_of_a_bin(binned: Path) -> None:
    splits = read_manifest_json(binned)["splits"]
    ends = [min((number + 1) * BIN_SIZE, LENGTH) for number in range(BINS)]
    for split, total in (("train", SHARDS), ("validation", 1)):
        shards = splits[split]["shards"]
        assert [shard["bin"] for shard in shards] == sorted(list(range(BINS)) * total)
        assert list(DataSet(binned, split).parts) == [shard["bin"] for shard in shards]
        for shard in shards:
            assert shard["min_length"] == shard["bin"] * BIN_SIZE + 1
            assert shard["max_length"] == ends[shard["bin"]]
            lengths = [
                len(row["input_ids"])
                for row in rows_of(binned, base_name(shard["file"]).removesuffix(".parquet"))
            ]
            assert all(shard["min_length"] <= length <= shard["max_length"] for length in lengths)
            assert (len(lengths), sum(lengths)) == (shard["rows"], shard["tokens"])
        assert sum(shard["rows"] for shard in shards) == splits[split]["rows"]
        # Files without rows are there, so that every bin has all of its names.
        assert {shard["rows"] == 0 for shard in shards} == {True, False}


def test_the_rows_are_those_of_mixed_lengths_in_their_order(
    binned: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build([sample], tokenizer_path, tmp_path / "out", *FLAGS[:2])
    for shard in range(SHARDS):
        name = f"{shard:05d}-of-{SHARDS:05d}"
        mixed = rows_of(tmp_path / "out", f"train-{name}")
        for number in range(BINS):
            expected = [row for row in mixed if (len(row["input_ids"]) - 1) // BIN_SIZE == number]
            assert rows_of(binned, f"train-bin-{number:02d}-of-06-{name}") == expected


@pytest.mark.parametrize("way", [jobs.SMALL_RANGES, jobs.TWO_WORKERS], ids=" ".join)
def test_the_same_bytes(
    way: tuple[str, ...], binned: Path, sample: Path, tokenizer_path: Path
) -> None:
    way = (*way, "--sort-bytes", "20000")
    jobs.assert_same_bytes(binned, [sample], tokenizer_path, *FLAGS, *way)


def test_load_dataset_reads_all_bins_or_one(binned: Path, tmp_path: Path) -> None:
    def load(*configuration: str) -> Any:
        return datasets.load_dataset(str(binned), *configuration, cache_dir=str(tmp_path))

    splits = read_manifest_json(binned)["splits"]
    results = load()
    assert {split: entry.num_rows for split, entry in results.items()} == {
        split: entry["rows"] for split, entry in splits.items()
    }
    last = load("bin-05")
    assert set(last) == {"train", "validation"}
    for split, entry in last.items():
        in_bin = [shard for shard in splits[split]["shards"] if shard["bin"] == BINS - 1]
        assert entry.num_rows == sum(shard["rows"] for shard in in_bin) > 0
        assert min(map(len, entry["input_ids"])) > (BINS - 1) * BIN_SIZE
    card = (binned / "README.md").read_text()
    assert "config_name: bin-05" in card
    assert "config_name: bin-00" not in card  # it is empty


def test_a_row_outside_its_bin_is_found(binned: Path, tmp_path: Path) -> None:
    """In a data set whose digests say that all is well."""
    manifest = read_manifest_json(binned)
    shard = max(manifest["splits"]["train"]["shards"], key=lambda value: int(value["rows"]))
    shard["max_length"] -= 1
    shutil.copytree(binned, tmp_path, dirs_exist_ok=True)
    content = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "dataset.json").write_bytes(seal(content.encode()))
    [problem] = verify(tmp_path)
    assert problem.file == shard["file"]
    assert problem.what.endswith("rows whose length is not of its bin, 61 to 63")


def test_inspect_shows_the_fullest_bin_and_its_padding(binned: Path) -> None:
    shown = run_here("inspect", binned, "--examples", "2")
    assert shown.output.count("[MASK->") > 4
    assert shown.output.count("padding in bins") == 2


def test_a_data_set_with_bins_can_be_replaced(
    binned: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    shutil.copytree(binned, tmp_path, dirs_exist_ok=True)
    build([sample], tokenizer_path, tmp_path, "--replace")
    assert not list(tmp_path.rglob("*-bin-*"))
    assert verify(tmp_path) == []
