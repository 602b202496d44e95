import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import polars as pl
import pyarrow.dataset as pads
import pytest
from huggingface_hub import RepoCard

from corpusmill.dataset.card import describe_type, render_card
from corpusmill.objectives.bert import BertOptions
from tests.tools.handmade_dataset import Recipe, padding_options, write_dataset


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def front_matter(card: bytes) -> dict[str, Any]:
    header = RepoCard(card.decode(), ignore_metadata_errors=False).data.to_dict()  # type: ignore[no-untyped-call]
    return dict(header)


@pytest.mark.parametrize("padded", [False, True], ids=["ragged", "padded"])
def test_load_dataset_finds_the_splits_by_the_card(padded: bool, tmp_path: Path) -> None:
    manifest = write_dataset(
        tmp_path / "out",
        Recipe(parquet=padding_options(padded)),
    )
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in loaded.items()} == {
        name: split.rows for name, split in manifest.splits.items()
    }
    assert loaded["train"].column_names == [column.name for column in manifest.columns]
    row = loaded["train"][0]
    special = manifest.tokenizer.special
    assert row["input_ids"][0] == special.cls_id
    assert len(row["input_ids"]) == (64 if padded else len(row["token_type_ids"]))
    rows = loaded["train"]["input_ids"]
    lengths = [sum(token != special.pad_id for token in row) for row in rows]
    assert sum(lengths) == manifest.splits["train"].tokens


def test_load_dataset_takes_shards_without_rows(tmp_path: Path) -> None:
    options = BertOptions(max_seq_length=64, duplicates=1)
    recipe = Recipe(options=options, documents=1, train_shards=7, validation_documents=0)
    manifest = write_dataset(tmp_path / "out", recipe)
    assert any(shard.rows == 0 for shard in manifest.splits["train"].shards)
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert len(loaded["train"]) == manifest.splits["train"].rows


@pytest.mark.parametrize("padded", [False, True], ids=["ragged", "padded"])
def test_pyarrow_pandas_and_polars_read_the_shards(padded: bool, tmp_path: Path) -> None:
    manifest = write_dataset(
        tmp_path / "out",
        Recipe(parquet=padding_options(padded)),
    )
    shards = sorted(str(path) for path in (tmp_path / "out").glob("train-*"))
    rows = manifest.splits["train"].rows
    table = pads.dataset(shards).to_table()
    frame = pd.concat([pd.read_parquet(shard) for shard in shards])
    polar = pl.read_parquet(shards)
    assert (table.num_rows, len(frame), polar.height) == (rows, rows, rows)
    expected = table.column("input_ids").to_pylist()
    assert [row.tolist() for row in frame["input_ids"]] == expected
    assert polar["input_ids"].to_list() == expected


def test_the_cards_own_instructions_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = write_dataset(tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    programs = re.findall(r"```python\n(.*?)```", render_card(manifest).decode(), re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        names: dict[str, Any] = {}
        exec(program, names)  # noqa: S102 - the card's own text
        examples = names["examples"]
        rows = len(examples) if hasattr(examples, "__len__") else examples.count_rows()
        assert rows == manifest.splits["train"].rows


def test_the_front_matter_names_the_files_of_each_split(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out")
    (config,) = front_matter(render_card(manifest))["configs"]
    assert config["data_files"] == [
        {"split": "train", "path": "train-*.parquet"},
        {"split": "validation", "path": "validation-*.parquet"},
    ]


@pytest.mark.parametrize(
    ("rows", "size"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (4_300_000, "1M<n<10M"), (10**11, "n>10B")],
)
def test_the_class_of_size_is_the_hubs(rows: int, size: str, tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out", Recipe(validation_documents=0))
    train = replace(manifest.splits["train"], rows=rows)
    manifest = replace(manifest, splits={"train": train})
    assert front_matter(render_card(manifest))["size_categories"] == [size]


def test_the_card_says_what_was_built(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out")
    card = render_card(manifest).decode()
    for name, value in manifest.objective.options.items():
        assert f"| `{name}` | `{json.dumps(value)}` |" in card
    for column in manifest.columns:
        arrow_type = str(column.arrow_field(manifest.output.options.is_padded).type)
        assert f"| `{column.name}` | {describe_type(arrow_type)} |" in card
    for name, number in manifest.counts.items():
        assert f"| `{name}` | {number:,} |" in card
    assert "rejects/rejects.jsonl" in card


def test_names_from_outside_cannot_break_the_card(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out")
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


@pytest.mark.parametrize(
    ("arrow_type", "words"),
    [
        ("int8", "int8"),
        ("list<element: int16 not null>", "list of int16"),
        ("fixed_size_list<element: int16 not null>[512]", "list of 512 int16"),
        ("map<string, int8>", "map<string, int8>"),
    ],
)
def test_types_are_described_in_words(arrow_type: str, words: str) -> None:
    assert describe_type(arrow_type) == words


def test_a_card_is_a_function_of_the_manifest(tmp_path: Path) -> None:
    first = write_dataset(tmp_path / "first")
    write_dataset(tmp_path / "second")
    assert render_card(first) == (tmp_path / "second" / "README.md").read_bytes()
