"""The files that say of what the rows of a shard are made."""

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.layout.placement import draw_keys, sort_order
from corpusmill.provenance import rows as module
from corpusmill.provenance.copies import copy_rows
from corpusmill.provenance.rows import RowsFile, RowsWriter
from corpusmill.provenance.spans import Rows

SEED = 7
Spans = list[tuple[int, int, int]]
# Document, repeat, index, spans.
Row = tuple[int, int, int, Spans]


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


def in_order_of_keys(rows: list[Row]) -> list[Row]:
    columns = [batch_of(rows).column(name).to_numpy() for name in IDENTITY_SCHEMA.names]
    return [rows[number] for number in sort_order(draw_keys(*columns, np.uint64(SEED)), *columns)]


def write(
    rows: list[Row], cuts: tuple[int, ...] = (), has_spans: bool = True, by_key: bool = False
) -> bytes:
    sink = Sink()
    writer = RowsWriter(sink, SEED, by_key)
    for begin, end in zip((0, *cuts), (*cuts, len(rows)), strict=True):
        writer.add(batch_of(rows[begin:end], has_spans))
    writer.close()
    return sink.getvalue()


def read(content: bytes) -> list[Row]:
    file, rows = RowsFile(io.BytesIO(content), SEED), dict[int, Row]()
    for numbers, group in file.groups():
        places = file.places_of(numbers).tolist()
        rows |= {place: row_in(group, number) for number, place in enumerate(places)}
    return [rows[place] for place in range(len(rows))]


def find(file: RowsFile, document: int) -> list[tuple[int, Row]]:
    """Return the rows of a document, with their places."""
    places, rows = file.find(np.array([document], np.uint64))
    return [(place, row_in(rows, number)) for number, place in enumerate(places.tolist())]


def row_in(rows: Rows, number: int = 0) -> Row:
    begin, end = rows.span_offsets[number : number + 2]
    spans = zip(
        rows.span_documents[begin:end].tolist(),
        rows.first_tokens[begin:end].tolist(),
        rows.tokens[begin:end].tolist(),
        strict=True,
    )
    identity = (rows.documents[number], rows.repeats[number], rows.indices[number])
    return (*map(int, identity), list(spans))  # type: ignore[return-value]


