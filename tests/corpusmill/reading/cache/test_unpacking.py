"""Every format and objective is unpacked to the rows that were built."""

import io
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column, Role
from corpusmill.dataset.manifest import Shard
from corpusmill.dataset.shards import read_manifest
from corpusmill.formats.output_options import OutputOptions, Padding
from corpusmill.location import locate
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.reading.cache.pieces import Piece
from corpusmill.reading.cache.unpacking import (
    batch_rows,
    load_piece,
    map_piece,
    unpack_batch,
    unpack_piece,
    warn_if_slow,
)
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import Lists, Values
from tests.tools.knobs import knobs, list_knobs
from tests.tools.manifests import INPUT_IDS
from tests.tools.shard_samples import Row, to_batch
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

ONE_SHARD = "train-00000-of-00001.parquet"
PADDED: Padding = "max_length"
RAGGED: Padding = "do_not_pad"
TABLES = [
    OutputOptions("parquet", RAGGED, "zstd"),
    OutputOptions("parquet", PADDED, "zstd"),
    OutputOptions("tfrecord", PADDED, "none"),
    OutputOptions("tfrecord", RAGGED, "gzip"),
    OutputOptions("avro", RAGGED, "deflate"),
    OutputOptions("avro", PADDED, "zstd"),
]
# A row at a time, and files that are compared in several blocks.
SMALL = {"unpacked_rows": 1, "most_unpacked_rows": 7, "unpacked_tokens": 100, "compared_bytes": 100}
USUAL = {name: list_knobs()[name].usual for name in SMALL}
WAYS = [
    # How a column is padded is the same in all formats, so that most objectives have some of them.
    *(("bert", options) for options in TABLES),
    *(("gpt_stream", options) for options in TABLES if options.padding == RAGGED),
    *(
        (name, options)
        for number, name in enumerate(OBJECTIVES)
        for options in TABLES[number % 3 :: 3]
        if name not in ("bert", "gpt_stream")
    ),
    # These know no objective.
    *(("bert", OutputOptions("parquet", RAGGED, codec)) for codec in ("snappy", "gzip", "none")),
    ("bert", OutputOptions("avro", RAGGED, "none")),
    ("gpt_stream", OutputOptions("megatron")),
    ("gpt_stream", OutputOptions("nanogpt")),
    ("ernie", OutputOptions("ernie-text")),
]


def describe(way: object) -> str:
    if isinstance(way, OutputOptions):
        return f"{way.output_format}-{way.padding}-{way.compression}"
    return str(way)


def rows_of(columns: dict[str, Values]) -> dict[str, list[Any]]:
    """Return each column as plain lists and numbers."""
    return {
        name: [row.tolist() for row in np.split(values.values, values.offsets[1:-1])]
        if isinstance(values, Lists) and len(values.offsets) > 1
        else [] if isinstance(values, Lists) else values.tolist()
        for name, values in columns.items()
    }  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, OutputOptions], Path]:
    """Return what writes a data set of an objective in a format, once."""

    @cache
    def write(name: str, output: OutputOptions) -> Path:
        folder = tmp_path_factory.mktemp("written") / name
        write_dataset(folder, Recipe(OBJECTIVES[name], output))
        return folder

    return write


@pytest.mark.parametrize(("name", "output"), WAYS, ids=describe)
def test_a_shard_of_any_format_is_unpacked_to_the_rows_that_were_built(
    name: str,
    output: OutputOptions,
    written: Callable[[str, OutputOptions], Path],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    folder = locate(str(written(name, output)))
    manifest = read_manifest(folder)
    shard = manifest.splits["train"].shards[-1]
    ragged = request.getfixturevalue(name)
    if len(manifest.splits["train"].shards) == 1:  # as that of nanoGPT
        ragged = tmp_path / "ragged"
        write_dataset(ragged, Recipe(OBJECTIVES[name], shards=1))
    built = pq.read_table(max(ragged.glob("train-*"))).to_pydict()
    piece = Piece(shard, 0, shard.rows)
    for number, values in enumerate((USUAL, SMALL)):
        target = tmp_path / str(number)
        target.mkdir()
        with knobs(**values):
            unpack_piece(folder, manifest, piece, target)
            mapped = map_piece(target, manifest.columns, shard.rows)
            loaded = load_piece(folder, manifest, piece)
        assert mapped is not None
        for columns in (mapped, loaded):
            assert rows_of(columns) == built
            for column in manifest.columns:
                cells = columns[column.name]
                assert (cells.values if isinstance(cells, Lists) else cells).dtype == column.dtype


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("gpt_stream", OutputOptions("parquet")),
        ("gpt_stream", OutputOptions("megatron")),
        ("gpt_stream", OutputOptions("avro")),
        ("gpt_stream", OutputOptions("tfrecord", RAGGED)),
        ("gpt_pack", OutputOptions("tfrecord")),
        ("gpt_pack", OutputOptions("parquet", PADDED)),
        ("ernie", OutputOptions("ernie-text")),
    ],
    ids=describe,
)
def test_shards_without_rows(
    name: str, output: OutputOptions, tmp_path: Path, cache_folder: Path
) -> None:
    few = ErnieOptions(max_seq_length=64, duplicates=1) if name == "ernie" else OBJECTIVES[name]
    shards = {"gpt_pack": 130, "ernie": 80}.get(name, 40)
    write_dataset(tmp_path / "out", Recipe(few, output, shards=shards))
    data = DataSet(tmp_path / "out", cache_folder=cache_folder)
    assert 0 in data.shard_sizes
    for shard in range(len(data.shard_sizes)):
        columns = data.cache.columns(shard)
        assert {len(rows) for rows in rows_of(columns).values()} == {data.shard_sizes[shard]}
    write_dataset(tmp_path / "whole", Recipe(few, shards=1))
    all_rows = data.take(np.arange(len(data))).lists("input_ids")
    table = pq.read_table(tmp_path / "whole" / ONE_SHARD)
    # Rows are packed differently in each shard, but all tokens are there.
    tokens = table.column("input_ids").combine_chunks().flatten().to_numpy()
    assert np.array_equal(np.sort(all_rows.values), np.sort(tokens))


