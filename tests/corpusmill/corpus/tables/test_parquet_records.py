"""What only Parquet has: types, pages, row groups of any size."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.corpus.tables import parquet as parquet_tables
from corpusmill.corpus.tables.parquet import ParquetTable
from corpusmill.corpus.tables.table import TableStream
from corpusmill.errors import UserError
from corpusmill.limits import LIMITS, RefusalLimits
from tests.tools.memory import memory_of
from tests.tools.read_content import Content
from tests.tools.small_limits import refusal_limits
from tests.tools.table_files import CountingStream, parquet, read

OPTIONS = DocumentOptions(input_format="parquet")


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_every_type_of_text_is_read(kind: pa.DataType, use_dictionary: bool) -> None:
    content = [b"a", b"", None, b"a\nb", "é".encode(), b"a"]
    result = read(parquet(content, 4, kind, use_dictionary=use_dictionary), OPTIONS)
    assert result.texts == [["a"], ["a", "b"], ["é"], ["a"]]
    assert result.reasons == ["not-text"]
    assert result.counts.empty_records == 1


@pytest.mark.parametrize("page", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_every_codec_and_page_is_read(codec: str, page: str) -> None:
    content = [b"some text %d" % number for number in range(50)]
    data = parquet(content, 20, compression=codec, data_page_version=page)
    assert read(data, OPTIONS, [500, 900]).sentences == [text.decode() for text in content]


def test_only_the_text_is_read() -> None:
    noise = [bytes([number % 251]) * 10_000 for number in range(400)]
    table = pa.table({"a": noise, "text": ["words"] * 400, "z": noise})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    stream = CountingStream(sink.getvalue())
    result = Content().add(read_corpus(stream, FileRange("f", 0, OPTIONS)))
    assert result.counts.records == 400
    assert stream.bytes_read < len(sink.getvalue()) / 10


def test_a_text_of_many_rows_is_not_unpacked_at_once() -> None:
    texts = [f"{number} " + "x" * 50_000 for number in range(5)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts * 200}), sink)
    assert len(sink.getvalue()) < 10**6
    before = pa.total_allocated_bytes()
    for batch in read_corpus(io.BytesIO(sink.getvalue()), FileRange("f", 0, OPTIONS)):
        assert batch.documents.nbytes < 2 * LIMITS.refusals.decoded_bytes
        assert pa.total_allocated_bytes() - before < 20 * 2**20


@pytest.mark.parametrize("texts", [[None], [""]])
def test_millions_of_rows_without_text_are_read_in_few_steps(texts: list[str | None]) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts * 2**20, pa.string())}), sink)
    assert len(sink.getvalue()) < 10**5
    table = ParquetTable(TableStream(sink), len(sink.getvalue()), OPTIONS, LIMITS.refusals)
    assert sum(1 for block in table.blocks() for _ in table.texts(block)) < 200
    batches = list(read_corpus(io.BytesIO(sink.getvalue()), FileRange("f", 0, OPTIONS)))
    assert sum(batch.counts.rows for batch in batches) == 2**20
    number = sum(batch.count_rejects().total() + batch.counts.empty_records for batch in batches)
    assert number == 2**20


def test_a_value_that_a_dictionary_repeats_without_end_is_refused_beyond_a_limit() -> None:
    column = pa.DictionaryArray.from_arrays([0] * 3000, ["some words " * 10**5])
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": column}), sink, compression="zstd")
    assert len(sink.getvalue()) < 2000
    content = read(sink.getvalue(), OPTIONS)
    [reject] = content.rejects
    assert (reject.reason, reject.row) == ("block-too-large", 61)
    assert "bytes would become more than 67108864 bytes of text" in reject.detail
    assert (content.counts.records, content.counts.rejected_rows) == (61, 2939)
    assert content.counts.rejected_bytes > 0.9 * len(sink.getvalue())


def open_table(path: str) -> ParquetTable:
    size = Path(path).stat().st_size
    return ParquetTable(TableStream(Path(path).open("rb")), size, OPTIONS, LIMITS.refusals)


def test_a_long_text_of_many_rows_cannot_fill_the_memory(tmp_path: Path) -> None:
    long = pa.array(["x" * (20 * 2**20)])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 9000, pa.int32()), long)
    table = pa.table({"text": texts})
    pq.write_table(table, tmp_path / "f", compression="zstd", store_schema=False)
    assert (tmp_path / "f").stat().st_size < 2**14
    before = f"""
        from tests.corpusmill.corpus.tables.test_parquet_records import OPTIONS, open_table
        table = open_table({str(tmp_path / "f")!r})
    """
    measured = "assert len(next(table.texts(next(table.blocks()))).texts) == 1"
    assert memory_of(before, measured) < 800 * 2**20


def test_checksums_of_pages_are_checked() -> None:
    content = [b"some text %d" % number for number in range(50)]
    data = parquet(content, 25, compression="none", use_dictionary=False, write_statistics=False,
                   write_page_checksum=True)  # fmt: skip
    result = read(data.replace(b"text 30", b"test 30"), OPTIONS)
    assert result.sentences == [text.decode() for text in content[:25]]
    assert (result.reasons, result.counts.rejected_rows) == (["damaged-block"], 25)


def test_a_damaged_page_costs_the_rest_of_its_row_group() -> None:
    content = [b"some text %d" % number for number in range(3000)]
    data = bytearray(parquet(content, 1000, compression="zstd", use_dictionary=False,
                             data_page_size=500, write_batch_size=50))  # fmt: skip
    groups = pq.ParquetFile(io.BytesIO(data)).metadata
    chunk = groups.row_group(1).column(1)
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[middle : middle + 300] = bytes(300)
    result = read(bytes(data), OPTIONS, [middle])
    place = chunk.data_page_offset, chunk.total_compressed_size
    assert result.places == [(*place, "damaged-block")]
    assert result.rejects[0].detail.startswith("rows ")
    assert " to 1999: " in result.rejects[0].detail
    assert 2000 <= result.counts.records < 3000
    assert result.counts.rows == 3000
    kept = {f"some text {number}" for number in (*range(1000), *range(2000, 3000))}
    assert kept <= set(result.sentences)


def test_nested_fields_are_named_with_their_types() -> None:
    table = pa.table({"text": [["a"]], "meta": [{"text": "x"}], "body": ["b"]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    with pytest.raises(UserError, match=r"holds list<.*>\. Name a .* text: meta\.text, body\."):
        check_start(sink, "f", OPTIONS)
    nested = DocumentOptions(input_format="parquet", text_field="meta.body")
    with pytest.raises(UserError, match=r"its fields are text, meta, meta\.text, body"):
        check_start(sink, "f", nested)


def test_a_table_without_columns() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({}), sink)
    assert not read(sink.getvalue(), OPTIONS).rejects


def in_pages(content: list[bytes]) -> bytes:
    """A file with a page for each text, as it is."""
    return parquet(content, len(content), compression="none", use_dictionary=False,
                   write_statistics=False, data_page_size=1, write_batch_size=1)  # fmt: skip


@pytest.mark.parametrize(("limit", "reasons"), [(1009, ["block-too-large"]), (1010, [])])
def test_a_page_that_is_too_large_is_never_decoded(limit: int, reasons: list[str]) -> None:
    # A page has the text, its length, and the levels of a column that may hold nulls.
    data = in_pages([b"x" * 1000])
    content = read(data, OPTIONS, limits=refusal_limits(page_bytes=limit))
    assert content.reasons == reasons
    assert all(f"above the limit of {limit}" in reject.detail for reject in content.rejects)


@pytest.mark.parametrize(("more", "kept"), [(-1, ["a", "b"]), (0, []), (1, [])])
def test_all_headers_of_a_small_chunk_are_read_before_its_rows(more: int, kept: list[str]) -> None:
    data, header = in_pages([b"a", b"b", b"c"]), b"\x15\x00\x15\x16"
    assert data.count(header) == 3
    last = data.rindex(header)
    damaged = data[:last] + b"\xff" + data[last + 1 :]
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(1)
    size = chunk.total_compressed_size + more
    content = read(damaged, OPTIONS, limits=refusal_limits(small_chunk_bytes=size, decoded_rows=1))
    assert (content.sentences, content.reasons) == (kept, ["damaged-block"])


@pytest.mark.parametrize(
    ("limit", "value", "rows"),
    [
        ("dictionary_rows", 3, 3), ("dictionary_rows", 20, 20),
        ("repeated_bytes", 207, 1), ("repeated_bytes", 208, 2),
        ("few_repeated_bytes", 519, 4), ("few_repeated_bytes", 520, 5),
        ("few_repeated_bytes", 10**4, 20),
    ],
)  # fmt: skip
def test_few_rows_that_share_values_are_decoded_at_once(limit: str, value: int, rows: int) -> None:
    # The dictionary has 104 bytes: a text and its length.
    data = parquet([b"x" * 100] * 20, 20)
    usual = {"dictionary_rows": 4 if limit == "repeated_bytes" else 1, "few_repeated_bytes": 1}
    limits = RefusalLimits(**{**usual, limit: value})
    table = ParquetTable(TableStream(io.BytesIO(data)), len(data), OPTIONS, limits)
    steps = [len(part.texts) for block in table.blocks() for part in table.texts(block)]
    assert set(steps[:-1] or steps) == {rows}


@pytest.mark.parametrize(("length", "is_long"), [(100, False), (2000, True)])
def test_the_header_of_a_page_may_hold_long_texts(length: int, is_long: bool) -> None:
    content = [b"%d" % number + b"x" * length for number in range(3)]
    data = parquet(content, 3, use_dictionary=False)
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(1)
    source = TableStream(io.BytesIO(data))
    assert chunk.path_in_schema == "text"
    _, size = parquet_tables._read_header(source, chunk.data_page_offset, 2**20)
    assert (size > 2**10) == is_long
    for most, reasons in ((size - 1, ["damaged-block"]), (size, [])):
        limits = refusal_limits(parquet_header_bytes=max(2**10, most))
        assert read(data, OPTIONS, limits=limits).reasons == (reasons if is_long else [])
