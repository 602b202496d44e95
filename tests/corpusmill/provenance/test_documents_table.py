"""The table of documents: what is written, and how documents are found again."""

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.provenance.documents_table import DocumentsTable, DocumentsWriter, documents_schema
from corpusmill.tokenization.encoding import tokenized_schema
from tests.tools.knobs import knobs

KEPT = ("url", "date")
SCHEMA = tokenized_schema("int16", KEPT, facts=True)


def batch_of(number: int, file: int = 1) -> pa.RecordBatch:
    """Documents at places 0, 10, ..., of 9 bytes and 1, 2, ... tokens."""
    rows = [
        {
            "document": file << 40 | 10 * place,
            "sentences": [[7], [8] * place] if place else [[7]],
            "length": 9,
            "digest": 2**63 + place,
            "field:url": f"u{place}" if place % 3 else None,
            "field:date": "2020",
        }
        for place in range(number)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def write(*batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    writer = DocumentsWriter(sink, KEPT)
    for batch in batches:
        writer.add(batch)
    writer.close()
    return sink.getvalue()


def open_table(*batches: pa.RecordBatch) -> DocumentsTable:
    return DocumentsTable(io.BytesIO(write(*batches)))


def test_any_reader_of_parquet_reads_the_table() -> None:
    table = pq.read_table(io.BytesIO(write(batch_of(4))))
    assert table.schema == documents_schema(KEPT)
    assert table.column("document").to_pylist() == [1 << 40 | place for place in (0, 10, 20, 30)]
    assert table.column("tokens").to_pylist() == [1, 2, 3, 4]
    assert table.column("length").to_pylist() == [9] * 4
    assert table.column("digest").to_pylist() == [2**63 + n for n in range(4)]
    assert table.column("url").to_pylist() == [None, "u1", "u2", None]
    assert table.column("date").to_pylist() == ["2020"] * 4
    [group] = pq.ParquetFile(io.BytesIO(write(batch_of(4)))).metadata.to_dict()["row_groups"]
    encodings = {name for column in group["columns"] for name in column["encodings"]}
    assert encodings <= {"PLAIN", "RLE", "RLE_DICTIONARY"}


def test_a_table_without_documents() -> None:
    table = open_table(batch_of(0))
    assert (table.documents, table.schema) == (0, documents_schema(KEPT))
    assert list(table.groups()) == []
    assert table.find(np.array([1], np.uint64)).num_rows == 0
    assert table.find_place(0, 0).num_rows == 0


@given(st.lists(st.integers(0, 200), max_size=6))
@settings(max_examples=30, deadline=None)
def test_the_bytes_do_not_depend_on_the_batches(cuts: list[int]) -> None:
    batch = batch_of(200)
    pieces = [batch.slice(a, b - a) for a, b in pairwise([0, *sorted(cuts), 200])]
    with knobs(group_documents=70):
        assert write(*pieces) == write(batch)


@pytest.mark.parametrize(
    ("documents", "sizes"), [(69, [69]), (70, [70]), (71, [70, 1]), (150, [70, 70, 10])]
)
def test_groups_end_at_a_number_of_documents(documents: int, sizes: list[int]) -> None:
    with knobs(group_documents=70):
        table = open_table(batch_of(documents))
    assert [rows.num_rows for rows in table.groups()] == sizes


# A document has 4 bytes of a date, and two of three have 2 of a URL: the first six have 32.
@pytest.mark.parametrize(("most", "sizes"), [(31, [6, 4]), (32, [6, 4]), (33, [7, 3])])
def test_groups_end_at_a_number_of_bytes(most: int, sizes: list[int]) -> None:
    parts = (batch_of(10).slice(0, 5), batch_of(10).slice(5))
    with knobs(group_field_bytes=most):
        table = open_table(batch_of(10))
        assert write(*parts) == write(batch_of(10))
    assert [rows.num_rows for rows in table.groups(["url"])] == sizes


def test_documents_are_found_by_their_ids() -> None:
    with knobs(group_documents=4):
        table = open_table(batch_of(15))
    every = np.array([1 << 40 | 10 * place for place in range(15)], np.uint64)
    assert table.find(every).num_rows == 15
    wanted = np.array([5, *every[[0, 3, 4, 14]].tolist(), 2**64 - 1], np.uint64)
    assert table.find(wanted)["tokens"].to_pylist() == [1, 4, 5, 15]


def test_a_document_is_found_by_each_of_its_bytes() -> None:
    with knobs(group_documents=4):
        table = open_table(batch_of(15))
    for place in range(150):
        found = table.find_place(1, place).column("document").to_pylist()
        assert found == ([1 << 40 | place // 10 * 10] if place % 10 < 9 else [])
    assert table.find_place(0, 0).num_rows == table.find_place(2, 0).num_rows == 0


def test_a_document_of_unknown_length_is_found_where_it_begins() -> None:
    batch = batch_of(3)
    unknown = batch.set_column(2, SCHEMA.field("length"), pa.array([0, 0, 0], pa.uint64()))
    table = open_table(unknown)
    assert table.find_place(1, 10).num_rows == 1
    assert table.find_place(1, 11).num_rows == 0


@pytest.mark.parametrize("batches", [(batch_of(3), batch_of(4)), (batch_of(3).take([1, 0]),)])
def test_ids_must_ascend(batches: tuple[pa.RecordBatch, ...]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        write(*batches)


def test_many_documents_take_few_bytes() -> None:
    number = 2**16
    generator = np.random.default_rng(1)
    lengths = generator.integers(20, 4000, number)
    ids = np.cumsum(lengths + 1).astype(np.uint64)
    tokens = pa.array([[[7] * int(length // 40)] for length in lengths], SCHEMA.field(1).type)
    digests = pa.array(generator.integers(0, 2**64, number, np.uint64))
    columns = [pa.array(ids), tokens, pa.array(lengths.astype(np.uint64)), digests]
    sink = io.BytesIO()
    writer = DocumentsWriter(sink)
    writer.add(pa.RecordBatch.from_arrays(columns, schema=tokenized_schema("int16", (), True)))
    writer.close()
    assert len(sink.getvalue()) < 14 * number
