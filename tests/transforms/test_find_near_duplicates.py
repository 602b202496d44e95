"""Ids of near-duplicates reach the tasks that drop them, on any way."""

import random
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.batches import document_id
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.corpus.filters.near_duplicates import KEY_BYTES
from tests.tools.knobs import in_buckets, knobs
from tests.tools.near_duplicates import list_near_duplicates
from transforms.corpus.duplicates import TASKS, Comparison, Screening
from transforms.corpus.near_duplicates import TABLE, FindNearDuplicates, NearSearch
from transforms.corpus.plan import Plan, PlanTasks, read_task, write_plan
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange, Task, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.tally import COUNTS, Tally
from transforms.testing import collect, local_pipeline, sums

OPTIONS = DocumentOptions(input_format="lines")
# So many bands that each pair above the similarity is compared.
FILTERS = FilterOptions(drop_near_duplicates=0.6, near_duplicate_bands=60, near_duplicate_rows=3)


def make_texts() -> list[list[str]]:
    """Three files of texts, most of which are others with a few other words."""
    draw, texts = random.Random(3), list[str]()  # noqa: S311
    for number in range(150):
        words = [f"w{draw.randrange(999)}" for _ in range(30)]
        if number > 20 and draw.random() < 0.7:
            words = draw.choice(texts).split()
            for _ in range(draw.randrange(4)):
                words[draw.randrange(len(words))] = f"w{draw.randrange(999)}"
        texts.append(" ".join(words))
    return [texts[:50], [*texts[50:90], "...", "one", "one"], texts[90:]]


def plan_corpus(folder: Path) -> tuple[Plan, dict[int, str]]:
    """Write the texts, and return the plan, and the texts by id."""
    paths, by_id = list[Path](), dict[int, str]()
    for number, lines in enumerate(make_texts()):
        paths.append(folder / f"{number}")
        paths[-1].write_text("\n".join(lines))
        offset = 0
        for line in lines:
            by_id[document_id(number, offset)] = line
            offset += len(line) + 1
    sizes = [path.stat().st_size for path in paths]
    named = [PlannedRange(str(path), path.name, 0, 0, path.stat().st_size) for path in paths]
    ranges = cut_ranges(named, 1500)
    return write_plan(str(folder / "plan"), group_ranges(ranges, sizes, 66_000)), by_id


@pytest.mark.parametrize(
    ("text_bytes", "bucket_bytes", "merge_bytes", "others"),
    [
        (100, 10**6, 10**6, {}), (20000, 3000, 10**6, {"pairs_at_once": 9}),
        (20000, 3000, 800, {"pairs_at_once": 2}),
    ],
    ids=["one bucket", "many buckets", "several levels"],
)  # fmt: skip
def test_each_task_drops_what_is_nearly_an_earlier_document(
    text_bytes: int, bucket_bytes: int, merge_bytes: int, others: dict[str, int], tmp_path: Path
) -> None:
    plan, texts = plan_corpus(tmp_path)
    table = tmp_path / "table.parquet"
    with ExitStack() as stack:
        sizes = stack.enter_context(in_buckets(bucket_bytes, merge_bytes))
        stack.enter_context(knobs(**others, first_documents=100))
        pipeline = stack.enter_context(local_pipeline())
        place = Workplace(str(tmp_path), sizes=sizes)
        comparison = Comparison(
            OPTIONS, (), plan.tasks, text_bytes, place, "key", "near-", row_bytes=60 * KEY_BYTES
        )
        search = NearSearch(comparison, FILTERS, str(table))
        found = pipeline | PlanTasks(plan, Workplace("")) | FindNearDuplicates(search)
        tasks, counts = collect(found[TASKS]), collect(found[COUNTS])
        tables = collect(found[TABLE])
    assert [task.number for task in sorted(tasks)] == list(range(plan.tasks))
    assert plan.tasks > 3
    expected = list_near_duplicates(texts, 0.6)
    assert 40 < len(expected) < 100
    rows = pq.read_table(table).to_pydict()
    assert (
        dict(
            zip(rows["document"], zip(rows["keeper"], rows["similarity"], strict=True), strict=True)
        )
        == expected
    )
    assert rows["document"] == sorted(expected)
    [file] = tables
    assert (file.path, file.bytes) == (str(table), table.stat().st_size)
    kept, tally = read_kept(tasks, tmp_path)
    assert kept == [text for document, text in texts.items() if document not in expected]
    totals = sums(counts)
    assert totals["near.documents"] == len(texts)
    assert totals["near.found"] == len(expected) == dict(tally.counts())["filter.dropped"]
    assert totals["near.crowded"] == 0


def read_kept(tasks: list[Task], folder: Path) -> tuple[list[str], Tally]:
    """Read what the tasks keep."""
    kept, tally = list[str](), Tally()
    for task in sorted(tasks):
        steps = [*Screening(FILTERS).list_steps(task, None)]
        reader = TaskReader(OPTIONS, Workplace(str(folder)), tally, steps)
        for batch in reader.read(read_task(task)):
            kept += [line for lines in batch.column("sentences").to_pylist() for line in lines]
    return kept, tally
