"""Whole jobs of ELECTRA: its tokens, its documents, and what is shown of its segments."""

from pathlib import Path

import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.jobs import Outcome, read_manifest_json, rows_of, run_here


def build(source: Path, tokenizer: Path, output: Path, *flags: str) -> Outcome:
    """Build a small ELECTRA data set in this process."""
    return jobs.build([source], tokenizer, output, *flags, objective="electra")


# What is written


@pytest.mark.parametrize("overflow", ["drop", "keep"])
def test_every_token_is_in_an_example_or_counted(
    overflow: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build(sample, tokenizer_path, tmp_path / "out", "--overflow", overflow)
    assert not verify(tmp_path / "out")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    rows = rows_of(tmp_path / "out")
    special = [3 if 1 in row["token_type_ids"] else 2 for row in rows]
    written = sum(len(row["input_ids"]) for row in rows) - sum(special)
    parts = ("build.trimmed_tokens.first_segment", "build.trimmed_tokens.second_segment")
    assert counts["build.trimmed_tokens"] == sum(counts[part] for part in parts)
    assert written + counts["build.trimmed_tokens"] == 2 * counts["tokenize.tokens"]
    assert (counts["build.trimmed_tokens"] == 0) == (overflow == "keep")
    assert {2, 3} == set(special)


# Documents of a text


@pytest.fixture
def two_texts(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text(" = Title = \n\nthe sea .\nthe lamp .\n\nthe light .\n")
    (folder / "b.txt").write_text("the tower .\n\n\nthe keeper .\n")
    return folder


@pytest.mark.parametrize(
    ("flags", "rule", "documents_read", "sentences"),
    [
        ((), "blank-lines", 5, 6),
        (("--document-rule", "wikitext"), "wikitext", 4, 5),
        (("--no-blanks-separate-docs",), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--document-rule", "whole-file"), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--max-document-bytes", "12"), "whole-file", 6, 6),
    ],
)
def test_what_separates_documents(
    flags: tuple[str, ...],
    rule: str,
    documents_read: int,
    sentences: int,
    two_texts: Path,
    tokenizer_path: Path,
    tmp_path: Path,
) -> None:
    output = tmp_path / "out"
    once = ("--duplicates", "1", "--num-shards", "1", "--short-seq-prob", "0")
    build(two_texts, tokenizer_path, output, *once, *flags)
    manifest = read_manifest_json(output)
    assert manifest["corpus"]["options"]["document_rule"] == rule
    assert manifest["counts"]["read.documents"] == documents_read
    assert manifest["counts"]["read.sentences"] == sentences
    # No document of this size reaches the target: each is flushed at its end.
    assert len(rows_of(output)) == documents_read


# Reports


def test_the_report_says_which_share_of_the_text_is_covered(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    built = build(sample, tokenizer_path, output)
    counts = read_manifest_json(output)["counts"]
    first, second = (
        counts[f"build.trimmed_tokens.{segment}_segment"] for segment in ("first", "second")
    )
    share = 100 - 100 * (first + second) / (2 * counts["tokenize.tokens"])
    shown = run_here("inspect", output, "--html", tmp_path / "report.html")
    for text in (built.output, shown.output):
        assert f"{share:.1f} %" in text
        assert f"first segment {first:,}, second segment {second:,}" in text
    page = (tmp_path / "report.html").read_text()
    assert f"{share:.1f} %" in page
    assert f"first segment {first:,}, second segment {second:,}" in page
    for text in (shown.output, page):
        assert " predictions" not in text
        assert "second segment: next" not in text


def test_decoded_examples_have_one_segment_or_two(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build(sample, tokenizer_path, tmp_path / "out", "--single-segment-prob", "1")
    one = run_here("inspect", tmp_path / "out", "--examples", "50").output
    assert "  A  " in one
    assert "  B  " not in one
    build(sample, tokenizer_path, tmp_path / "out", "--replace")
    shown = run_here("inspect", tmp_path / "out", "--examples", "50").output
    assert shown.count("  A  ") == 50
    assert 0 < shown.count("  B  ") < 50
    assert "[SEP]" not in shown
