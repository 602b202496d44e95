"""The words of tasks are counted and added up, however they are grouped on the way."""

from pathlib import Path

import pytest

import transforms.corpus.count_words
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.tokenization.training.counted_words import WordLimits
from corpusmill.tokenization.training.models import ByteLevelBpeOptions
from tests.tools.knobs import knobs
from tests.tools.training import count_text, counter_of
from transforms.corpus.count_words import (
    WORDS,
    Counting,
    CountWords,
    check_counts,
    load_words,
    read_result,
)
from transforms.corpus.plan import PlanTasks, write_plan
from transforms.elements import PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.shuffle.trees import CollectResult
from transforms.tally import COUNTS
from transforms.testing import local_pipeline

LINES = [
    f"word {i % 7} and {i * i % 41} , {'long' * (i % 5)}{i % 3} 東京{i % 11}" for i in range(300)
]


def count(folder: Path, range_bytes: int, partitions: int) -> tuple[str, int]:
    text = folder / "text"
    text.write_text("\n".join(LINES), "utf-8")
    size = text.stat().st_size
    ranges = cut_ranges([PlannedRange(str(text), text.name, 0, 0, size)], range_bytes)
    plan = write_plan(str(folder / "plan"), group_ranges(ranges, [size], 1))
    documents = DocumentOptions(input_format="lines")
    counting = Counting(ByteLevelBpeOptions(), documents, Workplace(str(folder)), partitions)
    result = str(folder / "words.json")
    with local_pipeline() as pipeline:
        counted = pipeline | PlanTasks(plan, Workplace("")) | CountWords(counting)
        _ = counted[WORDS] | CollectResult(result, counted[COUNTS])
    counts, _ = read_result(result)
    check_counts(counts, plan.ranges, size)
    return result, plan.tasks


@pytest.mark.parametrize(
    ("range_bytes", "partitions", "most_words", "added_bytes"),
    [(10**6, 1, 10**6, 10**9), (900, 1, 10**6, 10**9), (900, 5, 10, 10**9), (900, 3, 10, 500)],
    ids=["one task", "many tasks", "full tables", "large partitions"],
)
def test_words_are_those_of_one_counter(
    range_bytes: int, partitions: int, most_words: int, added_bytes: int,
    tmp_path: Path,
) -> None:  # fmt: skip
    expected = {
        limits: count_text([LINES], ByteLevelBpeOptions().make_counter(), limits)
        for limits in (
            WordLimits(10**6, 10**6),
            WordLimits(60, 10**6),
            WordLimits(20, 10**6),
            WordLimits(10**6, 200),
            WordLimits(60, 100),
        )
    }
    with knobs(added_bytes=added_bytes, most_words=most_words):
        result, tasks = count(tmp_path, range_bytes, partitions)
    assert (tasks > 1) == (range_bytes < 10**6)
    for limits, words in expected.items():
        assert counter_of(load_words(read_result(result)[1], limits)) == counter_of(words)


def test_what_is_finished_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = count(tmp_path, 900, 3)
    before = read_result(first)
    monkeypatch.delattr(transforms.corpus.count_words, "count_task")
    monkeypatch.delattr(transforms.corpus.count_words, "add_partition")
    assert read_result(count(tmp_path, 900, 3)[0]) == before


def test_counts_that_disagree_are_refused() -> None:
    counts = {"read.ranges": 2, "read.bytes": 9, "read.documents": 4, "count.documents": 4}
    counts |= {"count.words": 7, "total.words": 7, "duplicates.documents": 4}
    check_counts(counts, 2, 9)
    for name, problem in {
        "read.ranges": "3 ranges read, but 2 ranges planned",
        "read.bytes": "3 bytes read, but 9 bytes of input",
        "count.documents": "3 documents tokenized, but 4 documents read",
        "total.words": "3 words added up, but 7 words counted",
        "duplicates.found": "3 duplicates found, but 0 duplicates dropped",
    }.items():
        with pytest.raises(RuntimeError, match=f"the counts of the stages disagree: {problem}"):
            check_counts(counts | {name: 3}, 2, 9)
