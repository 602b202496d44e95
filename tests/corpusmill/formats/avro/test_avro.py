"""Avro against fastavro's reader."""

import io
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column
from corpusmill.errors import UserError
from corpusmill.formats.avro import decode_rows, schema_of
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from tests.tools.shard_samples import (
    BERT,
    ODD,
    Row,
    assert_read_as_written,
    bert_batch,
    odd_rows,
    options_of,
    read_shard,
    to_batch,
    write_shard,
)

CODECS = ["deflate", "zstd", "none"]
all_codecs = pytest.mark.parametrize("compression", CODECS)

# The names in a schema are ASCII.
NAMED = (*ODD[:3], Column("last", "uint16", "", 2, 7))


def rename(rows: list[Row]) -> list[Row]:
    return [{"last" if name == "α" else name: value for name, value in row.items()} for row in rows]


# What is written


@given(odd_rows(), st.booleans(), st.sampled_from(CODECS))
def test_any_number_is_read_by_fastavro(rows: list[Row], padded: bool, codec: Any) -> None:
    batch = to_batch(rename(rows), NAMED, padded)
    written = write_shard([batch], NAMED, options_of("avro", padded, codec))
    assert list(fastavro.reader(io.BytesIO(written))) == batch.to_pylist()


@given(odd_rows())
def test_rows_are_byte_for_byte_what_fastavro_writes(rows: list[Row]) -> None:
    rows = rename(rows)
    schema = fastavro.parse_schema(schema_of(NAMED))
    expected = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(expected, schema, row)
    batch = to_batch(rows, NAMED, False)
    written = write_shard([batch], NAMED, options_of("avro", False, "none"))
    blocks: Iterable[Any] = fastavro.block_reader(io.BytesIO(written))
    assert b"".join(block.bytes_.getvalue() for block in blocks) == expected.getvalue()


def test_polars_reads_what_was_written() -> None:
    batch = bert_batch(300, False)
    written = write_shard([batch], BERT, options_of("avro", False, "deflate"))
    assert pl.read_avro(io.BytesIO(written)).to_dicts() == batch.to_pylist()


def test_the_schema_is_made_from_the_columns() -> None:
    types = {field["name"]: field["type"] for field in schema_of(NAMED)["fields"]}
    assert types == {
        "seg_labels": {"type": "array", "items": "int"},
        "wide": {"type": "array", "items": "long"},
        "unsigned": "long",
        "last": {"type": "array", "items": "int"},
    }


def test_a_wide_row_makes_small_blocks() -> None:
    columns = (Column("input_ids", "int16", "tokens", 2**16),)
    rows: list[Row] = [{"input_ids": [7] * 2**16} for _ in range(10)]
    written = write_shard(
        [to_batch(rows, columns, False)], columns, options_of("avro", False, "none")
    )
    blocks = [block.num_records for block in fastavro.block_reader(io.BytesIO(written))]
    assert blocks == [4, 4, 2]


@all_codecs
def test_the_mark_between_blocks_is_the_same_each_time(compression: Any) -> None:
    options = options_of("avro", False, compression)
    batch = bert_batch(300, False)
    written = write_shard([batch], BERT, options)
    assert write_shard([bert_batch(310, False).slice(0, 0), batch], BERT, options) == written
    other = write_shard([batch], BERT[:2], options)
    assert written[-16:] != other[-16:]


def test_rows_keep_their_lengths_by_default() -> None:
    options = resolve(OutputOptions("avro"), BERT)
    assert not options.is_padded
    assert options.compression == "deflate"
    assert FORMATS["avro"].suffixes(options) == (".avro",)


