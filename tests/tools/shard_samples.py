"""Rows of several tables of columns, for tests of file formats."""

import io
from collections.abc import Sequence
from functools import cache
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.formats.output_options import Compression, OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.columns import (
    NEXT_SENTENCE_LABEL,
    prediction_columns,
    segment_column,
    token_column,
)

BERT = (
    token_column("int16", "tokens", 12, 0),
    segment_column(12),
    NEXT_SENTENCE_LABEL,
    *prediction_columns("int16", 3, 12),
)
# Numbers of every size, padding other than 0, and names that trainers do not know.
ODD = (
    Column("seg_labels", "int8", "0, 1 and -1", 4, -1),
    Column("wide", "int64", "any number", 3),
    Column("unsigned", "uint32", "any number"),
    Column("α", "uint16", "a name of two bytes", 2, 7),
)

Row = dict[str, int | list[int]]


def pad_row(row: Row, columns: Sequence[Column]) -> Row:
    """The row with its lists filled to their widths."""
    padded = dict(row)
    for column in columns:
        if column.width:
            values = row[column.name]
            assert isinstance(values, list)
            padded[column.name] = values + [column.pad] * (column.width - len(values))
    return padded


def to_batch(rows: list[Row], columns: tuple[Column, ...], padded: bool) -> pa.RecordBatch:
    """Rows as an objective's `finish` returns them."""
    if padded:
        rows = [pad_row(row, columns) for row in rows]
    schema = arrow_schema(columns, padded)
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@cache
def bert_batch(count: int, padded: bool) -> pa.RecordBatch:
    """Rows like BERT's: as many types as tokens, and as many ids as positions."""
    draw = Random(count)  # noqa: S311 - test data, no secret
    rows: list[Row] = []
    for _ in range(count):
        length, predictions = draw.randint(5, 12), draw.randint(1, 3)
        rows.append(
            {
                "input_ids": [draw.randint(1, 32000) for _ in range(length)],
                "token_type_ids": [0] * 3 + [1] * (length - 3),
                "next_sentence_label": draw.randint(0, 1),
                "masked_lm_positions": sorted(draw.sample(range(1, length), predictions)),
                "masked_lm_ids": [draw.randint(1, 32000) for _ in range(predictions)],
            }
        )
    return to_batch(rows, BERT, padded)


def odd_rows() -> st.SearchStrategy[list[Row]]:
    """Any rows of ODD."""

    def numbers(column: Column) -> st.SearchStrategy[int]:
        limits = np.iinfo(column.dtype)
        return st.integers(int(limits.min), int(limits.max))

    values = {
        column.name: st.lists(numbers(column), max_size=column.width)
        if column.width
        else numbers(column)
        for column in ODD
    }
    return st.lists(st.fixed_dictionaries(values), max_size=5)


def padding_options(padded: bool) -> OutputOptions:
    return OutputOptions(padding="max_length" if padded else "do_not_pad")


def options_of(
    output_format: str, padded: bool, compression: Compression | None = None
) -> OutputOptions:
    """Resolved options."""
    padding = padding_options(padded).padding
    return resolve(OutputOptions(output_format, padding, compression), BERT)


def write_shard(
    groups: Sequence[pa.RecordBatch], columns: tuple[Column, ...], options: OutputOptions
) -> bytes:
    """The bytes of a shard of one file."""
    stream = io.BytesIO()
    writer = FORMATS[options.output_format].open_writer([stream], columns, options)
    for group in groups:
        writer.write(group)
    writer.close()
    assert not stream.closed
    return stream.getvalue()


def read_shard(
    content: bytes, columns: tuple[Column, ...], options: OutputOptions, batch_rows: int = 8192
) -> pa.Table:
    """All rows of a shard of one file."""
    read = FORMATS[options.output_format].read([io.BytesIO(content)], columns, options, batch_rows)
    batches = list(read)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    return pa.Table.from_batches(batches, arrow_schema(columns, options.is_padded))


def assert_read_as_written(
    batches: list[pa.RecordBatch],
    columns: tuple[Column, ...],
    options: OutputOptions,
    batch_rows: int = 8192,
) -> None:
    """Check that the rows read from a shard are those that were written to it."""
    written = write_shard(batches, columns, options)
    assert read_shard(written, columns, options, batch_rows).equals(pa.Table.from_batches(batches))
