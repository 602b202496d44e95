import io
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.bert import Bert, BertOptions
from tests.tools.builders import SPECIAL, build_pass, numbered_corpus
from tests.tools.shard_samples import (
    ODD,
    Row,
    odd_rows,
    padding_options,
    to_batch,
    write_shard,
)

BERT = Bert(BertOptions(max_seq_length=40, max_predictions_per_seq=5), SPECIAL, 1000, "int16")
WIDTHS = {"input_ids": 40, "token_type_ids": 40, "masked_lm_positions": 5, "masked_lm_ids": 5}


CORPUS = numbered_corpus(
    [
        [1 + (7 * document + 5 * place) % 23 for place in range(document % 6 + 1)]
        for document in range(12)
    ]
)


@cache
def examples() -> pa.RecordBatch:
    """About 200 examples; some have an empty second segment."""
    return pa.concat_batches([build_pass(BERT, CORPUS, number) for number in range(10)])


def write(options: OutputOptions, groups: Iterable[pa.RecordBatch]) -> bytes:
    options = resolve(options, BERT.columns)
    finished = [BERT.finish(group, options.is_padded) for group in groups]
    return write_shard(finished, BERT.columns, options)


@pytest.fixture(params=[False, True], ids=["ragged", "padded"])
def padded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def groups_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the rows in groups of 64."""
    return cut_into_groups([batch], "input_ids", 64, 2**24)


@pytest.fixture
def shard(tmp_path: Path, padded: bool) -> Path:
    path = tmp_path / "train-00000-of-00001.parquet"
    path.write_bytes(write(padding_options(padded), groups_of(examples())))
    return path


def expected_rows(padded: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = BERT.finish(examples(), padded).to_pylist()
    return rows


# Readers


def test_pyarrow_reads_what_was_written(shard: Path, padded: bool) -> None:
    table = pq.read_table(shard)
    assert table.to_pylist() == expected_rows(padded)
    for name, width in WIDTHS.items():
        kind = table.schema.field(name).type
        assert pa.types.is_fixed_size_list(kind) == padded
        assert kind.value_type == (
            pa.int16() if name in {"input_ids", "masked_lm_ids"} else pa.int8()
        )
        assert not padded or kind.list_size == width


def test_other_programs_read_what_was_written(
    shard: Path, padded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = expected_rows(padded)
    assert duckdb.from_parquet(str(shard)).to_arrow_table().to_pylist() == expected
    assert pl.read_parquet(shard).to_dicts() == expected
    frame = pd.read_parquet(shard)
    assert list(frame.columns) == [column.name for column in BERT.columns]
    for row, values in zip(frame.to_dict("records"), expected, strict=True):
        assert {name: np.asarray(value).tolist() for name, value in row.items()} == values
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets  # noqa: PLC0415 - it reads its settings when it is imported

    loaded = datasets.load_dataset(
        "parquet", data_files=str(shard), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.to_list() == expected


@given(odd_rows(), st.booleans())
def test_arrow_reads_the_rows_and_the_exact_types(rows: list[Row], padded: bool) -> None:
    batches = [to_batch(rows, ODD, padded), to_batch(rows * 3, ODD, padded)]
    options = resolve(padding_options(padded), ODD)
    written = pq.ParquetFile(io.BytesIO(write_shard(batches, ODD, options)))
    assert written.schema_arrow.equals(arrow_schema(ODD, padded), check_metadata=True)
    assert written.read().equals(pa.Table.from_batches(batches))


def test_lists_may_be_empty_and_pages_many() -> None:
    """Rows of no values, of some, and of more than a page."""
    columns = (Column("ids", "uint16", "", -1), Column("scores", "float32", "", -1))
    draw = np.random.default_rng(1)
    lengths = np.array([0, 0, 3, 300_000, 0, *draw.integers(0, 40, 20_000), 0])
    offsets = np.cumsum([0, *lengths])
    values = (draw.integers(0, 65536, offsets[-1]), draw.random(offsets[-1]))
    arrays = [
        ragged.to_arrow(numbers.astype(column.dtype), offsets)
        for column, numbers in zip(columns, values, strict=True)
    ]
    rows = ragged.to_batch(arrays, arrow_schema(columns))
    options = resolve(OutputOptions(), columns)
    written = write_shard([rows], columns, options)
    assert pq.read_table(io.BytesIO(written)).equals(pa.Table.from_batches([rows]))
    read = FORMATS["parquet"].read([io.BytesIO(written)], columns, options, 8192, 2**19)
    assert pa.Table.from_batches(read).equals(pa.Table.from_batches([rows]))


@pytest.mark.parametrize("dtype", ["bool", "float16"])
def test_values_that_are_no_streams_are_refused(dtype: str) -> None:
    with pytest.raises(UserError, match=f"the column odd has the type {dtype}"):
        resolve(OutputOptions(), (Column("odd", dtype, "", 3),))


# Bytes


@given(st.lists(st.integers(0, 300), max_size=8), st.booleans())
def test_bytes_do_not_show_how_the_rows_arrived(cuts: list[int], padded: bool) -> None:
    edges = [0, *sorted(min(place, examples().num_rows) for place in cuts), examples().num_rows]
    parts = [examples().slice(start, stop - start) for start, stop in pairwise(edges)]
    options = padding_options(padded)
    groups = [pa.concat_batches([group]) for group in groups_of(examples())]
    assert write(options, cut_into_groups(parts, "input_ids", 64, 2**24)) == write(options, groups)


def test_where_pages_end_does_not_depend_on_the_slice() -> None:
    """The rows fill several pages; they are a whole batch, and the end of a larger one."""
    rows = pa.concat_batches([examples()] * 40)
    larger = pa.concat_batches([examples().slice(0, 77), rows])
    assert write(OutputOptions(), [rows]) == write(OutputOptions(), [larger.slice(77)])


class OnlyWritten(io.RawIOBase):
    """A stream that can only be written to, like an object store's."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: "memoryview | bytes") -> int:  # type: ignore[override]
        self.data += data
        return len(data)


