import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import RepoCard

from corpusmill.dataset.card import render_card
from corpusmill.dataset.manifest import Manifest
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.objectives.chat import ChatOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.reading.data_set import DataSet
from tests.tools import jobs
from tests.tools.growing import Growing, halve
from tests.tools.lazily import LazyModule
from tests.tools.small_datasets import (
    OBJECTIVES,
    ONE_DOCUMENT,
    WITH_REJECT,
    Recipe,
    bert_tokenizer,
    write_dataset,
)

datasets = LazyModule("datasets")


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module", params=["do_not_pad", "max_length"])
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Manifest]:
    """A folder with ragged or padded rows, and its manifest."""
    folder = tmp_path_factory.mktemp("card") / "out"
    return folder, write_dataset(folder, Recipe(output=OutputOptions(padding=request.param)))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return write_dataset(tmp_path_factory.mktemp("card") / "out", Recipe(text=WITH_REJECT))


def front_matter(card: bytes) -> dict[str, Any]:
    header = RepoCard(card.decode(), ignore_metadata_errors=False).data.to_dict()  # type: ignore[no-untyped-call]
    return dict(header)


@pytest.mark.usefixtures("_offline")
def test_load_dataset_finds_the_splits_by_the_card(
    dataset: tuple[Path, Manifest], tmp_path: Path
) -> None:
    folder, manifest = dataset
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in loaded.items()} == {
        name: split.rows for name, split in manifest.splits.items()
    }
    assert loaded["train"].column_names == [column.name for column in manifest.columns]
    row = loaded["train"][0]
    special = manifest.tokenizer.special
    assert row["input_ids"][0] == special.cls_id
    is_padded = manifest.output.options.is_padded
    assert len(row["input_ids"]) == (64 if is_padded else len(row["token_type_ids"]))
    rows = loaded["train"]["input_ids"]
    lengths = [sum(token != special.pad_id for token in row) for row in rows]
    assert sum(lengths) == manifest.splits["train"].tokens


@pytest.mark.usefixtures("_offline")
def test_load_dataset_takes_shards_without_rows(tmp_path: Path) -> None:
    recipe = Recipe(shards=7, validation_share=0, text=ONE_DOCUMENT)
    manifest = write_dataset(tmp_path / "out", recipe)
    assert any(shard.rows == 0 for shard in manifest.splits["train"].shards)
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert len(loaded["train"]) == manifest.splits["train"].rows


# A data set of each format; `datasets` reads the first alone.
RECIPES = {
    name: Recipe(objective=objective, output=OutputOptions(name))
    for name, objective in (
        ("parquet", OBJECTIVES["bert"]),
        ("tfrecord", OBJECTIVES["bert"]),
        ("avro", OBJECTIVES["bert"]),
        ("ernie-text", ErnieOptions(max_seq_length=64, mask="dynamic")),
        ("megatron", OBJECTIVES["gpt_stream"]),
        ("nanogpt", OBJECTIVES["gpt_stream"]),
        ("mds", OBJECTIVES["gpt_stream"]),
    )
}


def test_each_format_is_tried() -> None:
    assert {*RECIPES} == {*FORMATS.names}


