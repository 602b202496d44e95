"""Prepared tasks, compared with the library's kernels in a plain loop."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import hash_lines
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.layout.placement import Layout
from corpusmill.tokenization.encoding import tokenized_schema
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.corpus_files import encode, read_documents
from transforms.corpus.plan import PlanTasks, write_plan
from transforms.corpus.pool import CANDIDATES
from transforms.corpus.prepare import SEGMENTS, Preparation, PrepareDocuments, Tokenizing
from transforms.corpus.read import REJECTS
from transforms.elements import PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.shuffle.segments import Routes
from transforms.shuffle.spill import load_segment
from transforms.tally import COUNTS
from transforms.task_sizes import TaskSizes
from transforms.testing import collect, local_pipeline, sums

LAYOUT = Layout(3, 4, 1)
_sizes: dict[Path, int] = {}
TEXT = DocumentOptions(input_format="text")
PLAIN = tokenized_schema("int16")


def prepare(
    sample: Path,
    tokenizer: TokenizerFile,
    temp: Path,
    limit: int | None,
    documents: DocumentOptions = TEXT,
) -> dict[str, list[Any]]:
    """Return the collections of PrepareDocuments for a text in several tasks."""
    kept = documents.keep_fields
    (temp / "tokenizer.json").write_text(tokenizer.json)
    # A file that is gone has been prepared before.
    size = _sizes[sample] = _sizes.get(sample) or sample.stat().st_size
    ranges = cut_ranges([PlannedRange(str(sample), "text", 0, 0, size)], 9_000)
    plan = write_plan(str(temp / "plan"), group_ranges(ranges, [size], 200_000))
    assert plan.tasks > 1
    preparation = Preparation(
        documents,
        Tokenizing(
            str(temp / "tokenizer.json"),
            tokenizer.digest,
            "int16",
            keep_fields=kept,
            facts=bool(kept),
        ),
        Routes(LAYOUT, 0.2, 2, LAYOUT.shards),
        limit,
        Workplace(str(temp), sizes=TaskSizes(buffer_bytes=20_000)),
    )
    with local_pipeline() as pipeline:
        prepared = pipeline | PlanTasks(plan, Workplace("")) | PrepareDocuments(preparation)
        return {name: collect(prepared[name]) for name in (SEGMENTS, CANDIDATES, REJECTS, COUNTS)}


def rows_of(segments: list[Any], schema: pa.Schema = PLAIN) -> list[dict[str, Any]]:
    rows = [row for _, segment in segments for row in load_segment(segment, schema).to_pylist()]
    return sorted(rows, key=lambda row: row["document"])


@pytest.fixture
def text(sample: Path, tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_bytes((sample.read_bytes() * 4)[:59_990] + b"\xff bad .\n")
    return path


def test_tasks_give_the_documents_that_the_kernels_give(
    text: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    prepared = prepare(text, tokenizer, tmp_path, limit=2**64 - 1)
    encoded = encode(read_documents(text), tokenizer)
    documents = [row for batch in encoded for row in batch.documents.to_pylist()]
    # Each document goes to two shards, one a repeat; a single shard takes both.
    routes = Routes(LAYOUT, 0.2, 2, LAYOUT.shards)
    homes = [home for batch in encoded for home in routes.homes(batch.documents).tolist()]
    expected = [
        row for row, home in zip(documents, homes, strict=True) for _ in LAYOUT.shards_of(home, 2)
    ]
    assert rows_of(prepared[SEGMENTS]) == sorted(expected, key=lambda row: row["document"])
    counts = sums(prepared[COUNTS])
    assert counts["read.bytes"] == 59_990 + len(b"\xff bad .\n")
    assert counts["tokenize.documents"] == len(documents)
    assert counts["candidates.documents"] == len(documents)
    assert sum(part.rows for part in prepared[CANDIDATES]) == len(documents)
    [rejects] = prepared[REJECTS]
    assert rejects.lines == counts["read.rejects"] == 1


def test_without_a_pool_there_are_no_candidates(
    text: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    prepared = prepare(text, tokenizer, tmp_path, limit=None)
    assert prepared[CANDIDATES] == []


def test_a_task_that_is_finished_is_not_done_again(
    text: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    first = prepare(text, tokenizer, tmp_path, limit=2**64 - 1)
    text.unlink()
    second = prepare(text, tokenizer, tmp_path, limit=2**64 - 1)
    assert {name: sorted(values) for name, values in first.items()} == {
        name: sorted(values) for name, values in second.items()
    }


def test_a_task_whose_files_are_damaged_is_done_again(
    text: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    first = prepare(text, tokenizer, tmp_path, limit=None)
    files = {segment.path for _, segment in first[SEGMENTS]}
    Path(min(files)).write_bytes(b"")
    (tmp_path / "done-task-1.json").write_text('{"files": {')
    second = prepare(text, tokenizer, tmp_path, limit=None)
    assert min(files) not in {segment.path for _, segment in second[SEGMENTS]}
    assert rows_of(second[SEGMENTS])
    assert sums(first[COUNTS]) == sums(second[COUNTS])


def test_facts_reach_the_shards_and_not_the_pool(tokenizer: TokenizerFile, tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": f"The lamp {n} .", "url": f"u{n}"} if n % 7 else {"text": "\u200b"})
        for n in range(1500)
    ]
    path = tmp_path / "text.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    options = DocumentOptions(input_format="json-lines", keep_fields=("url", "date"))
    prepared = prepare(path, tokenizer, tmp_path, 2**64 - 1, options)
    rows = rows_of(prepared[SEGMENTS], tokenized_schema("int16", ("url", "date"), facts=True))
    assert len({row["document"] for row in rows}) == sum(n % 7 > 0 for n in range(1500))
    content = path.read_bytes()
    for row in rows:
        place = row["document"] % 2**40
        record = json.loads(content[place : place + row["length"]])
        assert row["field:url"] == record["url"]
        assert row["field:date"] is None
        text, ends = ragged.from_arrow(pa.array([record["text"]]))
        [[first_half, _]] = hash_lines(text, np.arange(2), ends).tolist()
        assert row["digest"] == first_half
    candidates = [load_segment(segment, PLAIN) for segment in prepared[CANDIDATES]]
    ids = [number for batch in candidates for number in batch.column("document").to_pylist()]
    assert sorted(ids) == sorted({row["document"] for row in rows})
