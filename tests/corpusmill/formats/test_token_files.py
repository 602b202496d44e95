"""Megatron-LM's and nanoGPT's files, byte by byte and as their own programs read them."""

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, arrow_schema
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from tests.tools.knobs import knobs

DTYPES = ("int8", "uint8", "int16", "uint16", "int32")
Rows = list[list[int]]


def column_of(dtype: str, width: int = ANY_LENGTH) -> Column:
    return Column("input_ids", dtype, "tokens", width, role=Role.TOKEN_IDS)


def write(output_format: str, rows: Rows, dtype: str, cuts: Sequence[int] = ()) -> list[bytes]:
    """The files of a shard whose rows are written in pieces."""
    columns = (column_of(dtype),)
    options = resolve(OutputOptions(output_format=output_format), columns)
    shard_format = FORMATS[output_format]
    streams = [io.BytesIO() for _ in shard_format.suffixes(options)]
    writer = shard_format.open_writer(streams, columns, options)
    batch = pa.RecordBatch.from_pylist(
        [{"input_ids": row} for row in rows], schema=arrow_schema(columns)
    )
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        writer.write(batch.slice(begin, end - begin))
    writer.close()
    return [stream.getvalue() for stream in streams]


def read(
    output_format: str,
    files: list[bytes],
    dtype: str,
    batch_rows: int = 3,
) -> Rows:
    columns = (column_of(dtype),)
    options = resolve(OutputOptions(output_format=output_format), columns)
    streams = [io.BytesIO(file) for file in files]
    batches = list(FORMATS[output_format].read(streams, columns, options, batch_rows))
    assert all(batch.schema == arrow_schema(columns) for batch in batches)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    return [row for batch in batches for row in batch.column("input_ids").to_pylist()]


@dataclass(frozen=True)
class IndexedDataset:
    """What Megatron-LM's reader maps into memory (indexed_dataset.py, _IndexReader)."""

    dtype: np.dtype[Any]
    lengths: np.ndarray
    pointers: np.ndarray
    documents: np.ndarray
    tokens: bytes

    def read(self, sequence: int) -> list[int]:
        place = self.lengths[sequence], self.pointers[sequence]
        tokens: list[int] = np.frombuffer(self.tokens, self.dtype, *place).tolist()
        return tokens


def open_as_megatron(tokens: bytes, index: bytes) -> IndexedDataset:
    stream = io.BytesIO(index)
    assert stream.read(9) == b"MMIDIDX\x00\x00"
    assert struct.unpack("<Q", stream.read(8)) == (1,)
    [code] = struct.unpack("<B", stream.read(1))
    dtype = np.dtype({4: "<i4", 8: "<u2"}[code])
    sequences, documents = struct.unpack("<QQ", stream.read(16))
    offset = stream.tell()
    lengths = np.frombuffer(index, np.int32, sequences, offset)
    pointers = np.frombuffer(index, np.int64, sequences, offset + lengths.nbytes)
    end = offset + lengths.nbytes + pointers.nbytes
    return IndexedDataset(
        dtype, lengths, pointers, np.frombuffer(index, np.int64, documents, end), tokens
    )


def rows_of(dtype: str) -> st.SearchStrategy[Rows]:
    largest = int(np.iinfo(dtype).max)
    token = st.sampled_from([0, 1, 2, largest // 2, largest])
    return st.lists(st.lists(token, min_size=1, max_size=6), max_size=8)


def typed_rows(*dtypes: str) -> st.SearchStrategy[tuple[str, Rows]]:
    return st.sampled_from(dtypes).flatmap(lambda dtype: st.tuples(st.just(dtype), rows_of(dtype)))


@given(typed_rows(*DTYPES), st.data())
def test_megatron_reads_its_documents(typed: tuple[str, Rows], data: st.DataObject) -> None:
    dtype, rows = typed
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    tokens, index = write("megatron", rows, dtype, cuts)
    dataset = open_as_megatron(tokens, index)
    assert dataset.dtype == (np.int32 if dtype == "int32" else np.uint16)
    assert [dataset.read(number) for number in range(len(dataset.lengths))] == rows
    assert dataset.documents.tolist() == list(range(len(rows) + 1))
    assert [tokens, index] == write("megatron", rows, dtype)
    assert read("megatron", [tokens, index], dtype) == rows


@given(typed_rows(*DTYPES[:-1]), st.data())
def test_nanogpt_reads_one_array(typed: tuple[str, Rows], data: st.DataObject) -> None:
    dtype, rows = typed
    border = data.draw(st.integers(0, len(rows)))
    files = write("nanogpt", rows, dtype, [border])
    assert np.frombuffer(files[0], np.uint16).tolist() == [token for row in rows for token in row]
    assert read("nanogpt", files, dtype) == rows
    parts = [write("nanogpt", part, dtype) for part in (rows[:border], rows[border:])]
    assert [one + other for one, other in zip(*parts, strict=True)] == files


@pytest.mark.parametrize("read_tokens", [1, 9, 10, 11])
@pytest.mark.parametrize("output_format", ["megatron", "nanogpt"])
def test_long_rows_come_in_batches_of_bounded_size(output_format: str, read_tokens: int) -> None:
    rows = [[number] * size for number, size in enumerate([4, 6, 1, 25, 3, 7, 1])]
    with knobs(read_tokens=read_tokens):
        assert read(output_format, write(output_format, rows, "int16"), "int16", 100) == rows


@pytest.mark.parametrize("output_format", ["megatron", "nanogpt"])
def test_files_that_were_cut_or_lengthened_are_refused(output_format: str) -> None:
    files = write(output_format, [[1, 2], [3], [4, 5, 6], [7]], "int16")
    for damaged in range(2):
        for changed in (files[damaged][:-1], files[damaged] + b"\0"):
            parts = list(files)
            parts[damaged] = changed
            with pytest.raises(ValueError, match=r"end|longer|sequences"):
                read(output_format, parts, "int16")


def test_every_byte_of_an_index_is_checked() -> None:
    tokens, index = write("megatron", [[1, 2], [3], [4, 5, 6], [7]], "int16")
    for place in range(len(index)):
        wrong = bytearray(index)
        wrong[place] ^= 1
        with pytest.raises((ValueError, OverflowError)):
            read("megatron", [tokens, bytes(wrong)], "int16")


def test_a_token_beyond_the_column_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than int8 holds"):
        read("nanogpt", write("nanogpt", [[300]], "int16"), "int8")


@pytest.mark.parametrize(
    ("output_format", "columns", "cause"),
    [
        ("megatron", (column_of("uint16"), Column("marks", "int16", "", 9)), "have marks"),
        ("megatron", (column_of("uint16", 512),), "these are cut already"),
        ("nanogpt", (column_of("uint16", 512),), "these are cut already"),
        ("nanogpt", (column_of("int32"),), "more than 65,536"),
    ],
)
def test_rows_that_are_not_a_stream_are_refused(
    output_format: str, columns: tuple[Column, ...], cause: str
) -> None:
    with pytest.raises(UserError, match=cause):
        resolve(OutputOptions(output_format=output_format), columns)
