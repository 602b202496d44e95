import hashlib
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.bert import Bert, BertOptions
from corpusmill.formats.parquet import ParquetOptions
from corpusmill.placement import assign_splits
from corpusmill.spill import Layout, add_keys
from tests.corpusmill.builders import SPECIAL, batch_of, numbered_corpus, pool_of
from tests.transforms.local_pipeline import collect, local_pipeline, sums
from transforms.elements import Segment, WrittenShard
from transforms.tally import COUNTS
from transforms.write import SHARDS, WriteShards

BERT = Bert(BertOptions(max_seq_length=24, duplicates=3), SPECIAL, 2000, "int16")
CORPUS = numbered_corpus([[3 + place % 5, 4, 7, 2] for place in range(40)])


def examples() -> pa.RecordBatch:
    """All of one repeat, with their keys."""
    built = BERT.build(batch_of(CORPUS), 0, pool_of(CORPUS), np.zeros(len(CORPUS), np.uint8), 5)
    splits = assign_splits(5, built.column("document").to_numpy(), 0.0)
    return add_keys(built, Layout(5, 1, 0, 1).buckets(built, splits)[1])


def segment(shard: int, piece: int, rows: pa.RecordBatch) -> Segment:
    message = rows.serialize().to_pybytes()
    return Segment(shard, piece, rows.num_rows, "", 0, len(message), message)


def write(
    shards: list[tuple[int, list[Segment]]], layout: Layout, temp: Path
) -> tuple[list[WrittenShard], dict[str, int]]:
    with local_pipeline() as pipeline:
        gathered = pipeline | beam.Create(shards, reshuffle=False)
        written = gathered | WriteShards(BERT, ParquetOptions(), layout, str(temp))
        files, counts = collect(written[SHARDS]), collect(written[COUNTS])
    return sorted(files), sums(counts)


def test_segments_become_one_file_in_the_order_of_the_keys(tmp_path: Path) -> None:
    rows = examples()
    ascending = rows.take(pa.array(np.argsort(rows.column("key").to_numpy())))
    half = rows.num_rows // 2
    low, high = ascending.slice(0, half), ascending.slice(half)
    backwards = high.take(pa.array(np.arange(high.num_rows)[::-1]))
    given = [segment(0, 1, backwards), segment(0, 0, low.slice(5)), segment(0, 0, low.slice(0, 5))]
    nothing = Segment(0, 0, 0, "", 0, 0, b"")
    [shard], counts = write([(0, [*given, nothing])], Layout(5, 1, 0, 2), tmp_path)
    content = Path(shard.path).read_bytes()
    table = pq.read_table(shard.path)
    assert table.equals(pa.Table.from_batches([BERT.finish(ascending, padded=False)]))
    assert shard.bytes == len(content)
    assert shard.sha256 == hashlib.sha256(content).hexdigest()
    assert shard.rows == table.num_rows == counts["write.rows"]
    assert shard.tokens == sum(map(len, table.column("input_ids").to_pylist()))


def test_distributions_are_counted_split_by_split(tmp_path: Path) -> None:
    rows = examples()
    given = [(0, [segment(0, 0, rows.slice(0, 30))]), (1, [segment(1, 0, rows.slice(30))])]
    _, counts = write(given, Layout(5, 1, 1, 1), tmp_path)
    for split, part in (("train", rows.slice(0, 30)), ("validation", rows.slice(30))):
        lengths = [len(ids) for ids in part.column("input_ids").to_pylist()]
        for length in range(25):
            assert counts.get(f"write.{split}.length.{length}", 0) == lengths.count(length)
        labels = part.column("next_sentence_label").to_pylist()
        assert counts[f"write.{split}.next_sentence_label.1"] == sum(labels)


def test_a_shard_without_rows_is_a_file_without_rows(tmp_path: Path) -> None:
    nothing = Segment(0, 0, 0, "", 0, 0, b"")
    [shard], counts = write([(0, [nothing])], Layout(5, 1, 0, 1), tmp_path)
    table = pq.read_table(shard.path)
    assert (table.num_rows, shard.rows, shard.tokens) == (0, 0, 0)
    assert table.column_names == [column.name for column in BERT.columns]
    assert counts.get("write.rows", 0) == 0


def test_a_second_attempt_writes_a_file_of_its_own_with_the_same_bytes(tmp_path: Path) -> None:
    given = [(0, [segment(0, 0, examples())])]
    [first], _ = write(given, Layout(5, 1, 0, 1), tmp_path)
    [second], _ = write(given, Layout(5, 1, 0, 1), tmp_path)
    assert first.path != second.path
    assert first.sha256 == second.sha256
