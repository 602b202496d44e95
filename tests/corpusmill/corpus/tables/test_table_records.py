"""Rows of every kind of table, against a plain-Python reading of the same rows."""

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.corpus.tables import reading as table_records
from corpusmill.corpus.tables import table as tables
from corpusmill.corpus.tables.arrow import ArrowTable, ParquetTable
from corpusmill.corpus.tables.avro import AvroTable
from corpusmill.corpus.tables.reading import OpenTable
from corpusmill.errors import UserError
from tests.tools.knobs import knobs
from tests.tools.table_files import FORMATS, Texts, read, reference

texts = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab \n\té漢😀\u2028\u00a0"), max_size=14).map(str.encode),
        st.sampled_from([None, b"", b"\xff", b"a\xed\xa0\x80", b"x" * 61, b"\xff" * 70]),
    ),
    max_size=12,
)
cuts = st.lists(st.integers(0, 2500), max_size=6)
kinds = pytest.mark.parametrize("kind", FORMATS)


def options_for(kind: str, **changes: Any) -> DocumentOptions:
    small = DocumentOptions(max_line_bytes=60, max_document_bytes=12)
    input_format: Any = FORMATS[kind][0]
    return replace(small, input_format=input_format, **changes)


OPEN: dict[str, OpenTable] = {"parquet": ParquetTable, "arrow": ArrowTable, "avro": AvroTable}


def write(kind: str, content: Texts, rows: int) -> bytes:
    return FORMATS[kind][1](content, rows)


@kinds
@given(texts, st.integers(1, 5), cuts)
def test_ranges_together_are_the_whole_table(
    kind: str, content: list[bytes | None], rows: int, ranges: list[int]
) -> None:
    options = options_for(kind)
    data = write(kind, content, rows)
    whole = read(data, options)
    documents, reasons = reference(content, options)
    assert (whole.documents, whole.reasons) == (documents, reasons)
    assert whole.counts.rows == len(content)
    assert read(data, options, ranges) == whole


@kinds
def test_cuts_everywhere_in_a_small_file(kind: str) -> None:
    data = write(kind, [b"a\nb", None, b"\xff", b"c" * 61, b"d"], 2)
    whole = read(data, options_for(kind))
    for cut in range(0, len(data) + 1, 19):
        assert read(data, options_for(kind), [cut, cut + 9]) == whole


@kinds
def test_a_reject_names_the_row_and_its_block(kind: str) -> None:
    data = write(kind, [b"a", None, b"b", b"\xff", b"c" * 61, b"d"], 2)
    result = read(data, options_for(kind))
    undecodable = "row 3: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    assert [(reject.length, reject.reason, reject.detail) for reject in result.rejects] == [
        (0, "not-text", "row 1: text holds null"),
        (1, "invalid-utf-8", undecodable),
        (61, "record-too-long", "row 4: 61 bytes, above --max-line-bytes 60"),
    ]
    first, second, third = (reject.offset for reject in result.rejects)
    assert 0 < first < second < third < len(data)
    # The block is read by the range that holds the byte which its rejects name.
    part = FileRange("f", 3, options_for(kind), third, third + 1)
    assert [batch.counts.rows for batch in read_corpus(io.BytesIO(data), part)] == [2]


@kinds
def test_a_long_text_is_cut_into_documents_of_its_own_ids(kind: str) -> None:
    line = b"0123456789\n"
    data = write(kind, [line * 5000, b"next"], 2)
    result = read(data, options_for(kind, max_line_bytes=2**20, max_document_bytes=10))
    ids = [document for document, _ in result.documents]
    # The last of the pieces that a row has ids for holds the rest.
    assert ids == [3 << 40 | piece for piece in range(4096)] + [3 << 40 | 1 << 12]
    assert list(map(len, result.texts)) == [1] * 4095 + [905, 1]
    assert result.counts.cut_documents == 4095


@kinds
def test_batches_are_of_bounded_size(kind: str) -> None:
    content = [b"word " * 200] * 9000
    data = write(kind, content, 2500)
    options = DocumentOptions(input_format=options_for(kind).input_format)
    batches = read_corpus(io.BytesIO(data), FileRange("f", 0, options))
    sizes = [batch.documents.nbytes for batch in batches]
    assert len(sizes) >= 6
    assert max(sizes) < 3 * 2**20


@kinds
def test_many_bad_rows_leave_in_several_batches(kind: str) -> None:
    data = write(kind, [None] * 30_000, 30_000)
    batches = list(read_corpus(io.BytesIO(data), FileRange("f", 0, options_for(kind))))
    numbers = [batch.count_rejects().total() for batch in batches]
    assert sum(numbers) == 30_000
    assert max(numbers) <= 3 * tables.DECODED_ROWS