def test_the_stream_is_only_written_to() -> None:
    stream = OnlyWritten()
    options = resolve(OutputOptions(), BERT.columns)
    writer = FORMATS["parquet"].open_writer([stream], BERT.columns, options)
    writer.write(BERT.finish(examples(), False))
    writer.close()
    assert not stream.closed
    assert bytes(stream.data) == write(OutputOptions(), [examples()])


# Options


@pytest.mark.parametrize(
    ("codec", "stored"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("none", "UNCOMPRESSED")]
)
def test_compression(codec: Literal["zstd", "snappy", "none"], stored: str) -> None:
    data = write(OutputOptions(compression=codec), [examples()])
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {stored}
    assert pq.read_table(io.BytesIO(data)).to_pylist() == expected_rows(padded=False)


def test_a_higher_level_compresses_more() -> None:
    rows = pa.concat_batches([examples()] * 20)
    fast, small = (len(write(OutputOptions(compression_level=level), [rows])) for level in (1, 19))
    assert small < fast


def test_every_column_has_encodings_that_all_readers_have() -> None:
    """Old readers, and some new ones, have no others than PLAIN and RLE_DICTIONARY."""
    group = group_of(write(OutputOptions(), [pa.concat_batches([examples()] * 40)]))
    encodings = {name: {*chunk.encodings} for name, chunk in group.items()}
    assert encodings == {name: {"PLAIN", "RLE", "RLE_DICTIONARY"} for name in group}
    few = group_of(write(OutputOptions(), [examples().slice(0, 2)]))
    assert {*few["next_sentence_label"].encodings} == {"PLAIN", "RLE"}


def group_of(data: bytes) -> dict[str, pq.ColumnChunkMetaData]:
    """Return the columns of the first row group."""
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    return {chunk.path_in_schema.split(".")[0]: chunk for chunk in chunks}


def test_columns_of_one_integer_a_row_tell_their_smallest_and_largest() -> None:
    group = group_of(write(OutputOptions(), [examples()]))
    told = group["next_sentence_label"].statistics
    assert (told.min, told.max, told.null_count) == (0, 1, 0)
    assert [name for name, chunk in group.items() if chunk.is_stats_set] == ["next_sentence_label"]


def test_smallest_and_largest_values_of_any_type() -> None:
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"):
        columns = (Column("own", dtype, ""),)
        limits = np.iinfo(dtype)
        values = pa.array(np.array([limits.max, 1, limits.min], dtype))
        rows = pa.RecordBatch.from_arrays([values], schema=arrow_schema(columns))
        data = write_shard([rows], columns, resolve(OutputOptions(), columns))
        told = group_of(data)["own"].statistics
        assert (told.min, told.max) == (limits.min, limits.max)
        assert pq.read_table(io.BytesIO(data)).equals(pa.Table.from_batches([rows]))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32", "float64"])
def test_values_that_recur_are_read_as_they_were_written(dtype: str) -> None:
    for kinds in (1, 2, 3, 300, 70_000):
        check_values_that_recur(dtype, kinds)


def check_values_that_recur(dtype: str, kinds: int) -> None:
    columns = (Column("own", dtype, "", -1), Column("other", dtype, ""))
    draw = np.random.default_rng(kinds)
    values = draw.integers(0, kinds, 6 * kinds).astype(dtype)
    offsets = np.concatenate([[0], np.sort(draw.integers(0, len(values), 99)), [len(values)]])
    arrays = [
        ragged.to_arrow(values, offsets),
        values[:100] if kinds > 99 else values[:1].repeat(100),
    ]
    rows = ragged.to_batch(arrays, arrow_schema(columns))
    data = write_shard([rows], columns, resolve(OutputOptions(), columns))
    assert pq.read_table(io.BytesIO(data)).equals(pa.Table.from_batches([rows]))
    assert pl.read_parquet(io.BytesIO(data)).to_dicts() == rows.to_pylist()
