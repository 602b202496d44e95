import json
from functools import partial
from pathlib import Path

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.dataset.accounting import Expected
from corpusmill.inspection.corpus_measures import measure_tokens
from corpusmill.layout.placement import Layout
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.corpus_files import measure_corpus, read_documents
from transforms.corpus.measure import LARGEST, MeasureDocuments, check_counts, first_rejects
from transforms.corpus.plan import PlanTasks, write_plan
from transforms.corpus.pool import CANDIDATES
from transforms.corpus.prepare import Preparation, Tokenizing
from transforms.corpus.read import REJECTS
from transforms.elements import LinesFile, PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.shuffle.segments import Routes
from transforms.tally import COUNTS
from transforms.testing import collect, local_pipeline, sums


def test_a_corpus_measured_in_tasks_is_the_corpus_measured_in_one_pass(
    sample: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer.json)
    size = sample.stat().st_size
    ranges = cut_ranges([PlannedRange(str(sample), "text", 0, 0, size)], 3_000)
    plan = write_plan(str(tmp_path / "plan"), group_ranges(ranges, [size], 200_000))
    assert plan.tasks > 1
    preparation = Preparation(
        DocumentOptions(input_format="text"),
        Tokenizing(str(tmp_path / "tokenizer.json"), tokenizer.digest, "int16"),
        Routes(Layout(3, 4, 1), 0.2, 2, 5),
        2**64 - 1,
        Workplace(str(tmp_path)),
    )
    measure = partial(measure_tokens, unknown=tokenizer.special.unk_id)
    with local_pipeline() as pipeline:
        measured = (
            pipeline | PlanTasks(plan, Workplace("")) | MeasureDocuments(preparation, measure)
        )
        counts, largest = collect(measured[COUNTS]), collect(measured[LARGEST])
        candidates, rejects = collect(measured[CANDIDATES]), collect(measured[REJECTS])
    whole = measure_corpus(read_documents(sample), tokenizer)
    counted = sums(counts)
    assert {name: count for name, count in counted.items() if name.startswith("measure.")} == {
        f"measure.{name}": count for name, count in whole.counts.items()
    }
    for name, value in whole.largest.items():
        assert max(size for largest_name, size in largest if largest_name == name) == value
    assert counted["read.bytes"] == size
    assert counted["tokenize.documents"] == counted["candidates.documents"]
    assert sum(part.rows for part in candidates) == counted["tokenize.documents"]
    assert rejects == []


def test_the_first_rejects_of_each_reason_are_shown_and_no_file_is_opened_after_them(
    tmp_path: Path,
) -> None:
    files = []
    for number, reasons in ((4, "ba"), (1, "aaa")):
        path = tmp_path / f"{number}.jsonl"
        rows = [{"reason": reason, "offset": place} for place, reason in enumerate(reasons)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append(LinesFile(number, str(path), len(reasons), path.stat().st_size, ""))
    assert list(first_rejects(files, {"a": 4, "b": 1}, 2)) == [
        {"reason": "a", "offset": 0}, {"reason": "a", "offset": 1}, {"reason": "b", "offset": 0},
    ]  # fmt: skip
    # The second file is the first by its number.
    assert len(list(first_rejects([files[1], LinesFile(2, "none", 5, 9, "")], {"a": 8}, 2))) == 2


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