@kinds
def test_rejects_cost_their_share_of_the_block(kind: str) -> None:
    long = b"c" * 61
    data = write(kind, [long, long, b"a" * 60, b"a" * 62, None], 5)
    counts = read(data, options_for(kind), [len(data) // 2]).counts
    assert counts.rejected_rows == 4
    assert counts.rejected_bytes == round(counts.bytes * (61 + 61 + 62) / (61 + 61 + 60 + 62))
    assert read(write(kind, [None, b"a"], 2), options_for(kind)).counts.rejected_bytes == 0
    no_field = read(data, options_for(kind, text_field="body")).counts
    assert no_field.rejected_bytes == no_field.bytes == len(data)
    broken = read(data[:-40], options_for(kind)).counts
    assert 0 < broken.rejected_bytes <= broken.bytes == len(data) - 40


@kinds
@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        ({"decoded_rows": 4}, [4, 4, 1]),
        ({"decoded_rows": 9}, [9]),
        ({"decoded_bytes": 30}, [3, 3, 3]),
        ({"decoded_bytes": 90}, [9]),
    ],
)
def test_rows_are_decoded_in_steps(kind: str, limit: dict[str, int], sizes: list[int]) -> None:
    stream, options = io.BytesIO(write(kind, [b"x" * 10] * 9, 9)), options_for(kind)
    with knobs(**limit):
        table = OPEN[options.input_format](tables.TableStream(stream), options)
        steps = [len(rows.texts) for block in table.blocks() for rows in block.texts()]
    assert list(filter(None, steps)) == sizes


@kinds
def test_a_file_without_rows_and_an_empty_one_hold_nothing(kind: str) -> None:
    data = write(kind, [], 1)
    for content, ranges in ((data, []), (data, [1]), (data, [len(data) - 1]), (b"", [])):
        result = read(content, options_for(kind), ranges)
        assert not result.documents
        assert not result.rejects


@kinds
def test_files_that_have_no_such_field_of_text_are_rejected_by_block(kind: str) -> None:
    data = write(kind, [b"a", b"b", b"c"], 2)
    for name, reason in (("body", "missing-field"), ("id", "not-text")):
        result = read(data, options_for(kind, text_field=name), [len(data) // 2])
        assert result.reasons == [reason] * 2
        assert result.counts.rejected_rows == 3
        assert result.rejects[0].detail.startswith("rows 0 to 1: ")
    result = read(data, options_for(kind, text_field="b"))
    assert "its fields are id, text" in result.rejects[0].detail


@kinds
def test_a_field_is_checked_before_any_work(kind: str) -> None:
    stream = io.BytesIO(write(kind, [b"a"], 1))
    check_start(stream, "f", options_for(kind))
    with pytest.raises(UserError, match=r"--text-field body: .*its fields are id, text"):
        check_start(stream, "f", options_for(kind, text_field="body"))
    with pytest.raises(UserError, match=r"--text-field id: .*holds (long|int64).*: text"):
        check_start(stream, "f", options_for(kind, text_field="id"))


@pytest.mark.parametrize("given_format", ["parquet", "arrow", "avro"])
@pytest.mark.parametrize("data", [b"words\n", b"FEA1" + bytes(40), b"PAR1", b"ARROW1", b"Obj\x01"])
def test_a_file_of_another_format_is_refused_or_one_reject(given_format: str, data: bytes) -> None:
    options = DocumentOptions(input_format=given_format)
    with pytest.raises(UserError, match=f"--input f: it cannot be read as {given_format} "):
        check_start(io.BytesIO(data), "f", options)
    result = read(data, options, [2])
    assert result.places == [(0, len(data), "damaged-file")]


@kinds
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=9), st.booleans(), cuts)
def test_damage_is_counted_and_ranges_agree_on_it(
    kind: str, place: int, garbage: bytes, is_cut: bool, ranges: list[int]
) -> None:
    data = bytearray(write(kind, [b"some text", b"more", None, b"x\ny", b"\xff"] * 2, 3))
    # Some damage to a Parquet footer ends the process within Arrow.
    footer = int.from_bytes(data[-8:-4], "little") + 20 if kind == "parquet" and not is_cut else 0
    place %= len(data) - footer
    data[place : place + len(garbage)] = b"" if is_cut else garbage
    content = bytes(data[:place] if is_cut else data)
    assert read(content, options_for(kind), ranges) == read(content, options_for(kind))


@kinds
def test_what_is_left_of_a_truncated_file_is_read(kind: str) -> None:
    data = write(kind, [b"some text"] * 6, 2)
    result = read(data[: len(data) * 3 // 4], options_for(kind))
    assert {"damaged-file", "damaged-block"} & set(result.reasons)
    if kind != "parquet":  # which is nothing without its footer
        assert result.documents


@kinds
def test_more_rows_than_there_are_ids_for_are_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_records, "MAX_ROWS", 400)
    with pytest.raises(UserError, match=r"row 600 of f: at most 400 rows.* Split the file"):
        read(write(kind, [b"a"] * 600, 300), options_for(kind))


class _BrokenDisk(io.BytesIO):
    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > 6:
            raise OSError("the disk is gone")
        return super().read(size)


@kinds
def test_a_failing_disk_is_not_taken_for_damage(kind: str) -> None:
    stream = _BrokenDisk(write(kind, [b"a" * 50_000] * 6, 1))
    with pytest.raises(OSError, match="the disk is gone"):
        list(read_corpus(stream, FileRange("f", 0, options_for(kind))))


def test_types_that_hold_text() -> None:
    strings = [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
        pa.binary_view(), pa.dictionary(pa.int8(), pa.large_string()),
    ]  # fmt: skip
    others = [
        pa.int64(), pa.list_(pa.string()), pa.null(), pa.struct([("a", pa.string())]),
        pa.dictionary(pa.int8(), pa.int64()), pa.binary(3), pa.decimal128(5),
    ]  # fmt: skip
    assert [kind for kind in strings + others if tables.is_text_type(kind)] == strings
