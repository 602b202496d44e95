"""Whole jobs of ALBERT's pairs and RoBERTa's sentences."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import find_files
from tests.tools.jobs import build, read_manifest_json, run_here

Rows = list[dict[str, Any]]
Build = Callable[..., Path]

KINDS = ("sentence-order", "full-sentences", "doc-sentences")


@pytest.fixture
def build_kind(sample: Path, tokenizer_path: Path, build_once: Build) -> Build:
    """Builds a data set, once for each choice of flags; nothing may be changed in it."""

    def run(segments: str, *flags: str, tokenizer: Path = tokenizer_path) -> Path:
        arguments = ("--segments", segments, "--validation-share", "0.2", *flags)
        return build_once(sample, tokenizer, *arguments)

    return run


def rows_of(folder: Path, split: str = "train") -> Rows:
    """The rows of a split, with the masked ids put back."""
    rows = jobs.rows_of(folder, f"{split}-*")
    return [{**row, "input_ids": jobs.unmask(row)} for row in rows]


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


# Packed rows


@pytest.mark.parametrize("output_format", ["tfrecord", "avro"])
def test_packed_rows_in_every_format(output_format: str, build_kind: Build, tmp_path: Path) -> None:
    flags = ("--mask", "dynamic", "--duplicates", "1", "--output-format", output_format)
    rules = ("--document-rule", "wikitext", "--sentence-rule", "line", "--max-seq-length", "256")
    folder = build_kind("packed", *flags, *rules, "--max-predictions-per-seq", "None")
    assert verify(folder) == []
    manifest = read_manifest_json(folder)
    counts = manifest["counts"]
    assert counts["write.pieces"] == counts["build.examples"] > counts["write.rows"]
    assert counts["build.kept_tokens"] == counts["tokenize.tokens"]
    assert "pieces" in manifest["splits"]["train"]["distributions"]
    shown = run_here("inspect", folder).output
    assert "[CLS]" not in shown
    assert "[SEP]" not in shown
    data_set = DataSet(folder, cache_folder=tmp_path / "cache")
    collate = collator_for(data_set, layout="flattened", mask=False)
    batch = collate(data_set.take(np.arange(len(data_set))))
    assert (batch["input_ids"][0, batch["cu_seq_lens_q"][:-1]] == 2).all()
    assert (batch["input_ids"][0, batch["cu_seq_lens_q"][1:] - 1] == 3).all()


@pytest.mark.parametrize("segments", ["packed", "full-sentences", "doc-sentences"])
def test_passes_with_equal_rows_are_refused(
    segments: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--segments", segments, "--mask", "dynamic", "--duplicates", "10")
    refused = ("--duplicates 10", segments, "Give --duplicates 1")
    build([sample], tokenizer_path, tmp_path / "out", *flags, refused=refused)
    assert not (tmp_path / "out").exists()


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


# By Google's rule

ALBERT = ("--pairs", "google", "--whole-word-mask", "--ngram", "3", "--words", "wordpiece")


def test_googles_pairs_have_two_segments_and_words_of_pieces(build_kind: Build) -> None:
    folder = build_kind("next-sentence", *ALBERT[:3], "--words", "wordpiece", "--mask", "dynamic")
    assert verify(folder) == []
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = [*jobs.rows_of(folder, "train-*"), *jobs.rows_of(folder, "validation-*")]
    for row in rows:
        types = row["token_type_ids"]
        assert types.count(1) > 1
        places = range(1, len(types))
        pieces = [str(tokenizer.id_to_token(row["input_ids"][place])) for place in places]
        for place, piece in zip(places, pieces, strict=True):
            assert (row["seg_labels"][place] == 1) >= piece.startswith("##") or place == 1
            assert (row["seg_labels"][place] == -1) == (piece == "[SEP]")
    manifest = read_manifest_json(folder)
    assert manifest["tokenizer"]["words"] == "wordpiece"
    assert manifest["objective"]["options"]["pairs"] == "google"
    shown = run_here("inspect", folder)
    assert "random" in shown.output


def test_alberts_records_have_the_features_of_its_trainer(build_kind: Build) -> None:
    flags = (*ALBERT, "--output-format", "tfrecord", "--padding", "max_length")
    folder = build_kind("sentence-order", *flags)
    assert verify(folder) == []
    content = b"".join(path.read_bytes() for path in find_files(folder, "train-*"))
    rows = read_manifest_json(folder)["splits"]["train"]["rows"]
    for name in (b"token_boundary", b"next_sentence_labels", b"masked_lm_positions"):
        assert content.count(b"\x0a" + bytes([len(name)]) + name) == rows
    counts = read_manifest_json(folder)["counts"]
    assert counts["build.random_tokens"] > 0
    assert counts["pool.documents"] > 0
    assert "switched or random" in run_here("inspect", folder).output


def test_words_of_pieces_need_a_tokenizer_with_pieces(sample: Path, tmp_path: Path) -> None:
    path = train("bpe", sample, tmp_path)
    run_here(
        "bert", "--input", sample, "--tokenizer", path, "--output", tmp_path / "out",
        *ALBERT, refused=["--words wordpiece", "no piece", "unicode"],
    )  # fmt: skip
    assert not (tmp_path / "out").exists()
