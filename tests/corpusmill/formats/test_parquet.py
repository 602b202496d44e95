import hashlib
import io
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.bert import Bert, BertOptions
from tests.tools.builders import SPECIAL, batch_of, numbered_corpus, pool_of
from tests.tools.shard_samples import padding_options

BERT = Bert(BertOptions(max_seq_length=40, max_predictions_per_seq=5), SPECIAL, 1000, "int16")
WIDTHS = {"input_ids": 40, "token_type_ids": 40, "masked_lm_positions": 5, "masked_lm_ids": 5}


def make_examples() -> pa.RecordBatch:
    """About 200 examples; some have an empty second segment."""
    corpus = numbered_corpus(
        [
            [1 + (7 * document + 5 * place) % 23 for place in range(document % 6 + 1)]
            for document in range(12)
        ]
    )
    splits = np.zeros(len(corpus), np.uint8)
    passes = [
        BERT.build(batch_of(corpus), repeat, pool_of(corpus), splits, 1) for repeat in range(10)
    ]
    return pa.concat_batches(passes)


EXAMPLES = make_examples()


def write_shard(options: OutputOptions, groups: list[pa.RecordBatch]) -> bytes:
    stream = io.BytesIO()
    options = resolve(options, BERT.columns)
    writer = FORMATS["parquet"].open_writer([stream], BERT.columns, options)
    for group in groups:
        writer.write(BERT.finish(group, options.is_padded))
    writer.close()
    assert not stream.closed
    return stream.getvalue()


@pytest.fixture(params=[False, True], ids=["ragged", "padded"])
def padded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def shard(tmp_path: Path, padded: bool) -> Path:
    path = tmp_path / "train-00000-of-00001.parquet"
    path.write_bytes(
        write_shard(
            padding_options(padded),
            list(cut_into_groups([EXAMPLES], 64)),
        )
    )
    return path


def expected_rows(padded: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = BERT.finish(EXAMPLES, padded).to_pylist()
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


def test_pandas_reads_what_was_written(shard: Path, padded: bool) -> None:
    frame = pd.read_parquet(shard)
    assert list(frame.columns) == [column.name for column in BERT.columns]
    for row, expected in zip(frame.to_dict("records"), expected_rows(padded), strict=True):
        assert {name: np.asarray(value).tolist() for name, value in row.items()} == expected


def test_polars_reads_what_was_written(shard: Path, padded: bool) -> None:
    assert pl.read_parquet(shard).to_dicts() == expected_rows(padded)


def test_datasets_reads_what_was_written(
    shard: Path, padded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets  # noqa: PLC0415 - it reads its settings when it is imported

    loaded = datasets.load_dataset(
        "parquet", data_files=str(shard), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.to_list() == expected_rows(padded)


# Bytes


@given(st.lists(st.integers(0, 300), max_size=8), st.booleans())
def test_bytes_do_not_show_how_the_rows_arrived(cuts: list[int], padded: bool) -> None:
    edges = [0, *sorted(min(place, EXAMPLES.num_rows) for place in cuts), EXAMPLES.num_rows]
    parts = [EXAMPLES.slice(start, stop - start) for start, stop in pairwise(edges)]
    options = padding_options(padded)
    expected = write_shard(
        options, [pa.concat_batches([group]) for group in cut_into_groups([EXAMPLES], 64)]
    )
    assert write_shard(options, list(cut_into_groups(parts, 64))) == expected


def test_where_pages_end_does_not_depend_on_the_slice() -> None:
    """The rows fill several pages; they are a whole batch, and the end of a larger one."""
    rows = pa.concat_batches([EXAMPLES] * 40)
    larger = pa.concat_batches([EXAMPLES.slice(0, 77), rows])
    digests = {
        hashlib.sha256(write_shard(OutputOptions(), [group])).hexdigest()
        for group in (rows, larger.slice(77))
    }
    assert len(digests) == 1


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65])
def test_row_groups_are_the_groups_written(rows: int, padded: bool) -> None:
    data = write_shard(
        padding_options(padded),
        list(cut_into_groups([EXAMPLES.slice(0, rows)], 64)),
    )
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [
        min(64, rows - start) for start in range(0, rows, 64)
    ]
    assert pq.read_table(io.BytesIO(data)).num_rows == rows


def test_an_empty_group_can_be_written() -> None:
    data = write_shard(OutputOptions(), [EXAMPLES.slice(0, 0)])
    assert pq.read_table(io.BytesIO(data)).num_rows == 0


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
    writer.write(BERT.finish(EXAMPLES, False))
    writer.close()
    assert not stream.closed
    assert bytes(stream.data) == write_shard(OutputOptions(), [EXAMPLES])


# Options


@pytest.mark.parametrize(
    ("codec", "stored"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("none", "UNCOMPRESSED")]
)
def test_compression(codec: Literal["zstd", "snappy", "none"], stored: str) -> None:
    data = write_shard(OutputOptions(compression=codec), [EXAMPLES])
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {stored}
    assert pq.read_table(io.BytesIO(data)).to_pylist() == expected_rows(padded=False)


def test_a_higher_level_compresses_more() -> None:
    rows = pa.concat_batches([EXAMPLES] * 20)
    fast, small = (
        len(write_shard(OutputOptions(compression_level=level), [rows])) for level in (1, 19)
    )
    assert small < fast


def test_every_column_is_a_stream_of_bytes_without_statistics() -> None:
    group = pq.ParquetFile(io.BytesIO(write_shard(OutputOptions(), [EXAMPLES]))).metadata.row_group(
        0
    )
    columns = {}
    for place in range(group.num_columns):
        column = group.column(place)
        assert not column.is_stats_set
        columns[column.path_in_schema.split(".")[0]] = column.encodings
    assert all("BYTE_STREAM_SPLIT" in encodings for encodings in columns.values())
