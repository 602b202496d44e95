"""The command t5 as a whole: the same rows in any number of processes, in every format."""

from pathlib import Path
from typing import Any

import pytest

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest, read_shard
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.corpusmill.objectives.reference_t5 import restore
from tests.tools import jobs
from tests.tools.data_files import manifest_of

# Rows of 70 tokens, a fifth of the documents in validation.
ROWS = ("--max-seq-length", "64", "--validation-share", "0.2", "--duplicates", "1")


def build(sample: Path, tokenizer: Path, output: Path, *flags: str, **end: Any) -> jobs.Outcome:
    return jobs.build([sample], tokenizer, output, *ROWS, *flags, objective="t5", **end)


def rows_of(folder: Path) -> tuple[Manifest, list[dict[str, list[int]]]]:
    """Return the rows of all shards, in any format."""
    files = locate(str(folder))
    manifest = read_manifest(files)
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    batches = [batch for shard in shards for batch in read_shard(files, manifest, shard)]
    return manifest, [row for batch in batches for row in batch.to_pylist()]


def texts_of(folder: Path) -> list[list[int]]:
    """Return the text of each row."""
    manifest, rows = rows_of(folder)
    facts = manifest.objective.facts
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


@pytest.mark.parametrize(
    "flags",
    [
        ("--mask", "dynamic"),
        ("--output-format", "tfrecord", "--no-merge-documents"),
        ("--preset", "ul2"),
    ],
    ids=["dynamic", "tfrecord", "ul2"],
)
def test_every_token_is_in_a_row(
    flags: tuple[str, ...], sample: Path, wordpiece: Path, output: Path
) -> None:
    build(sample, wordpiece, output, *flags)
    assert verify(output) == []
    counts = manifest_of(output).counts
    tokens = sum(map(len, texts_of(output)))
    assert counts["build.kept_tokens"] == counts["tokenize.tokens"] == tokens > 10_000


def test_tfrecord_has_the_names_of_t5(sample: Path, wordpiece: Path, output: Path) -> None:
    build(sample, wordpiece, output, "--output-format", "tfrecord")
    card = (output / "README.md").read_text()
    assert '"inputs"' in card
    assert '"targets"' in card
    assert {len(row["input_ids"]) for row in rows_of(output)[1]} == {64}
    assert {len(row["labels"]) for row in rows_of(output)[1]} == {14}


def test_examples_are_shown_with_their_targets(
    sample: Path, wordpiece: Path, output: Path, tmp_path: Path
) -> None:
    build(sample, wordpiece, output)
    page = tmp_path / "report.html"
    shown = jobs.run_here("inspect", output, "--html", page).output
    assert "  target  <extra_id_0> " in shown
    assert "target length" in shown
    assert "&lt;extra_id_0&gt;" in page.read_text()


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--max-seq-length", "4096"), ("--tokenizer", "up to 227 spans", "lacks <extra_id_150>")),
        (("--output-format", "megatron"), ("--output-format megatron", "labels")),
        (("--noise-density", "0"), ("--noise-density 0", "0.01 to 0.9")),
        (("--mean-noise-span-length", "0.5"), ("--mean-noise-span-length 0.5", "1 to 1000")),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_work(
    flags: tuple[str, ...], parts: tuple[str, ...], sample: Path, wordpiece: Path, output: Path
) -> None:
    flags = tuple(map(str, jobs.last_wins(*ROWS, *flags)))
    jobs.build([sample], wordpiece, output, *flags, objective="t5", refused=parts)
    assert not output.exists()
