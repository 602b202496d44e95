"""Whole jobs that write TFRecord, Avro, and Parquet with each of its codecs."""

import hashlib
import re
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from corpusmill.dataset.manifest_entries import base_name
from corpusmill.dataset.manifest_json import to_json
from corpusmill.dataset.shards import read_shard
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.location import locate
from tests.tools.data_files import damage_file, find_file, find_files, manifest_of
from tests.tools.jobs import run_here
from tests.tools.small_datasets import write_entries
from tests.tools.table_rows import for_rows

# Every compression, and every padding with the first of them.
CASES = [
    (name, compression, padding)
    for name, entry in zip(FORMATS.names, FORMATS.values(), strict=True)
    if name in {"parquet", "tfrecord", "avro"}
    for place, compression in enumerate(entry.compressions)
    for padding in (("max_length", "do_not_pad") if place == 0 else ("do_not_pad",))
]
ELECTRA = "pretrain_data.tfrecord-{shard}-of-{shards}"

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first documents of the sample."""
    path = tmp_path_factory.mktemp("corpus") / "some.tokens"
    path.write_text("".join(sample.read_text().splitlines(keepends=True)[:150]))
    return path


@pytest.fixture(scope="module")
def build_here(corpus: Path, tokenizer_path: Path, build_once: Build) -> Build:
    """Builds a data set, once for each choice of flags; nothing may be changed in it."""
    return partial(build_once, corpus, tokenizer_path)


@pytest.fixture(scope="module")
def rows_of_parquet(build_here: Build) -> dict[str, list[list[dict[str, Any]]]]:
    """The rows of each shard of a data set in Parquet, by the padding."""
    return {
        padding: [
            pq.read_table(path).to_pylist()
            for path in find_files(build_here("--padding", padding), "train-*")
        ]
        for padding in ("max_length", "do_not_pad")
    }


def read_rows(folder: Path) -> list[list[dict[str, Any]]]:
    """The rows of each shard, as verify and inspect read them."""
    manifest = manifest_of(folder)
    return [
        pa.Table.from_batches(
            list(read_shard(locate(str(folder)), manifest, shard.file))
        ).to_pylist()
        for shard in manifest.splits["train"].shards
    ]


@for_rows(("output_format", "compression", "padding"), CASES)
def test_every_format_holds_the_same_rows(
    output_format: str, compression: str, padding: str, build_here: Build,
    rows_of_parquet: dict[str, list[list[dict[str, Any]]]], tmp_path: Path,
) -> None:  # fmt: skip
    flags = ("--output-format", output_format, "--compression", compression, "--padding", padding)
    output = build_here(*flags)
    assert read_rows(output) == rows_of_parquet[padding]
    run_here("verify", output)
    run_here("inspect", output, "--examples", "1")
    copy = shutil.copytree(output, tmp_path / "-".join(flags))
    damage_file(find_files(copy, "train-*")[1], "flipped")
    damaged = run_here("verify", copy, status=1)
    assert "train-00001-of-00003" in damaged.output
    assert "sha256 differs" in damaged.output


def test_verify_reads_the_rows_where_every_digest_fits(build_here: Build, tmp_path: Path) -> None:
    output = tmp_path / "out"
    shutil.copytree(build_here("--output-format", "tfrecord"), output)
    name = "train-00000-of-00003.tfrecord"
    file = find_file(output, name)
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    for damaged, sentence in (
        (content[12 + length + 4 :], "rows, the manifest says"),
        (content[:-1], "is not a readable tfrecord shard: record"),
    ):
        file.write_bytes(damaged)
        entries = to_json(manifest_of(output))
        shard = entries["splits"]["train"]["shards"][0]
        shard |= {"bytes": len(damaged), "sha256": hashlib.sha256(damaged).hexdigest()}
        write_entries(output, entries)
        outcome = run_here("verify", output, status=1)
        assert f"{name}: " in outcome.output
        assert sentence in outcome.output


# Names


def files_of_card(output: Path) -> dict[str, list[str]]:
    """The files of each split that the card tells the hub."""
    _, front, _ = card_of(output).split("---\n", 2)
    [config] = yaml.safe_load(front)["configs"]
    return {entry["split"]: entry["path"] for entry in config["data_files"]}


def test_shards_have_the_names_that_electra_reads(build_here: Build) -> None:
    flags = ("--output-format", "tfrecord", "--shard-name", ELECTRA, "--num-shards", "12")
    output = build_here(*flags)
    names = [f"pretrain_data.tfrecord-{number}-of-12" for number in range(12)]
    assert {path.name for path in find_files(output, "pretrain*")} == set(names)
    shards = manifest_of(output).splits["train"].shards
    assert [base_name(shard.file) for shard in shards] == names
    run_here("verify", output)
    run_here("inspect", output)
    assert files_of_card(output) == {"train": [f"v1/{name}" for name in names]}


def test_two_splits_are_told_apart_by_their_pattern(build_here: Build) -> None:
    pattern = "{shard:02d}.{split}.parquet"
    output = build_here("--shard-name", pattern, "--validation-share", "0.2")
    names = {
        split: [base_name(shard.file) for shard in entry.shards]
        for split, entry in manifest_of(output).splits.items()
    }
    assert names == {
        "train": [f"0{number}.train.parquet" for number in range(3)],
        "validation": ["00.validation.parquet"],
    }
    run_here("verify", output)
    assert files_of_card(output) == {
        split: [f"v1/{name}" for name in shards] for split, shards in names.items()
    }


# Cards


def card_of(output: Path) -> str:
    return (output / "README.md").read_text()


def test_the_card_says_how_tensorflow_reads_the_records(build_here: Build) -> None:
    card = card_of(build_here("--output-format", "tfrecord", "--compression", "gzip"))
    assert '    "input_mask": tf.io.FixedLenFeature([64], tf.int64),' in card
    assert '    "masked_lm_weights": tf.io.FixedLenFeature([20], tf.float32),' in card
    assert '    "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),' in card
    assert 'files = [shard["file"] for shard in manifest["splits"]["train"]["shards"]]' in card
    assert 'tf.data.TFRecordDataset(files, compression_type="GZIP")' in card
    ragged = card_of(build_here("--output-format", "tfrecord", "--padding", "do_not_pad"))
    assert '    "segment_ids": tf.io.RaggedFeature(tf.int64),' in ragged
    assert '    "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),' in ragged
    assert 'compression_type=""' in ragged


@pytest.mark.parametrize("compression", ["deflate", "zstd"])
def test_the_card_s_own_lines_read_avro(
    compression: str, build_here: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = build_here("--output-format", "avro", "--compression", compression)
    card = card_of(output)
    assert ("backports.zstd" in card) == (compression == "zstd")
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(output)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - the card's own text
    expected = [row for shard in read_rows(output) for row in shard]
    assert list(names["examples"]) == expected
