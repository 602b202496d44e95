"""Whole jobs on each format of a corpus."""

import gzip
import json
from pathlib import Path

import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.corpus_files import split_documents
from tests.tools.data_files import find_file
from tests.tools.jobs import build, digests, read_manifest_json


@pytest.fixture
def json_lines(sample: Path, tmp_path: Path) -> Path:
    """The sample as JSON lines, with three bad ones."""
    path = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"id": number, "body": "\n".join(sentences)})
             for number, sentences in enumerate(split_documents(sample))]  # fmt: skip
    lines[5:5] = ["{", '{"id": 3}', "", '{"body": null}']
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_lines_hold_what_the_text_holds_however_they_are_read(
    json_lines: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--text-field", "body", "--validation-share", "0.2")
    outcome = build([json_lines], tokenizer_path, tmp_path / "out", *flags)
    assert "input format: json-lines, by what the files are" in outcome.output
    assert not verify(tmp_path / "out")
    build([sample], tokenizer_path, tmp_path / "text")
    counts, of_text = (read_manifest_json(tmp_path / entry)["counts"] for entry in ("out", "text"))
    for name in ("read.documents", "read.sentences", "tokenize.tokens"):
        assert counts[name] == of_text[name]
    assert counts["read.records"] == counts["read.documents"]
    assert counts["read.rejects"] == counts["read.rejected_lines"] == 3
    rejects = [
        json.loads(line) for line in find_file(tmp_path / "out", "rejects/rejects.jsonl").open()
    ]
    assert [reject["reason"] for reject in rejects] == ["invalid-json", "missing-field", "not-text"]
    assert read_manifest_json(tmp_path / "out")["corpus"]["options"]["input_format"] == "json-lines"
    assert len(digests(tmp_path / "out")) > 5
    jobs.assert_same_bytes(
        tmp_path / "out", [json_lines], tokenizer_path, *flags, *jobs.TWO_WORKERS
    )
    compressed = tmp_path / "packed" / "corpus.jsonl.gz"
    compressed.parent.mkdir()
    compressed.write_bytes(gzip.compress(json_lines.read_bytes()))
    build([compressed], tokenizer_path, tmp_path / "gz", *flags)
    shards = jobs.shards_of(digests(tmp_path / "gz"))
    assert len(shards) == 4
    assert shards == jobs.shards_of(digests(tmp_path / "out"))


def test_one_document_a_line(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    build([sample], tokenizer_path, tmp_path / "out", "--input-format", "lines")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    lines = [line for line in sample.read_text().splitlines() if line.strip()]
    assert counts["read.documents"] == counts["read.sentences"] == len(lines)


def test_a_folder_of_files_that_are_a_document_each(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, sentences in enumerate(split_documents(sample)):
        suffix = "md" if number % 2 else "txt"
        (folder / f"{number:03}.{suffix}").write_text("\n\n".join(sentences))
    flags = ("--document-rule", "whole-file")
    build([folder], tokenizer_path, tmp_path / "out", *flags)
    counts = read_manifest_json(tmp_path / "out")["counts"]
    expected = list(split_documents(sample))
    assert counts["read.documents"] == len(expected)
    assert counts["read.sentences"] == sum(map(len, expected))
    build([folder / "*.md"], tokenizer_path, tmp_path / "md", *flags)
    assert read_manifest_json(tmp_path / "md")["counts"]["read.documents"] == len(expected) // 2
    assert not verify(tmp_path / "out")


def test_files_of_several_formats_are_refused(
    json_lines: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    parts = ("--input-format auto", "several formats", "json-lines")
    build([json_lines, sample], tokenizer_path, tmp_path / "out", refused=parts)