TOKENS = Column("input_ids", "int16", "", 6, 0, role=Role.TOKEN_IDS)
TYPES = Column("token_type_ids", "int8", "", 6, role=Role.SEGMENTS)
PLACES = Column("masked_lm_positions", "int8", "", 3, role=Role.POSITIONS)
IDS = Column("masked_lm_ids", "int16", "", 3, role=Role.PREDICTED_IDS)
MARKS = Column("cu_seqlens", "int8", "", 7, role=Role.BOUNDARIES)
PIECES = (TOKENS, TYPES, PLACES, IDS, MARKS)


@st.composite
def padded_rows(draw: st.DrawFn) -> list[Row]:
    """Draw rows as objectives build them: the last token is not padding, nor place 0 predicted."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 5))):
        length = draw(st.integers(0, 6))
        ids = draw(st.lists(st.integers(0, 9), min_size=length, max_size=length))
        if ids:
            ids[-1] = draw(st.integers(1, 9))
        places = draw(st.sets(st.integers(1, length - 1), max_size=3)) if length > 1 else set()
        cuts = draw(st.sets(st.integers(1, length - 1), max_size=6)) if length > 1 else set()
        rows.append(
            {
                "input_ids": ids,
                "token_type_ids": [draw(st.integers(0, 1)) for _ in ids],
                "masked_lm_positions": sorted(places),
                # A predicted id may equal that of the padding.
                "masked_lm_ids": [draw(st.integers(0, 9)) for _ in places],
                "cu_seqlens": [0, *sorted(cuts), length] if length else [0],
            }
        )  # fmt: skip
    return rows


@given(padded_rows())
def test_padding_is_left_out(rows: list[Row]) -> None:
    unpacked = rows_of(unpack_batch(to_batch(rows, PIECES, padded=True), PIECES))
    assert unpacked == {column.name: [row[column.name] for row in rows] for column in PIECES}


def test_a_slice_of_rows_is_unpacked_as_the_rows_in_it() -> None:
    ragged = pa.RecordBatch.from_pydict({"input_ids": pa.array([[1, 2], [3], [], [4, 5]])})
    rows = unpack_batch(ragged.slice(1, 3), [INPUT_IDS])
    assert rows_of(rows) == {"input_ids": [[3], [], [4, 5]]}
    fixed = pa.array([[1, 2], [3, 0], [4, 5]], pa.list_(pa.int64(), 2))
    padded = pa.RecordBatch.from_arrays([fixed], names=["input_ids"])
    assert rows_of(unpack_batch(padded.slice(1, 2), [INPUT_IDS])) == {"input_ids": [[3], [4, 5]]}


def test_any_error_of_a_format_is_a_value_error(bert: Path, tmp_path: Path) -> None:
    """Unpacking converts all errors of a format's reader into one kind, of one line."""
    folder = locate(str(tmp_path))
    manifest = read_manifest(locate(str(bert)))
    shard = manifest.splits["train"].shards[0]
    sink = io.BytesIO()
    pq.write_table(pa.table({"input_ids": [1]}), sink)
    footer = b"PAR1" + b"\x1e" * 40 + (40).to_bytes(4, "little") + b"PAR1"
    for content in (b"", b"PAR1" * 9, sink.getvalue(), footer):
        (tmp_path / shard.file).write_bytes(content)
        with pytest.raises(ValueError, match=r"\A[ -~]+\Z"):
            unpack_piece(folder, manifest, Piece(shard, 0, shard.rows), tmp_path)


# What is said of a shard whose unpacking takes long


def shard_of(rows: int, tokens: int) -> Shard:
    values: dict[str, Any] = {"file": "train.parquet", "bytes": 1, "sha256": "0" * 64}
    return Shard(**values, rows=rows, tokens=tokens)


def unpack(seconds: float) -> None:
    """Unpack 10 batches of 100 rows, each in some seconds."""
    now = 0.0
    count_batch = warn_if_slow(Piece(shard_of(1000, 10_000), 0, 1000), 100, lambda: now)
    for _ in range(10):
        assert count_batch()
        now += seconds


def test_a_long_wait_is_explained_once() -> None:
    with warnings.catch_warnings(action="error"):
        unpack(1.0)
    with pytest.warns(UserWarning, match="rows are unpacked") as said:
        unpack(4.0)
    [warning] = said
    assert str(warning.message).startswith("train.parquet: rows are unpacked before")
    assert "30% of 1,000 rows in 12 s" in str(warning.message)
    assert "--num-shards" in str(warning.message)


@pytest.mark.usefixtures("usual_thresholds")
def test_short_rows_are_unpacked_in_larger_batches() -> None:
    tokens_of_rows = [(10, 10 * 512), (10, 10 * 5000), (10, 640), (10, 20), (0, 0)]
    sizes = [batch_rows(shard_of(rows, tokens)) for rows, tokens in tokens_of_rows]
    assert sizes == [1024, 1024, 8192, 65536, 1024]
