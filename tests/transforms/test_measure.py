import json
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest

from corpusmill.dataset.accounting import Expected
from corpusmill.inspection.corpus_measures import Measures, measure_tokens
from tests.tools.builders import SPECIAL, batch_of
from tests.tools.local_pipeline import collect, local_pipeline, sums
from transforms.elements import RejectsFile
from transforms.measure import LARGEST, MeasureBatches, check_counts, first_rejects
from transforms.tally import COUNTS


def measure(batch: object) -> Measures:
    return measure_tokens(batch, SPECIAL, 100)


def test_measures_of_all_bundles_come_with_the_stage_in_front() -> None:
    batches = [batch_of({1: [[10, 11], [1]]}), batch_of({2: [[10]]}), batch_of({3: [[12] * 9]})]
    with local_pipeline() as pipeline:
        measured = (
            pipeline
            | beam.Create([0, 1, 2])
            | beam.Reshuffle()
            | beam.Map(batches.__getitem__)
            | MeasureBatches(measure)
        )
        counts, largest = collect(measured[COUNTS]), collect(measured[LARGEST])
    whole = Measures()
    for batch in batches:
        whole.add(measure(batch))
    assert sums(counts) == {f"measure.{name}": of for name, of in whole.counts.items()}
    assert max(of for name, of in largest if name == "tokens_per_document") == 9


@pytest.fixture
def write_rejects(tmp_path: Path) -> Callable[[int, list[str]], RejectsFile]:
    def write(number: int, reasons: list[str]) -> RejectsFile:
        path = tmp_path / f"{number}.jsonl"
        rows = [{"reason": of, "offset": place} for place, of in enumerate(reasons)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return RejectsFile(number, str(path), len(reasons))

    return write


def test_the_first_rejects_of_each_reason_are_shown(
    write_rejects: Callable[[int, list[str]], RejectsFile],
) -> None:
    files = [write_rejects(4, ["b", "a"]), write_rejects(1, ["a", "a", "a"])]
    shown = list(first_rejects(files, {"a": 4, "b": 1}, 2))
    assert shown == [
        {"reason": "a", "offset": 0}, {"reason": "a", "offset": 1}, {"reason": "b", "offset": 0},
    ]  # fmt: skip


def test_no_file_is_opened_once_all_are_shown(
    write_rejects: Callable[[int, list[str]], RejectsFile],
) -> None:
    files = [write_rejects(0, ["a", "a"]), RejectsFile(1, "nowhere", 5)]
    assert len(list(first_rejects(files, {"a": 7}, 2))) == 2


@pytest.mark.parametrize("name", ["measure.tokens", "measure.documents", "read.bytes"])
def test_a_lost_count_is_found(name: str) -> None:
    counts = {
        "read.ranges": 1, "read.bytes": 9, "read.lines": 2, "read.sentence_lines": 2,
        "read.documents": 1, "tokenize.documents": 1, "tokenize.tokens": 5,
        "measure.documents": 1, "measure.tokens": 5,
    }  # fmt: skip
    expected = Expected(ranges=1, bytes=9, shards=7, repeats=10)
    check_counts(counts, expected)
    with pytest.raises(RuntimeError, match="disagree"):
        check_counts({**counts, name: 4}, expected)
