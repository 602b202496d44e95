"""The documents that reach each shard, compared with those that the layout assigns to it."""

from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.layout.placement import Layout, SourceLayout, assign_splits
from corpusmill.tokenization.encoding import tokenized_schema
from tests.tools.builders import batch_of, numbered_corpus
from transforms.elements import Segment
from transforms.recovery import Workplace
from transforms.shuffle.segments import (
    GatherShards,
    KeyedSegment,
    Routes,
    assign_groups,
    count_groups,
    plan_routes,
)
from transforms.shuffle.spill import Spill, load_segment
from transforms.task_sizes import TaskSizes
from transforms.testing import collect, local_pipeline

CORPUS = numbered_corpus([[3 + place % 5, 4, 7, 2] for place in range(40)])
SCHEMA = tokenized_schema("int16", ("url",), facts=True)
SHARE = 0.25
LAYOUT = Layout(5, 3, 2)
WAYS = ["files", "small files", "two levels of files", "four levels of files"]
# Merges: of two tasks; or of one, of two and of four.
MERGES = {"two levels of files": (2,), "four levels of files": (1, 2, 4)}
Rows = dict[tuple[int, int], list[dict[str, object]]]


def with_facts() -> pa.RecordBatch:
    """The corpus, each document with a length, a digest, and most with a field."""
    batch = batch_of(CORPUS)
    places = range(batch.num_rows)
    facts = [
        pa.array(places, pa.uint64()),
        pa.array([place + 2**63 for place in places], pa.uint64()),
        pa.array([f"u{place}" if place % 3 else None for place in places]),
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *facts], schema=SCHEMA)


def make_batches() -> list[pa.RecordBatch]:
    whole = with_facts()
    return [whole.slice(0, 17), whole.slice(17, 1), whole.slice(18)]


def expected_rows(layout: Layout, repeats: int) -> Rows:
    """Return {(shard, home): documents}, from the repeats of each document one by one."""
    whole = with_facts()
    ids = whole.column("document").to_numpy()
    homes = layout.homes(ids, assign_splits(layout.seed, ids, SHARE)).tolist()
    rows: Rows = {}
    for row, home in zip(whole.to_pylist(), homes, strict=True):
        for shard in range(layout.shards):
            same_split = layout.split_of(shard) == layout.split_of(home)
            if same_split and layout.repeats_of(shard, home, repeats):
                rows.setdefault((shard, home), []).append(row)
    return rows


def rows_of(shards: Iterable[tuple[int, Iterable[Segment]]]) -> Rows:
    rows: Rows = {}
    for shard, segments in shards:
        for segment in segments:
            if segment.rows:
                batch = load_segment(segment, SCHEMA)
                assert batch.num_rows == segment.rows
                rows.setdefault((shard, segment.bucket), []).extend(batch.to_pylist())
    return {place: sorted(documents, key=lambda row: str(row["document"]).zfill(20))
            for place, documents in rows.items()}  # fmt: skip


def send(
    name: str, routes: Routes, temp: Path, batches: list[pa.RecordBatch]
) -> list[KeyedSegment]:
    """Return the routed segments of tasks with one batch each."""
    keyed: list[KeyedSegment] = []
    for task, batch in enumerate(batches):
        spill = Spill(str(temp), 10**9 if name == "files" else 100)
        for row in range(batch.num_rows):
            one = batch.slice(row, 1)
            spill.add(one, routes.buckets(one))
        spill.write()
        keyed += routes.route(task, spill.segments)
    return keyed


def gather(
    name: str, layout: Layout, repeats: int, temp: Path, batches: list[pa.RecordBatch]
) -> list[tuple[int, list[Segment]]]:
    """Return the segments that reach the shards."""
    groups = 2 if name in MERGES else layout.shards
    routes = Routes(layout, SHARE, repeats, groups, MERGES.get(name, ()))
    keyed = send(name, routes, temp, batches)
    with local_pipeline() as pipeline:
        segments = pipeline | beam.Create(keyed, reshuffle=False).with_output_types(KeyedSegment)
        gathered = segments | GatherShards(routes, Workplace(str(temp)), SCHEMA)
        return collect(gathered | beam.MapTuple(lambda shard, parts: (shard, list(parts))))


@pytest.mark.parametrize("repeats", [1, 2, 7])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_brings_the_same_documents_to_each_shard(
    name: str, repeats: int, tmp_path: Path
) -> None:
    shards = gather(name, LAYOUT, repeats, tmp_path, make_batches())
    assert sorted(shard for shard, _ in shards) == [0, 1, 2, 3, 4]
    assert rows_of(shards) == expected_rows(LAYOUT, repeats)
    named = {segment.path.rsplit("/", 1)[-1] for _, segments in shards for segment in segments} - {
        ""
    }
    files = {path.name for path in tmp_path.iterdir() if not path.name.startswith("done-")}
    assert named <= files
    # Of several levels, only the last level's files are what shards read.
    assert (named < files) == (name in MERGES)
    assert len(named) >= {"files": 3, "small files": 20, "two levels of files": 3}.get(name, 0)