def test_columns_and_codecs_that_avro_lacks_are_refused() -> None:
    for name, dtype, cause in (
        ("score", "float32", "score has the type float32"),
        ("α", "int8", "α cannot be the name"),
    ):
        with pytest.raises(UserError, match=cause):
            resolve(OutputOptions("avro"), (*BERT, Column(name, dtype, "")))
    codec: Any
    for codec in ("gzip", "snappy"):
        with pytest.raises(UserError, match=f"{codec}.*deflate, zstd, none"):
            resolve(OutputOptions("avro", compression=codec), BERT)


# What is read


@given(odd_rows(), st.booleans(), st.sampled_from(CODECS))
def test_any_number_is_read_as_it_was_written(rows: list[Row], padded: bool, codec: Any) -> None:
    options = options_of("avro", padded, codec)
    batch = to_batch(rename(rows), NAMED, padded)
    assert_read_as_written([batch], NAMED, options)


def test_what_fastavro_writes_is_read() -> None:
    options = options_of("avro", False)
    batch = bert_batch(300, False)
    sink = io.BytesIO()
    fastavro.writer(sink, schema_of(BERT), batch.to_pylist(), codec="deflate", sync_interval=500)
    assert read_shard(sink.getvalue(), BERT, options).equals(pa.Table.from_batches([batch]))


def test_arrays_in_several_blocks_are_read() -> None:
    # [5], then a block that says its size, -2 numbers in 2 bytes; and a column of one number.
    data = np.frombuffer(bytes([2, 10, 3, 4, 1, 2, 0, 14]), np.uint8)
    values, starts, ends, damaged = decode_rows(data, 1, np.array([True, False]))
    assert values.tolist() == [5, -1, 1, 7]
    assert starts.tolist() == [[0], [3]]
    assert ends.tolist() == [[3], [4]]
    assert damaged == -1


def test_a_damaged_row_is_found() -> None:
    for data, damaged in (
        (b"\x02\x0a\x00\x0e\x0e", 1),  # a byte after the last row
        (b"\x02\x0a\x00", 0),  # the last number is missing
        (b"\x02\x80", 0),  # a number without an end
        (b"\x7e\x0a", 0),  # 63 items in one byte
        (b"\xff" * 11, 0),  # a number of eleven bytes
    ):
        decoded = decode_rows(np.frombuffer(data, np.uint8), 1, np.array([True, False]))
        assert decoded[3] == damaged


@given(st.data())
def test_a_file_that_ends_early_is_found(data: st.DataObject) -> None:
    options = options_of("avro", False)
    written = write_shard([bert_batch(20, False)], BERT, options)
    # A file may end after the header, and must end after its only block.
    header = len(write_shard([], BERT, options))
    end = data.draw(st.integers(0, len(written) - 1).filter(lambda place: place != header))
    with pytest.raises(ValueError, match=r"damaged|too-large"):
        read_shard(written[:end], BERT, options)


@all_codecs
@given(data=st.data())
def test_a_changed_byte_gives_no_other_error(compression: Any, data: st.DataObject) -> None:
    options = options_of("avro", True, compression)
    written = bytearray(write_shard([bert_batch(20, True)], BERT, options))
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    # Avro has no checksums; those of the manifest find every change.
    with suppress(ValueError, OSError):
        read_shard(bytes(written), BERT, options)


def test_another_schema_or_codec_is_described() -> None:
    written = write_shard([bert_batch(5, False)], BERT, options_of("avro", False, "none"))
    with pytest.raises(ValueError, match="its codec is null, the manifest says deflate"):
        read_shard(written, BERT, options_of("avro", False))
    with pytest.raises(ValueError, match="it has the schema"):
        read_shard(written, BERT[:2], options_of("avro", False, "none"))


def test_a_number_that_the_column_lacks_is_described() -> None:
    narrow = (Column("n", "int8", ""),)
    wide = (Column("n", "int16", ""),)
    batch = to_batch([{"n": 300}], wide, False)
    options = options_of("avro", False)
    with pytest.raises(ValueError, match="n holds 300, which does not fit int8"):
        read_shard(write_shard([batch], wide, options), narrow, options)