documents = st.sampled_from([0, 5, 2**40 + 3, 2**63, 2**64 - 1])
spans = st.tuples(documents, st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
identities = st.tuples(documents, st.integers(0, 65535), st.integers(0, 2**32 - 1))
many_rows = st.lists(
    st.tuples(identities, st.lists(spans, max_size=3)), max_size=12, unique_by=lambda row: row[0]
).map(lambda rows: [(*identity, spans) for identity, spans in rows])


@given(many_rows, st.booleans(), st.data())
def test_rows_are_read_as_they_were_written_in_any_order(
    rows: list[Row], sort: bool, data: st.DataObject
) -> None:
    rows = in_order_of_keys(rows) if sort and rows else rows
    cut = data.draw(st.integers(0, len(rows)))
    content = write(rows, (cut,))
    assert read(content) == rows
    assert content == write(rows)
    file = RowsFile(io.BytesIO(content), SEED)
    assert len(file) == len(rows)
    places = np.array(data.draw(st.permutations(range(len(rows)))), np.int64)
    found = file.rows(places)
    assert [row_in(found, number) for number in range(len(rows))] == [rows[n] for n in places]


@given(many_rows, documents)
def test_the_rows_of_a_document_are_found_by_their_origin_and_by_their_spans(
    rows: list[Row], document: int
) -> None:
    rows = in_order_of_keys(rows) if rows else rows
    file = RowsFile(io.BytesIO(write(rows)), SEED)
    assert find(file, document) == [
        (place, row)
        for place, row in enumerate(rows)
        if document in (row[0], *(span[0] for span in row[3]))
    ]


def test_rows_in_the_order_of_their_keys_take_less_room_than_others() -> None:
    rows: list[Row] = [
        (document << 20, 0, index, [(document << 20, 500 * index, 500)])
        for document in range(500)
        for index in range(20)
    ]
    by_key = in_order_of_keys(rows)
    swapped = [by_key[1], by_key[0], *by_key[2:]]
    assert 2 * len(write(by_key)) < len(write(swapped))
    assert read(write(swapped)) == swapped


@pytest.mark.parametrize("size", [1, 2**52])
def test_rows_are_stored_in_the_order_of_document_repeat_and_index(size: int) -> None:
    identities = [
        (n * size, repeat, 7 - index) for n in range(9) for repeat in (3, 1) for index in (0, 5)
    ]
    content = write(in_order_of_keys([(*identity, []) for identity in identities]))
    [(_, stored)] = RowsFile(io.BytesIO(content), SEED).groups()
    columns = (stored.documents, stored.repeats, stored.indices)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(identities)


def test_many_rows_are_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP_ROWS", 10)
    rows = in_order_of_keys([(number, 0, 0, [(number, 1, 2)]) for number in range(35)])
    content = write(rows, (10, 20, 30))
    assert read(content) == rows
    assert len(list(RowsFile(io.BytesIO(content), SEED).groups())) == 4


@given(many_rows, st.integers(1, 5), documents, st.data())
def test_rows_added_in_any_order_stand_in_that_of_their_keys(
    rows: list[Row], group_rows: int, document: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_GROUP_ROWS", group_rows)
        content = write(rows, (cut,), by_key=True)
    sorted_rows = in_order_of_keys(rows) if rows else rows
    assert read(content) == sorted_rows
    file = RowsFile(io.BytesIO(content), SEED)
    some = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    found = file.rows(np.array(some, np.int64))
    assert [row_in(found, number) for number in range(len(some))] == [sorted_rows[n] for n in some]
    touched = [document in (row[0], *(span[0] for span in row[3])) for row in sorted_rows]
    expected = [(place, sorted_rows[place]) for place in np.flatnonzero(touched).tolist()]
    assert find(file, document) == expected


@given(many_rows, st.integers(1, 5), st.data())
def test_copies_of_rows_stand_in_the_same_order(
    rows: list[Row], group_rows: int, data: st.DataObject
) -> None:
    by_key = data.draw(st.booleans())
    rows = in_order_of_keys(rows) if rows else rows
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    cuts = tuple(range(1, len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_GROUP_ROWS", group_rows)
        # In another order than that of the shard.
        file = RowsFile(
            io.BytesIO(write(rows[::-1] if by_key else rows, cuts, by_key=by_key)), SEED
        )
        sink = Sink()
        writer = RowsWriter(sink, SEED, file.by_key)
        removed = np.flatnonzero(~np.array(kept, np.bool_)[file.places_of(np.arange(len(rows)))])
        copy_rows(file, writer, removed)
        writer.close()
    assert read(sink.getvalue()) == [
        row for row, is_kept in zip(rows, kept, strict=True) if is_kept
    ]


def test_rows_without_spans_have_documents_alone() -> None:
    rows: list[Row] = [(4, 1, 0, []), (9, 0, 2, [])]
    assert read(write(rows, has_spans=False)) == rows


def test_another_file_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"document": [1]}), sink)
    with pytest.raises(ValueError, match="provenance of rows"):
        RowsFile(io.BytesIO(sink.getvalue()), SEED)


def test_offsets_of_a_slice_do_not_matter() -> None:
    rows: list[Row] = [(number, 0, 0, [(number, number, 1)]) for number in range(5)]
    sink = Sink()
    writer = RowsWriter(sink, SEED)
    writer.add(batch_of(rows).slice(1, 3))
    writer.close()
    assert read(sink.getvalue()) == rows[1:4]


class CountingFile(RowsFile):
    """Counts how often the columns of groups are read.

    Attributes:
        read: the groups whose spans were read.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, SEED)
        self.read = list[int]()

    def _read_columns(self, group: int, names: Sequence[str]) -> dict[str, np.ndarray]:
        if "span_tokens" in names:
            self.read.append(group)
        return super()._read_columns(group, names)


@pytest.mark.parametrize("by_key", [False, True])
def test_a_group_is_unpacked_once_for_all_rows_that_are_asked_for(
    by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GROUP_ROWS", 10)
    rows: list[Row] = [(number, 0, 0, [(number, 1, 2)]) for number in range(50)]
    in_order = in_order_of_keys(rows)
    cuts = tuple(range(10, 50, 10))
    file = CountingFile(io.BytesIO(write(rows if by_key else in_order, cuts, by_key=by_key)))
    if by_key:
        places = np.arange(50)
        file.rows(places)
        assert file.read == [0, 1, 2, 3, 4]
        return
    places = np.array([31, 12, 11, 39, 19])
    found = file.rows(places)
    assert [row_in(found, number) for number in range(5)] == [in_order[n] for n in places]
    assert file.read == [1, 3]
