from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from transforms.corpus.plan import Plan, PlanTasks, read_task, write_plan
from transforms.elements import FILE_BYTES, PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.testing import collect, local_pipeline


@given(size=st.integers(0, 10_000), range_bytes=st.integers(1, 3000))
def test_ranges_of_a_file_follow_each_other_and_cover_it(size: int, range_bytes: int) -> None:
    ranges = list(cut_ranges([PlannedRange("f", "f", 0, 0, size)], range_bytes))
    assert [part.start for part in ranges] == [0, *(part.end for part in ranges[:-1])]
    assert ranges[-1].end == size
    lengths = [(part.end or 0) - part.start for part in ranges]
    assert max(lengths) <= range_bytes
    assert max(lengths) - min(lengths) <= 1


def test_compressed_files_are_whole() -> None:
    assert list(
        cut_ranges(
            [
                PlannedRange("/a", "a", 0, 0, 10, 10, 1.0),
                PlannedRange("/b.gz", "b.gz", 0, 0, None, 99, 2.0, format_is_known=False),
                PlannedRange("/c", "c", 0, 0, 3, 3, 3.0),
            ],
            5,
        )
    ) == [
        PlannedRange("/a", "a", 0, 0, 5, 10, 1.0),
        PlannedRange("/a", "a", 0, 5, 10, 10, 1.0),
        PlannedRange("/b.gz", "b.gz", 1, 0, None, 99, 2.0, format_is_known=False),
        PlannedRange("/c", "c", 2, 0, 3, 3, 3.0),
    ]


@given(
    sizes=st.lists(st.integers(0, 10**6), max_size=30),
    range_bytes=st.integers(1000, 10**6),
    task_bytes=st.integers(1, 10**6),
)
def test_tasks_hold_the_ranges_in_their_order_and_are_no_larger_than_asked(
    sizes: list[int], range_bytes: int, task_bytes: int
) -> None:
    files = [
        PlannedRange(str(number), str(number), 0, 0, size if size % 2 else None, size)
        for number, size in enumerate(sizes)
    ]
    ranges = list(cut_ranges(files, range_bytes))
    tasks = list(group_ranges(ranges, sizes, task_bytes))
    assert [part for task in tasks for part in task] == ranges

    def cost(part: PlannedRange) -> int:
        return FILE_BYTES - part.start + (sizes[part.file_index] if part.end is None else part.end)

    costs = [list(map(cost, task)) for task in tasks]
    assert all(len(task_costs) == 1 or sum(task_costs) <= task_bytes for task_costs in costs)
    # No task could take the first range of the next.
    assert all(sum(task_costs) + after[0] > task_bytes for task_costs, after in pairwise(costs))


def test_many_small_files_are_few_tasks() -> None:
    ranges = cut_ranges(
        [PlannedRange(str(number), "", 0, 0, 1000) for number in range(50_000)], 64 * 2**20
    )
    tasks = list(group_ranges(ranges, [1000] * 50_000, 64 * 2**20))
    assert len(tasks) < 60


def test_a_plan_is_read_task_by_task(tmp_path: Path) -> None:
    files = [
        PlannedRange("/a", "ä b", 0, 0, 10, 10, 0.5),
        PlannedRange("/c.gz", "c.gz", 0, 0, None, 9, format_is_known=False),
    ]
    ranges = list(cut_ranges(files, 4))
    plan = write_plan(str(tmp_path / "plan"), [ranges[:2], ranges[2:]])
    assert plan == Plan(str(tmp_path / "plan"), tasks=2, ranges=4)
    with local_pipeline() as pipeline:
        tasks = collect(pipeline | PlanTasks(plan, Workplace("")))
    assert [read_task(task) for task in sorted(tasks)] == [ranges[:2], ranges[2:]]
