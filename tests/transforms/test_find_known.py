"""Ids of duplicates and digests of known documents reach the tasks that drop them, on any way."""

from pathlib import Path

import numpy as np
import pytest
from apache_beam.utils.shared import Shared

from corpusmill.arrays.text_hashes import digests_of
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.provenance.documents_table import DocumentsWriter, documents_schema
from tests.corpusmill.corpus.filters.test_known_texts import batch_of
from tests.tools.knobs import in_buckets
from transforms.corpus.duplicates import Comparison, FindDuplicates, Screening
from transforms.corpus.known_texts import TASKS, FindKnown, Held, Search, load_known
from transforms.corpus.plan import Plan, PlanTasks, read_task, write_plan
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange, Task, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.tally import COUNTS, Tally
from transforms.task_sizes import TaskSizes
from transforms.testing import collect, local_pipeline, sums

FILES, LINES = 3, 60
OPTIONS = DocumentOptions(input_format="lines")
TEXTS = [[f"text {i * i % (17 + file)}" for i in range(LINES)] for file in range(FILES)]
ALL = [line for lines in TEXTS for line in lines]


def write_table(path: Path, texts: list[str]) -> None:
    """Write a table of documents with the digests of some texts."""
    digests = digests_of(batch_of([[text] for text in texts]))
    numbers = np.arange(len(texts))
    columns = dict(zip(documents_schema().names, (numbers, numbers, numbers, digests), strict=True))
    with path.open("wb") as sink:
        writer = DocumentsWriter(sink)
        writer.add_rows(documents_schema().empty_table().from_pydict(columns))
        writer.close()


def plan_corpus(folder: Path) -> Plan:
    paths = [folder / f"{file}" for file in range(FILES)]
    for path, lines in zip(paths, TEXTS, strict=True):
        path.write_text("\n".join(lines))
    sizes = [path.stat().st_size for path in paths]
    named = [PlannedRange(str(path), path.name, 0, 0, path.stat().st_size) for path in paths]
    return write_plan(str(folder / "plan"), group_ranges(cut_ranges(named, 200), sizes, 66_000))


def search_of(
    folder: Path, plan: Plan, tables: list[list[str]], text_bytes: int, refused: bool = False,
    sizes: TaskSizes | None = None,
) -> Search:  # fmt: skip
    for number, texts in enumerate(tables):
        write_table(folder / f"table-{number}", texts)
    held = write_plan(str(folder / "held"), [[(f"table-{n}",)] for n in range(len(tables))])
    place = Workplace(str(folder), sizes=sizes or TaskSizes())
    comparison = Comparison(
        OPTIONS, (), plan.tasks, text_bytes, place, "digest", "known-", held.tasks
    )
    return Search(comparison, Screening(), Held(locate(str(folder)), held, refused))


def read_kept(tasks: list[Task], folder: Path, screening: Screening) -> tuple[list[str], Tally]:
    """Read what the tasks keep."""
    kept, tally = [], Tally()
    for task in sorted(tasks):
        steps = [*screening.list_steps(task, Shared())]
        steps += [load_known(task.known)] if task.known else []
        for batch in TaskReader(OPTIONS, Workplace(str(folder)), tally, steps).read(
            read_task(task)
        ):
            kept += [line for lines in batch.column("sentences").to_pylist() for line in lines]
    return kept, tally


# How many buckets there are, and in how many levels they are merged.
WAYS = pytest.mark.parametrize(
    ("text_bytes", "bucket_bytes", "merge_bytes"),
    [(100, 10**6, 10**6), (2000, 100, 10**6), (2000, 100, 80), (10**6, 10**9, 10**6)],
    ids=["one bucket", "many buckets", "several levels", "no filter"],
)