def test_a_document_is_written_once_for_all_repeats(tmp_path: Path) -> None:
    shards = gather("files", LAYOUT, 3, tmp_path, make_batches())
    places = {
        (segment.path, segment.offset): segment for _, segments in shards for segment in segments
    }
    assert sum(segment.rows for segment in places.values()) == len(CORPUS)


def test_a_merge_takes_several_tasks(tmp_path: Path) -> None:
    routes = Routes(LAYOUT, SHARE, 1, groups=2, merges=(2,))
    keys = {key for key, _ in send("two levels of files", routes, tmp_path, make_batches())}
    # Two groups of the first two tasks, two of the third.
    assert keys == {0, 1, 2, 3}


def test_each_level_has_as_many_merges_as_are_planned() -> None:
    routes, tasks = Routes(LAYOUT, SHARE, 1, groups=2, merges=(2, 4, 8)), 16
    keyed = [
        pair
        for task in range(tasks)
        for pair in routes.route(task, [Segment(bucket, 1, "", 0, 0, 0) for bucket in (0, 1)])
    ]
    for level, merges in enumerate(routes.count_merges(tasks)):
        assert sorted({merge for merge, _ in keyed}) == list(range(merges))
        if level < 2:
            keyed = [pair for merge, one in keyed for pair in routes.route_on(level, merge, [one])]


def test_a_shard_without_any_document_is_there(tmp_path: Path) -> None:
    for number in (0, 1):
        shards = gather("files", Layout(5, 100, 100), 1, tmp_path, make_batches()[:number])
        assert sorted(shard for shard, _ in shards) == list(range(200))
        assert sum(segment.rows for _, segments in shards for segment in segments) == 17 * number


def test_many_sources_are_not_merged_as_each_task_has_documents_of_few_homes() -> None:
    for sources, shards, tasks, stored_bytes, is_merged in (
        (1833, 1, 17, 10**6, False),
        (1833, 2, 17, 10**6, False),
        (1833, 1, 4000, 10**6, True),
        (1833, 1, 17, 10**11, True),
        (2, 1000, 17, 10**6, True),
        (0, 1000, 1, 10**6, False),
        (0, 1000, 2, 10**6, True),
    ):
        parts = tuple(SourceLayout(number << 40, 1, shards, 0) for number in range(sources))
        layout = Layout(0, max(1, sources) * shards, 0, parts)
        routes = plan_routes(TaskSizes(), layout, 0.0, 10, tasks, stored_bytes)
        assert bool(routes.merges) == is_merged, (sources, shards, tasks, stored_bytes)
        assert is_merged == (routes.groups < layout.shards)


def test_a_merge_stays_of_a_size_that_one_call_can_do() -> None:
    for tasks, stored_bytes, merges in (
        (9, 10**6, (9,)),
        (800_000, 25 * 10**12, (4396,)),
        (3, 10**15, (1,)),
        # Too many tasks for one merge.
        (10**8, 25 * 10**12, (65_536, 8 * 65_536)),
    ):
        routes = plan_routes(TaskSizes(), Layout(0, 99_999, 0), 0.0, 10, tasks, stored_bytes)
        assert (routes.groups, routes.merges) == (128, merges)


@given(homes=st.integers(1, 5000), groups=st.integers(1, 300))
def test_neighbouring_homes_share_a_group_and_groups_are_of_equal_size(
    homes: int, groups: int
) -> None:
    groups = min(groups, homes)
    assigned = assign_groups(np.arange(homes, dtype=np.uint32), groups, homes)
    assert (np.diff(assigned.astype(np.int64)) >= 0).all()
    sizes = np.bincount(assigned, minlength=groups)
    assert len(sizes) == groups
    assert sizes.max() - sizes.min() <= 1


def test_a_buffer_has_as_many_groups_as_keep_segments_worth_reading() -> None:
    sizes = TaskSizes(buffer_bytes=64 * 2**20)
    assert count_groups(Layout(0, 8, 0), sizes) == 8
    assert count_groups(Layout(0, 1000, 0), sizes) == 256
    assert count_groups(Layout(0, 8, 0), TaskSizes(buffer_bytes=1)) == 1


def test_few_shards_of_very_many_tasks_are_merged_so_that_none_gets_too_many_references() -> None:
    # Of 5 TB, 100 shards would get 1.5 million references each, in records of 120 MB.
    usual = TaskSizes()
    routes = plan_routes(usual, Layout(0, 100, 0), 0.0, 10, 75_000, 25 * 10**11)
    assert routes.groups == 100
    assert routes.count_merges(75_000) == [2400]
    assert not plan_routes(usual, Layout(0, 100, 0), 0.0, 10, 6000, 2 * 10**11).merges
    few = TaskSizes(most_references=2)
    assert plan_routes(few, Layout(0, 3, 0), 0.0, 1, 9, 10**6).merges == (2, 4, 8)
