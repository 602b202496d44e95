"""The ways to a shard against the rows that the layout names for it."""

from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.bert import Bert, BertOptions
from corpusmill.placement import assign_splits
from corpusmill.spill import Layout, add_keys, transit_schema
from tests.corpusmill.builders import SPECIAL, batch_of, numbered_corpus, pool_of
from tests.transforms.local_pipeline import collect, local_pipeline
from transforms import shuffle
from transforms.elements import Segment
from transforms.shuffle import ShuffleByEngine, ShuffleByFiles, cut_groups, group_of, load_segment

BERT = Bert(BertOptions(max_seq_length=24, duplicates=3), SPECIAL, 2000, "int16")
SCHEMA = transit_schema(BERT)
CORPUS = numbered_corpus([[3 + place % 5, 4, 7, 2] for place in range(40)])
SHARE = 0.25
LAYOUT = Layout(5, 3, 2, 4)
Rows = dict[tuple[int, int], list[dict[str, object]]]


def examples() -> list[pa.RecordBatch]:
    documents, pool = batch_of(CORPUS), pool_of(CORPUS)
    splits = np.zeros(len(CORPUS), np.uint8)
    return [BERT.build(documents, repeat, pool, splits, 5) for repeat in range(3)]


def expected_rows(layout: Layout) -> Rows:
    rows: Rows = {}
    for batch in examples():
        splits = assign_splits(layout.seed, batch.column("document").to_numpy(), SHARE)
        buckets, keys = layout.buckets(batch, splits)
        for bucket, row in zip(buckets.tolist(), add_keys(batch, keys).to_pylist(), strict=True):
            rows.setdefault(divmod(bucket, layout.slices), []).append(row)
    return {place: sorted(of, key=lambda row: str(row["key"])) for place, of in rows.items()}


def rows_of(shards: Iterable[tuple[int, Iterable[Segment]]]) -> Rows:
    rows: Rows = {}
    for shard, segments in shards:
        for segment in segments:
            assert segment.shard == shard
            if segment.rows:
                batch = load_segment(segment, SCHEMA)
                assert batch.num_rows == segment.rows
                rows.setdefault((shard, segment.slice), []).extend(batch.to_pylist())
    return {place: sorted(of, key=lambda row: str(row["key"])) for place, of in rows.items()}


def shuffled(way: beam.PTransform, given: list[pa.RecordBatch]) -> list[tuple[int, list[Segment]]]:
    with local_pipeline() as pipeline:
        batches = pipeline | beam.Create(given, reshuffle=False).with_output_types(pa.RecordBatch)
        return collect(
            batches | way | beam.MapTuple(lambda shard, segments: (shard, list(segments)))
        )


def two_levels(temp: str, monkeypatch: pytest.MonkeyPatch) -> beam.PTransform:
    monkeypatch.setattr(shuffle, "SMALLEST_SEGMENT_BYTES", 1000)
    assert cut_groups(LAYOUT, 6000) == 6 < LAYOUT.shards * LAYOUT.slices
    return ShuffleByFiles(LAYOUT, SHARE, temp, SCHEMA, buffer_bytes=6000)


@pytest.mark.parametrize("name", ["files", "small files", "two levels of files", "engine"])
def test_every_way_brings_the_same_rows_to_each_slice_of_each_shard(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temp = str(tmp_path)
    if name == "two levels of files":
        way = two_levels(temp, monkeypatch)
    elif name == "small files":
        monkeypatch.setattr(shuffle, "SMALLEST_SEGMENT_BYTES", 1)
        way = ShuffleByFiles(LAYOUT, SHARE, temp, SCHEMA, buffer_bytes=3000)
    elif name == "files":
        way = ShuffleByFiles(LAYOUT, SHARE, temp, SCHEMA)
    else:
        monkeypatch.setattr(shuffle, "_MESSAGE_BYTES", 100)
        way = ShuffleByEngine(LAYOUT, SHARE)
    shards = shuffled(way, examples())
    assert sorted(shard for shard, _ in shards) == [0, 1, 2, 3, 4]
    assert rows_of(shards) == expected_rows(LAYOUT)
    levels = {segment.path.rsplit("/", 1)[-1] for _, segments in shards for segment in segments}
    files = {path.name for path in tmp_path.iterdir()}
    assert len(files) >= {"files": 1, "small files": 3, "two levels of files": 6, "engine": 0}[name]
    if name == "two levels of files":
        assert levels - {""} < files


@pytest.mark.parametrize("way", ["files", "engine"])
@pytest.mark.parametrize("batches", [0, 1])
def test_a_shard_without_any_row_is_there(way: str, batches: int, tmp_path: Path) -> None:
    layout = Layout(5, 200, 0, 1)
    by = (
        ShuffleByFiles(layout, 0.0, str(tmp_path), SCHEMA)
        if way == "files"
        else ShuffleByEngine(layout, 0.0)
    )
    given = [examples()[0].slice(0, 9)][:batches]
    shards = shuffled(by, given)
    assert sorted(shard for shard, _ in shards) == list(range(200))
    assert sum(segment.rows for _, segments in shards for segment in segments) == 9 * batches


@given(of=st.integers(1, 5000), groups=st.integers(1, 300))
def test_neighbouring_buckets_share_a_group_and_groups_are_of_equal_size(
    of: int, groups: int
) -> None:
    groups = min(groups, of)
    given_groups = group_of(np.arange(of, dtype=np.uint32), groups, of)
    assert (np.diff(given_groups.astype(np.int64)) >= 0).all()
    sizes = np.bincount(given_groups, minlength=groups)
    assert len(sizes) == groups
    assert sizes.max() - sizes.min() <= 1


def test_a_buffer_has_as_many_groups_as_keep_segments_worth_reading() -> None:
    assert cut_groups(Layout(0, 8, 0, 1), 64 * 2**20) == 8
    assert cut_groups(Layout(0, 1000, 0, 4), 64 * 2**20) == 256
    assert cut_groups(Layout(0, 8, 0, 1), 1) == 1
