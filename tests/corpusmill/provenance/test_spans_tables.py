"""The tables of spans that say of what the rows of a shard are made."""

import io
from collections.abc import Iterable

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.provenance.spans_table import SCHEMA, Spans, SpansFile, SpansWriter, copy_spans
from tests.tools.knobs import knobs

Span = tuple[int, int, int]
# Document, repeat, index, spans.
Row = tuple[int, int, int, list[Span]]
# Row, place, document, first token, tokens, repeat.
Line = tuple[int, int, int, int, int, int]


class Sink(io.BytesIO):
    """Keeps its content when it is closed."""

    def close(self) -> None:
        self.content = self.getvalue()


def batch_of(rows: list[Row], has_spans: bool = True) -> pa.RecordBatch:
    identity = [
        pa.array([row[number] for row in rows], field.type)
        for number, field in enumerate(IDENTITY_SCHEMA)
    ]
    flat = [[number for span in row[3] for number in span] for row in rows]
    names = IDENTITY_SCHEMA.names
    if has_spans:
        identity.append(pa.array(flat, pa.list_(pa.uint64())))
        names = [*names, "spans"]
    return pa.record_batch(identity, names)


def write(
    rows: list[Row],
    cuts: Iterable[int] = (),
    has_spans: bool = True,
    lines: int = 2**17,
) -> bytes:
    sink = Sink()
    writer = SpansWriter(sink)
    with knobs(group_lines=lines):
        for begin, end in zip((0, *cuts), (*cuts, len(rows)), strict=True):
            writer.add(batch_of(rows[begin:end], has_spans))
        writer.close()
    return sink.getvalue()


def lines_of(rows: list[Row]) -> list[Line]:
    """Return the lines of the table of some rows, by the description of its columns."""
    return [
        (number, place, *span, repeat)
        for number, (document, repeat, _, spans) in enumerate(rows)
        for place, span in enumerate(spans or [(document, 0, 0)])
    ]


def as_lines(spans: Iterable[Spans]) -> list[Line]:
    return [line for part in spans for line in zip(*(c.tolist() for c in part), strict=True)]


def open_file(content: bytes) -> SpansFile:
    return SpansFile(io.BytesIO(content))


documents = st.sampled_from([0, 5, 2**40 + 3, 2**63, 2**64 - 1])
spans = st.tuples(documents, st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
identities = st.tuples(documents, st.integers(0, 65535), st.integers(0, 2**32 - 1))
many_rows = st.lists(st.tuples(identities, st.lists(spans, max_size=3)), max_size=12).map(
    lambda rows: [(*identity, spans) for identity, spans in rows]
)
groups = st.integers(1, 5)


@given(many_rows, groups, st.data())
def test_rows_are_read_as_they_were_written(
    rows: list[Row], group_lines: int, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    wanted = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))))) if rows else []
    content = write(rows, cuts, lines=group_lines)
    assert content == write(rows, lines=group_lines)
    file = open_file(content)
    assert len(file) == len(rows)
    assert as_lines(file.groups()) == lines_of(rows)
    found = as_lines([file.read_rows(np.array(wanted, np.int64))])
    assert found == [line for line in lines_of(rows) if line[0] in wanted]


@given(many_rows, groups, st.sets(documents))
def test_rows_are_found_by_their_documents(
    rows: list[Row], group_lines: int, wanted: set[int]
) -> None:
    file = open_file(write(rows, lines=group_lines))
    holding = sorted({line[0] for line in lines_of(rows) if line[2] in wanted})
    ids = np.array(sorted(wanted), np.uint64)
    assert file.find_rows(ids).tolist() == holding


@given(many_rows, groups, st.data())
def test_copies_without_some_rows_are_as_if_these_had_never_been(
    rows: list[Row], group_lines: int, data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    sink = Sink()
    writer = SpansWriter(sink)
    source = open_file(write(rows, lines=group_lines))
    with knobs(group_lines=group_lines):
        copy_spans(source, writer, np.array(kept, np.bool_))
        writer.close()
    left = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
    assert sink.getvalue() == write(left, lines=group_lines)


def test_rows_without_spans_have_documents_alone() -> None:
    rows: list[Row] = [(4, 1, 0, []), (9, 0, 2, [])]
    assert as_lines(open_file(write(rows, has_spans=False)).groups()) == [
        (0, 0, 4, 0, 0, 1),
        (1, 0, 9, 0, 0, 0),
    ]


@pytest.mark.parametrize("documents", [3, 1000])
def test_other_readers_see_the_same_table(documents: int) -> None:
    ids = np.random.default_rng(0).integers(0, 2**63, documents).tolist()
    rows: list[Row] = [(ids[n % documents], n % 3, n, [(ids[n % documents], n, 7)])
                       for n in range(1000)]  # fmt: skip
    content = write(rows, lines=100)
    table = pq.read_table(io.BytesIO(content))
    assert table.schema.names == SCHEMA.names
    assert list(zip(*table.to_pydict().values(), strict=True)) == lines_of(rows)
    pandas = pd.read_parquet(io.BytesIO(content))
    assert list(pandas.itertuples(index=False, name=None)) == lines_of(rows)
    assert pl.read_parquet(io.BytesIO(content)).rows() == lines_of(rows)
    groups = pq.ParquetFile(io.BytesIO(content)).metadata.to_dict()["row_groups"]
    encodings = {name for group in groups for column in group["columns"]
                 for name in column["encodings"]}  # fmt: skip
    assert encodings <= {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}


def test_duckdb_skips_groups_of_other_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    rows: list[Row] = [(n, 0, 0, [(n, 1, 2), (n + 1, 0, 3)]) for n in range(50)]
    path = tmp_path_factory.mktemp("spans") / "spans.parquet"
    path.write_bytes(write(rows, lines=10))
    table = duckdb.read_parquet(str(path))
    found = table.filter("row = 17").order("place").fetchall()
    assert found == [line for line in lines_of(rows) if line[0] == 17]
    query = """SELECT stats_min_value::INT, stats_max_value::INT FROM parquet_metadata(?)
               WHERE path_in_schema = 'row'"""
    of_rows = duckdb.execute(query, [str(path)]).fetchall()
    assert of_rows == [(first, first + 4) for first in range(0, 50, 5)]


def test_another_file_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"document": [1]}), sink)
    with pytest.raises(ValueError, match="spans of rows"):
        open_file(sink.getvalue())


def test_offsets_of_a_slice_do_not_matter() -> None:
    rows: list[Row] = [(number, 0, 0, [(number, number, 1)]) for number in range(5)]
    sink = Sink()
    writer = SpansWriter(sink)
    writer.add(batch_of(rows).slice(1, 3))
    writer.close()
    assert as_lines(open_file(sink.getvalue()).groups()) == lines_of(rows[1:4])


def test_a_group_is_read_once_for_all_rows_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, read = list[int](), SpansFile._read
    monkeypatch.setattr(SpansFile, "_read", lambda file, n: groups.append(n) or read(file, n))  # type: ignore[func-returns-value]
    rows: list[Row] = [(number, 0, 0, [(number, 1, 2)]) for number in range(50)]
    open_file(write(rows, lines=10)).read_rows(np.array([11, 12, 19, 31, 39]))
    assert groups == [1, 3]
