"""Whole jobs on running text, whose sentences are split."""

import json
from pathlib import Path

import pytest

from corpusmill.dataset.verify import verify
from pipeline.command_line import USER_ERROR
from tests.tools.jobs import assert_refused, build, digests, read_manifest_json, run_here

ENGLISH = ("--sentence-rule", "split", "--language", "en")
SENTENCES = [
    "Dr. Weaver keeps 3.5 million letters in a cellar.",
    "Who reads them?",
    'She said "Nobody does."',
    "The U.S. archive, run by J. R. Stone, closed at 5 p.m. in 1998...",
    "It rained!",
]


@pytest.fixture
def paragraphs(tmp_path: Path) -> Path:
    """Records of running text: each line of a text is a paragraph."""
    path = tmp_path / "running.jsonl"
    with path.open("w") as stream:
        for number in range(60):
            first = " ".join(f"Part {number}: {one}" for one in SENTENCES[: number % 5 + 1])
            text = f"{first}\n\n  {' '.join(SENTENCES)}  \nA heading without an end"
            stream.write(json.dumps({"text": text}) + "\n")
    return path


def test_running_text_is_split_and_recorded(
    paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([paragraphs], tokenizer_path, tmp_path / "out", *ENGLISH)
    assert outcome.status == 0, outcome.errors
    assert not verify(tmp_path / "out")
    manifest = read_manifest_json(tmp_path / "out")
    counts, corpus = manifest["counts"], manifest["corpus"]
    assert counts["read.documents"] == 60
    assert counts["read.sentences"] == sum(number % 5 + 1 + 5 + 1 for number in range(60))
    assert counts["read.unsplit_lines"] == 0
    assert corpus["options"]["sentence_rule"] == "split"
    assert corpus["options"]["language"] == "en"
    assert corpus["sentence_splitter"].startswith("sentencex ")


def test_split_sentences_are_those_of_a_corpus_that_has_them_on_lines(
    paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.jsonl"
    with lines.open("w") as stream:
        for number in range(60):
            first = [f"Part {number}: {one}" for one in SENTENCES[: number % 5 + 1]]
            text = "\n".join([*first, *SENTENCES, "A heading without an end"])
            stream.write(json.dumps({"text": text}) + "\n")
    build([paragraphs], tokenizer_path, tmp_path / "split", "--num-shards", "1", *ENGLISH)
    build([lines], tokenizer_path, tmp_path / "line", "--num-shards", "1")
    split, line = (read_manifest_json(tmp_path / entry)["counts"] for entry in ("split", "line"))
    for name in ("read.sentences", "tokenize.tokens", "read.documents"):
        assert split[name] == line[name], name


def test_the_same_bytes_in_any_ranges_and_workers(
    paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build([paragraphs], tokenizer_path, tmp_path / "one", *ENGLISH)
    workers = ("--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "777")
    outcome = build([paragraphs], tokenizer_path, tmp_path / "two", *ENGLISH, *workers)
    assert outcome.status == 0, outcome.errors
    assert len(digests(tmp_path / "one")) > 5
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_a_language_without_rules_is_refused_before_any_work(
    paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--sentence-rule", "split", "--language", "tlh")
    outcome = build([paragraphs], tokenizer_path, tmp_path / "out", *flags)
    assert_refused(outcome, USER_ERROR, "--language tlh", "no rules for it", "zh")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "flags", [("--language", "en"), ("--sentence-rule", "split")], ids=["language", "rule"]
)
def test_a_rule_and_a_language_need_each_other(
    flags: tuple[str, ...], paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([paragraphs], tokenizer_path, tmp_path / "out", *flags)
    assert_refused(outcome, USER_ERROR, flags[0])


def test_a_tokenizer_is_trained_on_split_text(paragraphs: Path, tmp_path: Path) -> None:
    output = tmp_path / "tokenizer.json"
    arguments = ("--input", paragraphs, "--vocab-size", "300", "--output", output, *ENGLISH)
    outcome = run_here("train-tokenizer", *arguments)
    assert outcome.status == 0, outcome.errors
    assert output.exists()