@pytest.mark.parametrize("output_format", RECIPES)
@pytest.mark.usefixtures("_offline")
def test_load_dataset_never_takes_provenance_for_the_data(
    output_format: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    manifest = write_dataset(folder, RECIPES[output_format])
    (folder / "provenance").mkdir()
    for kind in ("spans", "documents"):
        table = pa.table({kind: [1, 2, 3]})
        pq.write_table(table, folder / "provenance" / f"{kind}-train-00000-of-00001.parquet")
    own = {"cache_dir": str(tmp_path / "cache")}
    if output_format != "parquet":
        with pytest.raises(FileNotFoundError, match="with any supported extension"):
            datasets.load_dataset(str(folder), **own)
        return
    loaded = datasets.load_dataset(str(folder), **own)
    assert {name: len(split) for name, split in loaded.items()} == {
        name: split.rows for name, split in manifest.splits.items()
    }
    assert loaded["train"].column_names == [column.name for column in manifest.columns]


@pytest.mark.usefixtures("_offline")
def test_the_cards_own_instructions_work(
    dataset: tuple[Path, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, manifest = dataset
    monkeypatch.chdir(folder)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    programs = re.findall(r"```python\n(.*?)```", render_card(manifest).decode(), re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        names: dict[str, Any] = {}
        exec(program, names)  # noqa: S102 - the card's own text
        examples = names["examples"]
        rows = len(examples) if hasattr(examples, "__len__") else examples.count_rows()
        assert rows == manifest.splits["train"].rows


def assert_exact(card: bytes, manifest: Manifest) -> None:
    (config,) = front_matter(card)["configs"]
    assert config["data_files"] == [
        {"split": name, "path": [shard.file for shard in split.shards]}
        for name, split in manifest.splits.items()
    ]


@pytest.mark.usefixtures("_offline")
def test_load_dataset_reads_what_is_in_use_beside_files_of_an_older_version(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    first, second = halve(sample.read_bytes(), tmp_path)
    growing = Growing(tmp_path / "out", tokenizer_path)
    growing.build(first)
    stale = shutil.copytree(growing.output, tmp_path / "stale")
    growing.append(second)
    jobs.run_here("drop", growing.output, "--where", "document % 9 = 1", "--workers", "1")
    data = DataSet(growing.output)
    splits = data.manifest.splits
    shards = {shard.file for split in splits.values() for shard in split.shards}
    shutil.copytree(stale / "v1", growing.output / "v1", dirs_exist_ok=True)
    present = {str(path.relative_to(growing.output)) for path in growing.output.rglob("*.parquet")}
    assert {file for file in present if file.startswith("v1/train")} - shards
    assert_exact((growing.output / "README.md").read_bytes(), data.manifest)
    loaded = datasets.load_dataset(str(growing.output), cache_dir=str(tmp_path / "cache"))
    assert loaded.keys() == splits.keys()
    for split, rows in loaded.items():
        read = data.load(split, cache_folder=tmp_path / "shards")
        expected = read.take(np.arange(len(read)))
        assert rows["input_ids"][:] == [row["input_ids"].tolist() for row in expected]


def test_the_class_of_size_is_the_hubs(manifest: Manifest) -> None:
    sizes = {999: "n<1K", 1000: "1K<n<10K", 4_300_000: "1M<n<10M", 10**11: "n>10B", 0: "n<1K"}
    for rows, size in sizes.items():
        train = replace(manifest.splits["train"], rows=rows)
        card = render_card(replace(manifest, splits={"train": train}))
        assert front_matter(card)["size_categories"] == [size]


def test_the_card_says_what_was_built(manifest: Manifest) -> None:
    card = render_card(manifest).decode()
    for name, value in manifest.objective.options.items():
        assert f"| `{name}` | `{json.dumps(value)}` |" in card
    assert "| `input_ids` | list of int16 |" in card
    assert "| `next_sentence_label` | int8 |" in card
    padded = replace(manifest.output.options, padding="max_length")
    padded_card = render_card(replace(manifest, output=replace(manifest.output, options=padded)))
    assert b"| `input_ids` | list of 64 int16 |" in padded_card
    for name, number in manifest.counts.items():
        assert f"| `{name}` | {number:,} |" in card
    assert "rejects/rejects.jsonl" in card
    assert "- `tokenizer_config.json`: " in card
    assert "is to be learned" not in card


def test_the_card_warns_of_a_mask_that_trainers_do_not_know(manifest: Manifest) -> None:
    chat = ChatOptions().bind(bert_tokenizer())
    labels = ChatOptions(mask="labels").bind(bert_tokenizer())
    warned = {
        objective.columns[-1].name: b"Only what `loss_mask` marks is to be learned."
        in render_card(replace(manifest, columns=objective.columns))
        for objective in (chat, labels)
    }
    assert warned == {"loss_mask": True, "labels": False}


def test_names_from_outside_cannot_break_the_card(manifest: Manifest) -> None:
    hostile = replace(
        manifest,
        tokenizer=replace(manifest.tokenizer, name="a|b`c\n---\n# d"),
        corpus=replace(manifest.corpus, options={"field": "x`|\n---\ny"}),
    )
    card = render_card(hostile)
    assert front_matter(card)["configs"]
    assert card.decode().count("\n---\n") == 1
    assert "\n# d" not in card.decode()
    (line,) = [line for line in card.decode().splitlines() if line.startswith("| `field`")]
    assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_a_card_is_a_function_of_the_manifest(manifest: Manifest, tmp_path: Path) -> None:
    write_dataset(tmp_path / "second", Recipe(text=WITH_REJECT))
    assert render_card(manifest) == (tmp_path / "second" / "README.md").read_bytes()
