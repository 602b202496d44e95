"""Builds that take the records for which a condition is true."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusmill
from tests.tools.jobs import TWO_WORKERS, digests, read_manifest_json, run_here

pytest.importorskip("duckdb")

WHERE = "meta.score > 0.4 AND lang IN ('en', 'ü''x')"
ROWS: list[dict[str, Any]] = [
    {
        "text": f"the story number {number} of {number % 7} houses and a river",
        "lang": ["en", "de", "ü'x", None][number % 4],
        "meta": {"score": number % 10 / 10, "url": f"u{number}"} if number % 5 else None,
    }
    for number in range(400)
]
TAKEN = [
    row
    for row in ROWS
    if row["lang"] in {"en", "ü'x"} and row["meta"] and row["meta"]["score"] > 0.4
]
FILTER = """
def no_eights(text, metadata):
    return "eight" if metadata["fields"]["meta.url"].endswith("8") else None
"""


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "rows.jsonl", ROWS)


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def gpt(tokenizer: Path, output: Path, *flags: str | Path) -> str:
    made = ("--tokenizer", tokenizer, "--output", output, "--num-shards", "2")
    return run_here("gpt", *made, *flags).output


def test_documents_are_those_of_a_file_with_these_records(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path
) -> None:
    """The same rows are built for any workers and ranges, and the others are counted."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=50)
    for path in (lines, tmp_path / "a.parquet"):
        folders = [tmp_path / f"{path.suffix}{number}" for number in range(2)]
        for folder, workers in zip(folders, (("--workers", "1"), TWO_WORKERS), strict=True):
            printed = gpt(gpt_tokenizer, folder, "--input", path, "--where", WHERE, *workers)
            assert f"of the documents, {400 - len(TAKEN)} of 400: where" in printed
        assert digests(folders[0]) == digests(folders[1])
        manifest = read_manifest_json(folders[0])
        assert manifest["corpus"]["options"]["where"] == WHERE
        counts = manifest["counts"]
        assert counts["tokenize.documents"] == len(TAKEN) > 50
        assert counts["filter.dropped.where"] == counts["filter.dropped"] == 400 - len(TAKEN)
        assert counts["read.documents"] == counts["filter.documents"] == 400
        printed = run_here("config", folders[0]).output
        assert f"where: {json.dumps(WHERE, ensure_ascii=False)}" in printed
        run_here("verify", folders[0])
        traced = run_here("trace", folders[0], "--row", "0", "--input", path).output
        assert "the story number" in traced


def test_what_python_gives_is_judged_as_a_file_is(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path
) -> None:
    gpt(gpt_tokenizer, tmp_path / "file", "--input", lines, "--where", WHERE)
    expected = read_manifest_json(tmp_path / "file")["counts"]["filter.dropped.where"]
    for number, given in enumerate((ROWS, pa.Table.from_pylist(ROWS))):
        output = str(tmp_path / str(number))
        corpusmill.build(
            "gpt", input=given, tokenizer=str(gpt_tokenizer), output=output, where=WHERE
        )
        counts = read_manifest_json(tmp_path / str(number))["counts"]
        assert counts["filter.dropped.where"] == expected


def test_filters_see_kept_fields_also_where_duplicates_are_dropped(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(lines, [*ROWS, *ROWS])
    (tmp_path / "filters_of_fields.py").write_text(FILTER)
    monkeypatch.syspath_prepend(tmp_path)
    flags = ("--filter", "filters_of_fields:no_eights", "--keep-fields", "meta.url")
    taken = ("--input", lines, "--where", WHERE)
    eights = sum(row["meta"]["url"].endswith("8") for row in TAKEN)
    for reason, drop in (
        ("duplicate", ["--drop-duplicates"]),
        ("near-duplicate", ["--drop-near-duplicates", "0.9"]),
    ):
        gpt(gpt_tokenizer, tmp_path / reason, *taken, *drop, *flags)
        counts = read_manifest_json(tmp_path / reason)["counts"]
        assert counts["filter.dropped.where"] == 2 * (400 - len(TAKEN))
        assert counts["filter.dropped.eight"] == 2 * eights > 0
        assert counts[f"filter.dropped.{reason}"] == len(TAKEN) - eights


def test_a_source_has_a_condition_of_its_own(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path
) -> None:
    (tmp_path / "text.txt").write_text("A book.\n")
    sources = (f"web={lines};where={WHERE}", f"all={lines}", f"book={tmp_path / 'text.txt'}")
    gpt(gpt_tokenizer, tmp_path / "out", "--source", *sources)
    manifest = read_manifest_json(tmp_path / "out")
    counts = {source["name"]: source["counts"] for source in manifest["corpus"]["sources"]}
    assert counts["web"]["filter.dropped"] == 400 - len(TAKEN)
    assert "filter.dropped" not in counts["all"]
    assert "where" not in manifest["corpus"]["options"]
    assert manifest["counts"]["filter.documents"] == 801
    assert manifest["counts"]["tokenize.documents"] == 401 + len(TAKEN)


def test_text_is_added_under_the_same_condition_alone(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path
) -> None:
    output = tmp_path / "out"
    gpt(gpt_tokenizer, output, "--input", lines, "--where", WHERE)
    more = write_lines(
        tmp_path / "more.jsonl", [{**row, "text": f"x {row['text']}"} for row in ROWS]
    )
    flags = (
        "gpt",
        "--tokenizer",
        gpt_tokenizer,
        "--output",
        output,
        "--num-shards",
        "2",
        "--append",
    )
    run_here(*flags, "--input", more, refused=["built with other options", "where"])
    run_here(*flags, "--input", more, "--where", WHERE)
    counts = read_manifest_json(output)["counts"]
    assert counts["filter.dropped.where"] == 2 * (400 - len(TAKEN))


def test_a_tokenizer_is_trained_on_these_records(lines: Path, tmp_path: Path) -> None:
    both = [tmp_path / "a.json", tmp_path / "b.json"]
    own = write_lines(tmp_path / "own.jsonl", TAKEN)
    flags = ("train-tokenizer", "--vocab-size", "300", "--model", "bpe")
    printed = run_here(*flags, "--input", lines, "--where", WHERE, "--output", both[0]).output
    assert f"left out: {400 - len(TAKEN)} of 400 documents ({400 - len(TAKEN)} where)" in printed
    run_here(*flags, "--input", own, "--output", both[1])
    assert both[0].read_bytes() == both[1].read_bytes()
    none = ("--where", "lang = 'xx'", "--output", tmp_path / "c.json")
    run_here(*flags, "--input", lines, *none, refused=["none of the 400 documents is left"])


def test_what_cannot_be_judged_is_refused(
    lines: Path, tmp_path: Path, gpt_tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("A text.\n")
    flags = ("gpt", "--tokenizer", gpt_tokenizer, "--output", tmp_path / "out", "--where")
    refused = ["--where n > 1: documents of the format text have no fields to judge"]
    run_here(*flags, "n > 1", "--input", tmp_path / "a.txt", refused=refused)
    refused = ["--where scor > 1: the first records have no field scor", "are text, lang, meta"]
    run_here(*flags, "scor > 1", "--input", lines, refused=refused)
    refused = ["--source web: where=scor > 1: the first records have no field scor"]
    run_here(*flags[:-1], "--source", f"web={lines};where=scor > 1", refused=refused)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    refused = ["--where lang < 'x': conditions of SQL need the package duckdb", "corpusmill[sql]"]
    run_here(*flags, "lang < 'x'", "--input", lines, refused=refused)
    assert not (tmp_path / "out").exists()
