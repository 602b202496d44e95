"""Whole jobs on running text, whose sentences are split."""

import json
from pathlib import Path

import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.jobs import TWO_WORKERS, build, read_manifest_json

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


def test_running_text_is_split_and_recorded_however_it_is_read(
    paragraphs: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build([paragraphs], tokenizer_path, tmp_path / "out", *ENGLISH)
    assert not verify(tmp_path / "out")
    manifest = read_manifest_json(tmp_path / "out")
    counts, corpus = manifest["counts"], manifest["corpus"]
    assert counts["read.documents"] == 60
    assert counts["read.sentences"] == sum(number % 5 + 1 + 5 + 1 for number in range(60))
    assert counts["read.unsplit_lines"] == 0
    assert corpus["options"]["sentence_rule"] == "split"
    assert corpus["options"]["language"] == "en"
    assert corpus["sentence_splitter"].startswith("sentencex ")
    assert len(jobs.digests(tmp_path / "out")) > 5
    ways = (*ENGLISH, *TWO_WORKERS)
    jobs.assert_same_bytes(tmp_path / "out", [paragraphs], tokenizer_path, *ways)


def test_a_tokenizer_is_trained_on_split_text(paragraphs: Path, tmp_path: Path) -> None:
    assert jobs.train(paragraphs, tmp_path / "tokenizer.json", "--vocab-size", "300", *ENGLISH)
