"""Whole jobs on each format of a corpus."""

import gzip
import json
from pathlib import Path

import pytest

from corpusmill.dataset.verify import verify
from pipeline.command_line import USER_ERROR
from tests.tools.corpus_files import split_documents
from tests.tools.jobs import assert_refused, build, digests, read_manifest_json, run_here


@pytest.fixture
def json_lines(sample: Path, tmp_path: Path) -> Path:
    """The sample as JSON lines, with three bad ones."""
    path = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"id": number, "body": "\n".join(sentences)})
             for number, sentences in enumerate(split_documents(sample))]  # fmt: skip
    lines[5:5] = ["{", '{"id": 3}', "", '{"body": null}']
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_lines_hold_what_the_text_holds(
    json_lines: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([json_lines], tokenizer_path, tmp_path / "out", "--text-field", "body")
    assert outcome.status == 0, outcome.errors
    assert "input format: json-lines, by the files' names" in outcome.output
    assert not verify(tmp_path / "out")
    build([sample], tokenizer_path, tmp_path / "text")
    counts, of_text = (read_manifest_json(tmp_path / entry)["counts"] for entry in ("out", "text"))
    for name in ("read.documents", "read.sentences", "tokenize.tokens"):
        assert counts[name] == of_text[name]
    assert counts["read.records"] == counts["read.documents"]
    assert counts["read.rejects"] == counts["read.rejected_lines"] == 3
    rejects = [json.loads(line) for line in (tmp_path / "out/rejects/rejects.jsonl").open()]
    assert [reject["reason"] for reject in rejects] == ["invalid-json", "missing-field", "not-text"]
    assert read_manifest_json(tmp_path / "out")["corpus"]["options"]["input_format"] == "json-lines"


def test_json_lines_give_the_same_bytes_in_any_ranges_and_workers(
    json_lines: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--text-field", "body", "--validation-share", "0.2")
    build([json_lines], tokenizer_path, tmp_path / "one", *flags)
    workers = ("--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "999")
    build([json_lines], tokenizer_path, tmp_path / "two", *flags, *workers)
    assert len(digests(tmp_path / "one")) > 5
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_compressed_json_lines_give_the_same_shards(
    json_lines: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    compressed = tmp_path / "packed" / "corpus.jsonl.gz"
    compressed.parent.mkdir()
    compressed.write_bytes(gzip.compress(json_lines.read_bytes()))
    results = []
    for number, path in enumerate((json_lines, compressed)):
        build([path], tokenizer_path, tmp_path / str(number), "--text-field", "body")
        made = digests(tmp_path / str(number))
        results.append({name: made[name] for name in made if name.endswith(".parquet")})
    assert len(results[0]) == 3
    assert results[0] == results[1]


def test_one_document_a_line(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    outcome = build([sample], tokenizer_path, tmp_path / "out", "--input-format", "lines")
    assert outcome.status == 0, outcome.errors
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
    outcome = build([folder], tokenizer_path, tmp_path / "out", *flags)
    assert outcome.status == 0, outcome.errors
    counts = read_manifest_json(tmp_path / "out")["counts"]
    expected = list(split_documents(sample))
    assert counts["read.documents"] == len(expected)
    assert counts["read.sentences"] == sum(map(len, expected))
    build([folder / "*.md"], tokenizer_path, tmp_path / "md", *flags)
    assert read_manifest_json(tmp_path / "md")["counts"]["read.documents"] == len(expected) // 2
    assert not verify(tmp_path / "out")


def test_a_field_that_is_not_there_is_refused_before_any_work(
    json_lines: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([json_lines], tokenizer_path, tmp_path / "out")
    assert_refused(outcome, USER_ERROR, "--text-field text", "its fields are id, body")
    assert not (tmp_path / "out").exists()


def test_files_of_several_formats_are_refused(
    json_lines: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([json_lines, sample], tokenizer_path, tmp_path / "out")
    assert_refused(outcome, USER_ERROR, "--input-format auto", "several formats", "json-lines")


def test_a_tokenizer_is_trained_on_json_lines_as_on_their_text(
    json_lines: Path, sample: Path, tmp_path: Path
) -> None:
    trained = []
    for path, flags in ((json_lines, ("--text-field", "body")), (sample, ())):
        output = tmp_path / f"{path.stem}.json"
        arguments = ("--input", path, "--vocab-size", "500", "--output", output, *flags)
        outcome = run_here("train-tokenizer", *arguments)
        assert outcome.status == 0, outcome.errors
        trained.append(output.read_text())
    assert trained[0] == trained[1]
