import gzip
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.reading import read_text
from tests.tools.local_pipeline import collect, local_pipeline, sums
from transforms.plan import PlanTasks, cut_ranges, group_ranges, write_plan
from transforms.read import DOCUMENTS, REJECTS, ReadDocuments
from transforms.tally import COUNTS


def read(
    files: list[Path],
    range_bytes: int,
    temp: Path,
    splittable: bool = True,
    task_bytes: int = 200_000,
) -> dict[str, list[Any]]:
    """What ReadDocuments gives for some files, collection by collection."""
    sizes = [file.stat().st_size for file in files]
    parts = [
        (str(file), file.name, size, splittable) for file, size in zip(files, sizes, strict=True)
    ]
    tasks = group_ranges(cut_ranges(parts, range_bytes), sizes, task_bytes)
    plan = write_plan(str(temp / "plan"), tasks)
    with local_pipeline() as pipeline:
        given = pipeline | PlanTasks(plan) | ReadDocuments(DocumentOptions(), str(temp))
        # Filled when the block ends.
        return {name: collect(given[name]) for name in (DOCUMENTS, REJECTS, COUNTS)}


def rows(batches: list[Any]) -> list[dict[str, Any]]:
    return sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: row["document"]
    )


@pytest.mark.parametrize("range_bytes", [10**9, 7777, 500])
def test_ranges_of_any_size_give_the_documents_of_the_whole_file(
    sample: Path, tmp_path: Path, range_bytes: int
) -> None:
    with sample.open("rb") as stream:
        whole = [
            batch.documents for batch in read_text(stream, FileRange("", 0, DocumentOptions()))
        ]
    given = read([sample], range_bytes, tmp_path)
    assert rows(given[DOCUMENTS]) == rows(whole)
    counts = sums(given[COUNTS])
    assert counts["read.ranges"] == -(-sample.stat().st_size // range_bytes)
    assert counts["read.bytes"] == sample.stat().st_size
    assert counts["read.documents"] == len(rows(whole)) == 105
    assert given[REJECTS] == []


def test_the_documents_of_a_file_carry_its_place_in_the_list(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("One .\n\nTwo .\n")
    given = rows(read(files, 4, tmp_path)[DOCUMENTS])
    assert [row["document"] for row in given] == [0, 7, 1 << 40, (1 << 40) + 7]


def test_rejects_are_lines_of_json_in_a_file_of_the_task(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"Fine .\nNot \xff fine .\nFine again .\n")
    given = read([file], 10**9, tmp_path)
    [rejects] = given[REJECTS]
    assert rejects.rejects == sums(given[COUNTS])["read.rejects"] == 1
    [line] = Path(rejects.path).read_text().splitlines()
    reject = json.loads(line)
    detail = reject.pop("detail")
    assert reject == {"file": "text", "offset": 7, "length": 12, "reason": "invalid-utf-8"}
    assert "0xff" in detail
    [document] = rows(given[DOCUMENTS])
    assert document["sentences"] == ["Fine .", "Fine again ."]


def test_a_damaged_file_gives_what_stood_before_the_damage(tmp_path: Path) -> None:
    text = "".join(f"This is line {number} .\n\n" for number in range(20_000)).encode()
    file = tmp_path / "text.gz"
    file.write_bytes(gzip.compress(text)[:-5000])
    given = read([file], 10**9, tmp_path, splittable=False)
    documents = rows(given[DOCUMENTS])
    assert 1000 < len(documents) < 20_000
    assert [row["sentences"] for row in documents[:2]] == [
        ["This is line 0 ."],
        ["This is line 1 ."],
    ]
    [rejects] = given[REJECTS]
    [line] = Path(rejects.path).read_text().splitlines()
    assert json.loads(line)["reason"] == "damaged-compression"


def test_a_plan_without_ranges_gives_nothing(tmp_path: Path) -> None:
    with local_pipeline() as pipeline:
        given = (
            pipeline
            | PlanTasks(write_plan(str(tmp_path / "plan"), []))
            | ReadDocuments(DocumentOptions(), str(tmp_path))
        )
        documents = collect(given[DOCUMENTS])
        counted = collect(given[COUNTS] | beam.CombinePerKey(sum))
    assert documents == []
    assert counted == []
