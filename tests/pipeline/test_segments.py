"""Whole jobs of ALBERT's pairs and RoBERTa's sentences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import transforms.build
from corpusmill.dataset.verify import verify
from tests.tools import jobs
from tests.tools.jobs import build, digests, read_manifest_json, run_here

Rows = list[dict[str, Any]]
Build = Callable[..., Path]

KINDS = ("sentence-order", "full-sentences", "doc-sentences")


@pytest.fixture
def build_kind(sample: Path, tokenizer_path: Path, tmp_path: Path) -> Build:
    def run(segments: str, *flags: str, tokenizer: Path | None = None) -> Path:
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        arguments = ("--segments", segments, "--validation-share", "0.2", *flags)
        build([sample], tokenizer or tokenizer_path, output, *arguments)
        return output

    return run


def rows_of(folder: Path, split: str = "train") -> Rows:
    """The rows of a split, with the masked ids put back."""
    rows = jobs.rows_of(folder, f"{split}-*")
    return [{**row, "input_ids": jobs.unmask(row)} for row in rows]


@pytest.mark.parametrize("segments", ["sentence-order", "full-sentences"])
def test_ranges_and_little_memory(
    segments: str, build_kind: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = digests(build_kind(segments))
    monkeypatch.setattr(transforms.build, "SORT_BYTES", 20_000)
    assert digests(build_kind(segments, "--range-bytes", "7777")) == reference


def test_worker_processes(build_kind: Build) -> None:
    """With marks of words, which rows keep until they are joined."""
    flags = ("full-sentences", "--whole-word-mask", "--bin-size", "16")
    again = build_kind(*flags, *jobs.TWO_WORKERS)
    assert digests(again) == digests(build_kind(*flags))
    assert verify(again) == []


@pytest.mark.parametrize("segments", KINDS)
def test_the_data_set_is_sound_and_can_be_looked_at(segments: str, build_kind: Build) -> None:
    folder = build_kind(segments)
    assert verify(folder) == []
    shown = run_here("inspect", folder, "--html", folder.parent / "report.html")
    assert "[MASK->" in shown.output
    assert "masked_lm_prob asks for 15.0 %" in shown.output
    page = (folder.parent / "report.html").read_text()
    for words in (shown.output, page):
        assert ("switched" in words) == (segments == "sentence-order")
        assert ("several documents" in words) == (segments == "full-sentences")
    manifest = read_manifest_json(folder)
    assert manifest["objective"]["options"]["segments"] == segments
    assert "pool.documents" not in manifest["counts"]


def test_every_token_is_written_in_every_pass(build_kind: Build) -> None:
    """The tokens between the special ones are the tokens of the corpus, once for each pass."""
    for segments in ("full-sentences", "doc-sentences"):
        folder = build_kind(segments)
        tokenized = read_manifest_json(folder)["counts"]["tokenize.tokens"]
        rows = [*rows_of(folder), *rows_of(folder, "validation")]
        written = sum(token not in {2, 3} for row in rows for token in row["input_ids"])
        assert written == 2 * tokenized


def test_documents_are_joined_within_their_split(build_kind: Build) -> None:
    folder = build_kind("full-sentences", "--duplicates", "1")
    texts: dict[str, set[tuple[int, ...]]] = {}
    for split in ("train", "validation"):
        rows = rows_of(folder, split)
        assert any(row["input_ids"].count(3) > 1 for row in rows)
        texts[split] = {tuple(row["input_ids"][1:9]) for row in rows}
    assert texts["train"].isdisjoint(texts["validation"])


def test_an_estimate_of_a_whole_corpus_is_the_build(
    build_kind: Build, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--segments", "full-sentences", "--max-seq-length", "64", "--duplicates", "2")
    report = tmp_path / "corpus.json"
    run_here(
        "inspect-corpus", "--input", sample, "--tokenizer", tokenizer_path,
        "--num-shards", "3", "--seed", "1", "--bin-size", "16", "--json", report, "bert", *flags,
    )  # fmt: skip
    folder = build_kind("full-sentences", "--bin-size", "16", "--validation-share", "0")
    train = read_manifest_json(folder)["splits"]["train"]
    estimate = json.loads(report.read_text())["build"]["splits"]["train"]
    assert estimate["rows"]["value"] == train["rows"]
    assert estimate["tokens"]["value"] == train["tokens"]
    assert estimate["bytes"]["value"] == sum(shard["bytes"] for shard in train["shards"])


# The tokenizers of these models


def train(model: str, sample: Path, folder: Path) -> Path:
    path = folder / "tokenizer" / "tokenizer.json"
    path.parent.mkdir()
    jobs.train(sample, path, "--model", model, "--vocab-size", "600")
    return path


def test_roberta_with_a_byte_level_tokenizer(
    sample: Path, build_kind: Build, tmp_path: Path
) -> None:
    path = train("bpe", sample, tmp_path)
    flags = ("--max-predictions-per-seq", "None", "--max-seq-length", "256")
    folder = build_kind("full-sentences", *flags, "--duplicates", "1", tokenizer=path)
    assert verify(folder) == []
    tokenizer = Tokenizer.from_file(str(path))
    begin, end, mask = (tokenizer.token_to_id(token) for token in ("<s>", "</s>", "<mask>"))
    special = read_manifest_json(folder)["tokenizer"]["special"]
    assert [special[f"{role}_id"] for role in ("cls", "sep", "mask")] == [begin, end, mask]
    rows = [*rows_of(folder), *rows_of(folder, "validation")]
    text = ""
    for row in rows:
        ids = row["input_ids"]
        assert (ids[0], ids[-1], len(ids) <= 256) == (begin, end, True)
        text += tokenizer.decode(ids).replace(" ", "")
    # Every line is there from its first to its last letter, whatever row it is in.
    lines = [line.strip() for line in sample.read_text().splitlines()]
    sentences = [line for line in lines if line and not line.startswith("=")]
    assert len(text) == sum(len(line.replace(" ", "")) for line in sentences)
    assert all(line.replace(" ", "") in text for line in sentences)


def test_albert_with_a_unigram_tokenizer(sample: Path, build_kind: Build, tmp_path: Path) -> None:
    path = train("unigram", sample, tmp_path)
    folder = build_kind("sentence-order", "--max-seq-length", "128", tokenizer=path)
    assert verify(folder) == []
    tokenizer = Tokenizer.from_file(str(path))
    text = sample.read_text().lower().replace(" ", "")
    labels = []
    for row in rows_of(folder):
        types = row["token_type_ids"]
        # [CLS] first [SEP] second [SEP]
        spans = row["input_ids"][1 : types.index(1) - 1], row["input_ids"][types.index(1) : -1]
        first, second = (tokenizer.decode(ids).lower().replace(" ", "") for ids in spans)
        if text.count(first) == text.count(second) == 1:
            assert (text.index(first) > text.index(second)) == bool(row["sentence_order_label"])
            labels.append(row["sentence_order_label"])
    assert min(labels.count(0), labels.count(1)) > 20