@WAYS
def test_each_task_drops_what_an_earlier_one_has(
    text_bytes: int, bucket_bytes: int, merge_bytes: int, tmp_path: Path
) -> None:
    plan = plan_corpus(tmp_path)
    with in_buckets(bucket_bytes, merge_bytes) as sizes, local_pipeline() as pipeline:
        comparison = Comparison(
            OPTIONS, (), plan.tasks, text_bytes, Workplace(str(tmp_path), sizes=sizes)
        )
        found = pipeline | PlanTasks(plan, Workplace("")) | FindDuplicates(comparison)
        tasks, counts = collect(found[TASKS]), collect(found[COUNTS])
    assert [task.number for task in sorted(tasks)] == list(range(plan.tasks))
    kept, tally = read_kept(tasks, tmp_path, Screening(FilterOptions(drop_duplicates=True)))
    assert kept == list(dict.fromkeys(ALL))
    number = len(ALL) - len(kept)
    assert sums(counts) == {"duplicates.documents": len(ALL), "duplicates.found": number}
    assert dict(tally.counts())["filter.dropped.duplicate"] == number


@WAYS
def test_each_task_drops_what_the_data_set_holds(
    text_bytes: int, bucket_bytes: int, merge_bytes: int, tmp_path: Path
) -> None:
    plan = plan_corpus(tmp_path)
    others = [f"other {number}" for number in range(50)]
    held = [["text 1", "text 4"], [], ["text 9", "text 1", *others]]
    with in_buckets(bucket_bytes, merge_bytes) as sizes:
        search = search_of(tmp_path, plan, held, text_bytes, sizes=sizes)
        assert search.is_filtered == (text_bytes < 10**6)
        with local_pipeline() as pipeline:
            found = pipeline | PlanTasks(plan, Workplace("")) | FindKnown(search)
            tasks, counts = collect(found[TASKS]), collect(found[COUNTS])
    assert [task.number for task in sorted(tasks)] == list(range(plan.tasks))
    kept, tally = read_kept(tasks, tmp_path, Screening())
    known = {"text 1", "text 4", "text 9"}
    assert kept == [line for line in ALL if line not in known]
    number = sum(line in known for line in ALL)
    assert sums(counts) == {"known.documents": number}
    assert dict(tally.counts())["filter.dropped.in-data-set"] == number


def test_what_is_dropped_before_is_not_compared(tmp_path: Path) -> None:
    plan = plan_corpus(tmp_path)
    search = search_of(tmp_path, plan, [["text 1"]], 100)
    screening = Screening(FilterOptions(drop_duplicates=True))
    search = Search(search.comparison, screening, search.held)
    duplicates = Comparison(OPTIONS, (), plan.tasks, 100, search.comparison.place)
    with local_pipeline() as pipeline:
        first = pipeline | PlanTasks(plan, Workplace("")) | FindDuplicates(duplicates)
        found = first[TASKS] | FindKnown(search)
        tasks, counts = collect(found[TASKS]), collect(found[COUNTS])
    kept, _ = read_kept(tasks, tmp_path, screening)
    assert kept == [line for line in dict.fromkeys(ALL) if line != "text 1"]
    assert sums(counts) == {"known.documents": 1}


def test_known_documents_are_refused_before_any_task_goes_on(tmp_path: Path) -> None:
    plan = plan_corpus(tmp_path)
    search = search_of(tmp_path, plan, [["text 1"]], 100, refused=True)
    number = ALL.count("text 1")
    seen: list[Task] = []
    with pytest.raises(UserError, match=f"the text of {number} of {len(ALL)} documents"):
        run(plan, search, seen)
    assert not seen


def test_where_nothing_is_known_all_tasks_go_on(tmp_path: Path) -> None:
    plan, seen = plan_corpus(tmp_path), list[Task]()
    run(plan, search_of(tmp_path, plan, [["other"]], 100, refused=True), seen)
    assert [task.number for task in sorted(seen)] == list(range(plan.tasks))


def run(plan: Plan, search: Search, seen: list[Task]) -> None:
    """Collect the tasks that go on."""
    with local_pipeline() as pipeline:
        found = pipeline | PlanTasks(plan, Workplace("")) | FindKnown(search)
        tasks = collect(found[TASKS])
    seen += tasks
