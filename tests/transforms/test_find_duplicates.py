"""The ids of duplicates reach the tasks that drop them, however they are grouped on the way."""

from pathlib import Path

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from tests.tools.knobs import in_buckets
from transforms.corpus.duplicates import TASKS, Comparison, FindDuplicates, load_repeats
from transforms.corpus.plan import PlanTasks, read_task, write_plan
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.tally import COUNTS, Tally
from transforms.testing import collect, local_pipeline, sums

FILES, LINES = 3, 60


@pytest.mark.parametrize(
    ("text_bytes", "bucket_bytes", "merge_bytes"),
    [(100, 10**6, 10**6), (2000, 100, 10**6), (2000, 100, 80)],
    ids=["one bucket", "many buckets", "several levels"],
)
def test_each_task_drops_what_an_earlier_one_has(
    text_bytes: int, bucket_bytes: int, merge_bytes: int, tmp_path: Path
) -> None:
    texts = [[f"text {i * i % (17 + file)}" for i in range(LINES)] for file in range(FILES)]
    paths = [tmp_path / f"{file}" for file in range(FILES)]
    for path, lines in zip(paths, texts, strict=True):
        path.write_text("\n".join(lines))
    sizes = [path.stat().st_size for path in paths]
    named = [PlannedRange(str(path), path.name, 0, 0, path.stat().st_size) for path in paths]
    plan = write_plan(str(tmp_path / "plan"), group_ranges(cut_ranges(named, 200), sizes, 66_000))
    options = DocumentOptions(input_format="lines")
    with in_buckets(bucket_bytes, merge_bytes) as task_sizes, local_pipeline() as pipeline:
        place = Workplace(str(tmp_path), sizes=task_sizes)
        comparison = Comparison(options, (), plan.tasks, text_bytes, place)
        found = pipeline | PlanTasks(plan, Workplace("")) | FindDuplicates(comparison)
        tasks, counts = collect(found[TASKS]), collect(found[COUNTS])
    assert [task.number for task in sorted(tasks)] == list(range(plan.tasks))
    kept, tally = [], Tally()
    for task in sorted(tasks):
        reader = TaskReader(options, Workplace(str(tmp_path)), tally, (load_repeats(task.repeats),))
        for batch in reader.read(read_task(task)):
            kept += [line for lines in batch.column("sentences").to_pylist() for line in lines]
    distinct = list(dict.fromkeys(line for lines in texts for line in lines))
    assert kept == distinct
    number = FILES * LINES - len(distinct)
    assert sums(counts) == {"duplicates.documents": FILES * LINES, "duplicates.found": number}
    assert dict(tally.counts())["filter.dropped.duplicate"] == number
