"""The files of shards, compared with the rows that the library builds for them."""

import hashlib
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.dataset.shards import write_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.placement import Layout, assign_splits
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.random_documents import ARRAYS, Pool
from corpusmill.tokenization.encoding import tokenized_schema
from tests.tools.builders import SPECIAL, batch_of, numbered_corpus, pool_of, split_corpus
from tests.tools.knobs import knobs
from transforms.build import SHARDS, BuildShards, ShardOptions
from transforms.corpus.pool import files_of_pool, write_checksums
from transforms.elements import Segment, WrittenFile
from transforms.recovery import Run, Workplace, begin_run
from transforms.shard_files import FileNames
from transforms.shuffle.spill import Spill
from transforms.storage.checksums import ChecksumWriter
from transforms.tally import COUNTS
from transforms.testing import collect, local_pipeline, sums

BERT = Bert(BertOptions(max_seq_length=24, duplicates=5), SPECIAL, 2000, "int16")
CORPUS = numbered_corpus([[3 + place % 5, 4, 7, 2] for place in range(40)])
SHARE = 0.25
LAYOUT = Layout(5, 3, 1)
NAMES = FileNames(1, LAYOUT, (".parquet",), {}, None, ())
NOTHING = Segment(0, 0, "", 0, 0, 0)


def splits_of(documents: pa.RecordBatch) -> np.ndarray:
    return assign_splits(LAYOUT.seed, documents.column("document").to_numpy(), SHARE)


@pytest.fixture
def pool() -> Pool:
    return pool_of(*split_corpus(CORPUS, LAYOUT.seed, SHARE))


