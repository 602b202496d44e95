"""Files on both sides of each size at which they are written or read in another way."""

import io
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, arrow_schema
from corpusmill.arrays.ragged import chunk_rows
from corpusmill.formats.output_options import Compression, OutputOptions
from corpusmill.formats.parquet import PagesWriter
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.layout.sorting import cut_into_groups
from tests.tools.knobs import knobs
from tests.tools.shard_samples import BERT, bert_batch, options_of

TOKENS = (Column("input_ids", "int16", "tokens", ANY_LENGTH, role=Role.TOKEN_IDS),)


def write(
    output_format: str, batch: pa.RecordBatch, compression: Compression | None = None
) -> bytes:
    """Return a shard of BERT's rows."""
    stream, options = io.BytesIO(), options_of(output_format, False, compression)
    shard_format = FORMATS[output_format]
    writer = shard_format.open_writer([stream], BERT, options)
    for group in cut_into_groups([batch], "input_ids", shard_format.group_rows, 2**24):
        writer.write(group)
    writer.close()
    return stream.getvalue()


def read(output_format: str, content: bytes, **options: Any) -> pa.Table:
    resolved = options_of(output_format, False, **options)
    shard_format = FORMATS[output_format]
    batches = shard_format.read([io.BytesIO(content)], BERT, resolved, 8192)
    return pa.Table.from_batches(batches, arrow_schema(BERT))


def test_row_groups_end_at_a_number_of_rows() -> None:
    for rows in (99, 100, 101, 200, 201):
        batch = bert_batch(rows, False)
        with knobs(group_rows=100):
            content = write("parquet", batch)
            assert read("parquet", content).equals(pa.Table.from_batches([batch]))
        metadata = pq.ParquetFile(io.BytesIO(content)).metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        assert sizes == [100] * (rows // 100) + [rows % 100] * bool(rows % 100)
        assert read("parquet", content).equals(pa.Table.from_batches([batch]))


def test_more_rows_than_a_group_can_have_are_refused() -> None:
    with knobs(group_rows=101):
        content = write("parquet", bert_batch(101, False))
        assert read("parquet", content).num_rows == 101
    # The lists of 101 rows hold more values than 9 rows can have.
    with knobs(group_rows=9), pytest.raises(ValueError, match="its row group has at most"):
        read("parquet", content)


def test_pages_of_any_size_hold_the_same_rows() -> None:
    batch = bert_batch(150, False)
    usual = write("parquet", batch)
    for page_values in (1, 11, 12, 13, 100, 2**18):
        with knobs(page_values=page_values):
            content = write("parquet", batch)
        assert read("parquet", content).equals(pa.Table.from_batches([batch]))
        assert (content == usual) == (page_values >= 2**18)


def test_groups_are_copied_in_blocks_of_any_size() -> None:
    content = write("parquet", bert_batch(150, False))
    options = options_of("parquet", False)
    [group] = FORMATS["parquet"].list_groups([io.BytesIO(content)], BERT, options)
    size = len(content)
    for copied_group_bytes in (1, 7, 100, size, size + 1):
        sink = io.BytesIO()
        writer = PagesWriter(sink, BERT, options)
        with knobs(copied_group_bytes=copied_group_bytes):
            group.copy_to(writer)
        writer.close()
        assert sink.getvalue() == content


def test_records_are_read_any_number_at_a_time() -> None:
    batch = bert_batch(150, False)
    codecs: tuple[Compression, ...] = ("none", "gzip")
    for codec in codecs:
        content = write("tfrecord", batch, codec)
        for record_bytes in (1, 50, 100, 10**6):
            with knobs(record_bytes=record_bytes):
                table = read("tfrecord", content, compression=codec)
            assert table.equals(pa.Table.from_batches([batch]))


# A stream is written in groups of 1,024 documents at most.
@pytest.mark.parametrize(("group_rows", "most"), [(1023, 1023), (1024, 1024), (1025, 1024)])
def test_streams_are_written_some_documents_at_a_time(group_rows: int, most: int) -> None:
    shard_format = FORMATS["megatron"]
    with knobs(group_rows=group_rows):
        assert shard_format.group_rows == most
    rows = 2100
    batch = ragged.to_batch(
        [ragged.to_arrow(np.arange(rows, dtype=np.int16), np.arange(rows + 1))],
        arrow_schema(TOKENS),
    )
    options = resolve(OutputOptions("megatron"), TOKENS)
    files = []
    for groups in ([batch], cut_into_groups([batch], "input_ids", most, 2**24)):
        streams = [io.BytesIO(), io.BytesIO()]
        writer = shard_format.open_writer(streams, TOKENS, options)
        for group in groups:
            writer.write(group)
        writer.close()
        files.append([stream.getvalue() for stream in streams])
    assert files[0] == files[1]


# BERT's rows have up to 31 numbers.
@pytest.mark.parametrize(("chunk_numbers", "rows"), [(1, 1), (61, 1), (62, 2), (63, 2), (93, 3)])
def test_numbers_are_encoded_some_rows_at_a_time(chunk_numbers: int, rows: int) -> None:
    batch = bert_batch(50, False)
    table = pa.Table.from_batches([batch])
    with knobs(chunk_numbers=chunk_numbers):
        assert chunk_rows(BERT) == rows
        content, records = write("avro", batch), write("tfrecord", batch)
        assert read("avro", content).equals(table)
        assert read("tfrecord", records).equals(table)
    sizes = [block.num_records for block in fastavro.block_reader(io.BytesIO(content))]
    assert sizes == [rows] * (50 // rows) + [50 % rows] * bool(50 % rows)
    assert read("avro", content).equals(table)
    if rows > 1:
        with knobs(chunk_numbers=1), pytest.raises(ValueError, match=r"a block claims"):
            read("avro", content)
    assert records == write("tfrecord", batch)
