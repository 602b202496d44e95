"""Whole jobs of ELECTRA and T5: every token of the text, and what is shown of the rows."""

from pathlib import Path

from corpusmill.dataset.shards import read_shard
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.corpusmill.objectives.reference_t5 import restore
from tests.tools import jobs
from tests.tools.data_files import manifest_of
from tests.tools.jobs import build, rows_of, run_here
from tests.tools.table_rows import for_rows

# ELECTRA


@for_rows("overflow", ["drop", "keep"])
def test_every_token_of_electra_is_in_an_example_or_counted(
    overflow: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    flags = ("--overflow", overflow, "--replace")
    build([sample], tokenizer_path, output, *flags, objective="electra")
    assert not verify(output)
    counts, rows = manifest_of(output).counts, rows_of(output)
    special = [3 if 1 in row["token_type_ids"] else 2 for row in rows]
    written = sum(len(row["input_ids"]) for row in rows) - sum(special)
    parts = ("build.trimmed_tokens.first_segment", "build.trimmed_tokens.second_segment")
    assert counts["build.trimmed_tokens"] == sum(counts[part] for part in parts)
    assert written + counts["build.trimmed_tokens"] == 2 * counts["tokenize.tokens"]
    assert (counts["build.trimmed_tokens"] == 0) == (overflow == "keep")
    assert {2, 3} == set(special)


@for_rows(
    ("flags", "rule", "documents_read", "sentences"),
    [
        ((), "blank-lines", 5, 6),
        (("--document-rule", "wikitext"), "wikitext", 4, 5),
        (("--no-blanks-separate-docs",), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--document-rule", "whole-file"), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--max-document-bytes", "12"), "whole-file", 6, 6),
    ],
)
def test_what_separates_documents_of_electra(
    flags: tuple[str, ...], rule: str, documents_read: int, sentences: int,
    tokenizer_path: Path, tmp_path: Path, output: Path,
) -> None:  # fmt: skip
    (tmp_path / "a.txt").write_text(" = Title = \n\nthe sea .\nthe lamp .\n\nthe light .\n")
    (tmp_path / "b.txt").write_text("the tower .\n\n\nthe keeper .\n")
    once = ("--duplicates", "1", "--num-shards", "1", "--short-seq-prob", "0", "--replace")
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    build(texts, tokenizer_path, output, *once, *flags, objective="electra")
    manifest = manifest_of(output)
    assert manifest.corpus.options["document_rule"] == rule
    assert manifest.counts["read.documents"] == documents_read
    assert manifest.counts["read.sentences"] == sentences
    # No document of this size reaches the target: each is flushed at its end.
    assert len(rows_of(output)) == documents_read


def test_reports_of_electra_tell_the_share_of_the_text_and_show_one_segment_or_two(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    built = build([sample], tokenizer_path, output, objective="electra").output
    page, counts = tmp_path / "report.html", manifest_of(output).counts
    shown = run_here("inspect", output, "--examples", "50", "--html", page).output
    first, second = (
        counts[f"build.trimmed_tokens.{segment}_segment"] for segment in ("first", "second")
    )
    share = 100 - 100 * (first + second) / (2 * counts["tokenize.tokens"])
    for text in (built, shown, page.read_text()):
        assert f"{share:.1f} %" in text
        assert f"first segment {first:,}, second segment {second:,}" in text
    for text in (shown, page.read_text()):
        assert " predictions" not in text
        assert "second segment: next" not in text
    assert shown.count("  A  ") == 50
    assert 0 < shown.count("  B  ") < 50
    assert "[SEP]" not in shown
    flags = ("--single-segment-prob", "1", "--replace")
    build([sample], tokenizer_path, output, *flags, objective="electra")
    one = run_here("inspect", output, "--examples", "50").output
    assert "  A  " in one
    assert "  B  " not in one


# T5

# Rows of 70 tokens, a fifth of the documents in validation.
ROWS = ("--max-seq-length", "64", "--validation-share", "0.2", "--duplicates", "1")


def rows_of_t5(folder: Path) -> list[dict[str, list[int]]]:
    """Return the rows of all shards, in any format."""
    manifest = manifest_of(folder)
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    batches = [
        batch for shard in shards for batch in read_shard(locate(str(folder)), manifest, shard)
    ]
    return [row for batch in batches for row in batch.to_pylist()]


def texts_of(folder: Path) -> list[list[int]]:
    """Return the text of each row."""
    facts, rows = manifest_of(folder).objective.facts, rows_of_t5(folder)
    if "labels" not in rows[0]:
        return [row["input_ids"] for row in rows]
    first = 1 if "mode_ids" in facts else 0
    pairs = [(_unpad(row["input_ids"])[first:], _unpad(row["labels"])) for row in rows]
    return [restore(*pair, facts["sentinel_ids"]) for pair in pairs]


def _unpad(tokens: list[int]) -> list[int]:
    """Return tokens up to their end, which padding, 0, follows."""
    while tokens[-1] == 0:
        tokens = tokens[:-1]
    return tokens


@for_rows("flags", [("--mask", "dynamic"), ("--preset", "ul2")])
def test_every_token_of_t5_is_in_a_row(
    flags: tuple[str, ...], sample: Path, wordpiece: Path, output: Path
) -> None:
    build([sample], wordpiece, output, *ROWS, *flags, "--replace", objective="t5")
    check_tokens(output)


def check_tokens(output: Path) -> None:
    assert verify(output) == []
    counts = manifest_of(output).counts
    tokens = sum(map(len, texts_of(output)))
    assert counts["build.kept_tokens"] == counts["tokenize.tokens"] == tokens > 10_000


def test_tfrecord_has_the_names_of_t5(sample: Path, wordpiece: Path, output: Path) -> None:
    flags = ("--output-format", "tfrecord", "--no-merge-documents")
    build([sample], wordpiece, output, *ROWS, *flags, objective="t5")
    check_tokens(output)
    card = (output / "README.md").read_text()
    assert '"inputs"' in card
    assert '"targets"' in card
    assert {len(row["input_ids"]) for row in rows_of_t5(output)} == {64}
    assert {len(row["labels"]) for row in rows_of_t5(output)} == {14}


def test_examples_of_t5_are_shown_with_their_targets(
    sample: Path, wordpiece: Path, output: Path, tmp_path: Path
) -> None:
    build([sample], wordpiece, output, *ROWS, objective="t5")
    page = tmp_path / "report.html"
    shown = run_here("inspect", output, "--html", page).output
    assert "  target  <extra_id_0> " in shown
    assert "target length" in shown
    assert "&lt;extra_id_0&gt;" in page.read_text()


@for_rows(
    ("flags", "parts"),
    [
        (("--max-seq-length", "4096"), ("--tokenizer", "up to 227 spans", "lacks <extra_id_150>")),
        (("--output-format", "megatron"), ("--output-format megatron", "labels")),
        (("--noise-density", "0"), ("--noise-density 0", "0.01 to 0.9")),
        (("--mean-noise-span-length", "0.5"), ("--mean-noise-span-length 0.5", "1 to 1000")),
    ],
)
def test_what_cannot_be_built_of_t5_is_refused_before_any_work(
    flags: tuple[str, ...], parts: tuple[str, ...], sample: Path, wordpiece: Path, output: Path
) -> None:
    flags = tuple(map(str, jobs.last_wins(*ROWS, *flags)))
    build([sample], wordpiece, output, *flags, objective="t5", refused=parts)
    assert not output.exists()