def save(pool: Pool, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    files = [ChecksumWriter(path) for path in files_of_pool(str(folder))]
    for file, name in zip(files, ARRAYS, strict=True):
        with file:
            np.save(file, getattr(pool, name))
    write_checksums(str(folder), [file.part for file in files])
    return str(folder)


def segments_of(shard: int, pieces: int, temp: Path) -> list[Segment]:
    """Return the segments of a shard, with the documents of each home in several pieces."""
    whole = batch_of(CORPUS)
    homes = LAYOUT.homes(whole.column("document").to_numpy(), splits_of(whole))
    spill = Spill(str(temp), buffer_bytes=1)
    for home in range(LAYOUT.shards):
        if LAYOUT.split_of(home) == LAYOUT.split_of(shard):
            of_home = np.flatnonzero(homes == home)
            parts = [part for part in np.array_split(of_home, pieces) if len(part)]
            for part in parts:
                spill.add(whole.take(pa.array(part)), np.full(len(part), home, np.uint32))
    return [NOTHING, *spill.segments]


def rows_of(shard: int, pool: Pool) -> pa.RecordBatch:
    """Return the rows of a shard in order: those of each repeat that belongs to it."""
    whole = batch_of(CORPUS)
    homes = LAYOUT.homes(whole.column("document").to_numpy(), splits_of(whole)).tolist()
    built = []
    for repeat in range(BERT.repeats):
        here = [shard == LAYOUT.shards_of(home, 5)[repeat % len(LAYOUT.shards_of(home, 5))]
                for home in homes]  # fmt: skip
        documents = whole.filter(pa.array(here))
        built.append(BERT.build(documents, Repeat(repeat, pool, splits_of(documents), LAYOUT.seed)))
    keyed = [add_keys(examples, LAYOUT.seed) for examples in built]
    return pa.concat_batches(sort_rows(keyed, 1000))


def write(
    shards: list[tuple[int, list[Segment]]], pool: Pool, temp: Path
) -> tuple[list[WrittenFile], dict[str, int]]:
    place = Workplace(str(temp / "temp"), str(temp / "out"), 1, "mine")
    for folder in (Path(place.temp_folder), Path(place.scratch)):
        folder.mkdir(parents=True, exist_ok=True)
    begin_run(place.folder, Run("mine"))
    with local_pipeline() as pipeline:
        path = pipeline | "Pool" >> beam.Create([save(pool, temp / "pool")])
        gathered = pipeline | "Shards" >> beam.Create(shards, reshuffle=False)
        output, schema = resolve(OutputOptions(), BERT.columns), tokenized_schema("int16")
        written = gathered | BuildShards(
            ShardOptions(BERT, output, LAYOUT, NAMES, schema, place), path
        )
        files, counts = collect(written[SHARDS]), collect(written[COUNTS])
    return sorted(files), sums(counts)


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_shard_holds_the_examples_of_its_repeats_in_the_order_of_their_keys(
    pieces: int, pool: Pool, tmp_path: Path
) -> None:
    shards = [(shard, segments_of(shard, pieces, tmp_path)) for shard in range(LAYOUT.shards)]
    written, counts = write(shards, pool, tmp_path)
    for shard in written:
        expected = BERT.finish(rows_of(shard.shard, pool), padded=False)
        content = Path(shard.path).read_bytes()
        table = pq.read_table(shard.path)
        assert table.equals(pa.Table.from_batches([expected]))
        assert shard.bytes == len(content)
        assert shard.sha256 == hashlib.sha256(content).hexdigest()
        assert shard.rows == table.num_rows > 0
        assert shard.tokens == sum(map(len, table.column("input_ids").to_pylist()))
    assert counts["build.passes"] == 5 * len(CORPUS)
    assert counts["build.examples"] == counts["write.rows"] == sum(shard.rows for shard in written)


def test_what_a_shard_has_freed_is_returned_before_its_rows_are_written_and_before_the_next_one(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[str] = []
    allocator = SimpleNamespace(release_unused=lambda: returned.append("freed"))
    monkeypatch.setattr(pa, "default_memory_pool", lambda: allocator)
    shards = [(shard, segments_of(shard, 1, tmp_path)) for shard in range(3)]
    write(shards, pool, tmp_path)
    assert returned == ["freed"] * 6


def test_distributions_are_counted_split_by_split(pool: Pool, tmp_path: Path) -> None:
    shards = [(shard, segments_of(shard, 1, tmp_path)) for shard in (1, 3)]
    _, counts = write(shards, pool, tmp_path)
    for split, shard in (("train", 1), ("validation", 3)):
        rows = rows_of(shard, pool)
        lengths = [len(ids) for ids in rows.column("input_ids").to_pylist()]
        for length in range(25):
            assert counts.get(f"write.{split}.length.{length}", 0) == lengths.count(length)
        labels = rows.column("next_sentence_label").to_pylist()
        assert counts[f"write.{split}.next_sentence_label.1"] == sum(labels) > 0


def test_a_shard_without_documents_is_a_file_without_rows(pool: Pool, tmp_path: Path) -> None:
    [shard], counts = write([(0, [NOTHING])], pool, tmp_path)
    table = pq.read_table(shard.path)
    assert (table.num_rows, shard.rows, shard.tokens) == (0, 0, 0)
    assert table.column_names == [column.name for column in BERT.columns]
    assert counts.get("write.rows", 0) == 0


def test_a_second_attempt_writes_the_same_bytes_under_the_same_name(
    pool: Pool, tmp_path: Path
) -> None:
    shards = [(0, segments_of(0, 1, tmp_path))]
    [first], counts = write(shards, pool, tmp_path)
    # What is finished is not done again, as long as it is whole.
    assert write(shards, pool, tmp_path) == ([first], counts)
    Path(first.path).write_bytes(b"")
    [second], again = write(shards, pool, tmp_path)
    assert first == second
    assert counts == again
    assert Path(first.path).name == "train-00000-of-00003.parquet"


def test_groups_written_by_a_thread_have_the_bytes_of_those_that_are_not(pool: Pool) -> None:
    rows, options = rows_of(0, pool), resolve(OutputOptions(), BERT.columns)
    contents = set()
    for few_rows in (1, 7, 8, 9, 1024):
        sink = BytesIO()
        with knobs(group_rows=8, threaded_rows=few_rows):
            groups = write_shard(BERT, options, [sink], iter([rows]))
            assert sum(group.rows.num_rows for group in groups) == rows.num_rows
        contents.add(sink.getvalue())
    assert rows.num_rows % 8
    assert len(contents) == 1
