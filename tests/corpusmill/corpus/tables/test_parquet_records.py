"""What only Parquet has: types, pages, row groups of any size."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.corpus.tables.arrow import ParquetTable
from corpusmill.corpus.tables.table import DECODED_BYTES, TableStream
from corpusmill.errors import UserError
from tests.tools.knobs import knobs
from tests.tools.read_content import Content
from tests.tools.table_files import CountingStream, parquet, parquet_of, read

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
    data = parquet_of(table, compression="none", use_dictionary=False)
    stream = CountingStream(data)
    result = Content().add(read_corpus(stream, FileRange("f", 0, OPTIONS)))
    assert result.counts.records == 400
    assert stream.bytes_read < len(data) / 10


def test_a_text_of_many_rows_is_not_unpacked_at_once() -> None:
    texts = [f"{number} " + "x" * 50_000 for number in range(5)]
    data = parquet_of(pa.table({"text": texts * 200}))
    assert len(data) < 10**6
    before = pa.total_allocated_bytes()
    for batch in read_corpus(io.BytesIO(data), FileRange("f", 0, OPTIONS)):
        assert batch.documents.nbytes < 2 * DECODED_BYTES
        # 128 times the row group, which has five texts in its dictionary.
        assert pa.total_allocated_bytes() - before < 40 * 2**20


@pytest.mark.parametrize("texts", [[None], [""]])
def test_millions_of_rows_without_text_are_read_in_few_steps(texts: list[str | None]) -> None:
    data = parquet_of(pa.table({"text": pa.array(texts * 2**20, pa.string())}))
    assert len(data) < 10**5
    table = ParquetTable(TableStream(io.BytesIO(data)), OPTIONS)
    assert sum(1 for block in table.blocks() for _ in block.texts()) < 200
    batches = list(read_corpus(io.BytesIO(data), FileRange("f", 0, OPTIONS)))
    assert sum(batch.counts.rows for batch in batches) == 2**20
    number = sum(batch.count_rejects().total() + batch.counts.empty_records for batch in batches)
    assert number == 2**20


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
    data = parquet_of(table)
    with pytest.raises(UserError, match=r"holds list<.*>\. Name a .* text: meta\.text, body\."):
        check_start(io.BytesIO(data), "f", OPTIONS)
    nested = DocumentOptions(input_format="parquet", text_field="meta.body")
    with pytest.raises(UserError, match=r"its fields are text, meta, meta\.text, body"):
        check_start(io.BytesIO(data), "f", nested)


def test_a_table_without_columns() -> None:
    data = parquet_of(pa.table({}))
    assert not read(data, OPTIONS).rejects


def test_a_row_group_that_is_too_large_is_never_decoded() -> None:
    data = parquet([b"a", b"b" * 50_000, b"c"], 1, write_statistics=False)
    with knobs(block_bytes=20_000):
        content = read(data, OPTIONS)
    assert content.sentences == ["a", "c"]
    assert content.reasons == ["block-too-large"]
    assert content.rejects[0].detail.startswith("rows 1 to 1: ")
    assert "above the limit of 20000" in content.rejects[0].detail


def test_few_rows_that_share_a_dictionary_are_decoded_at_once() -> None:
    data = parquet([b"x" * 100] * 20, 20)
    size = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(1).total_uncompressed_size
    for dictionary_rows, times, rows in ((1, 9, 9), (2, 9, 18), (3, 9, 20)):
        with knobs(dictionary_rows=dictionary_rows, decoded_bytes=times * size):
            table = ParquetTable(TableStream(io.BytesIO(data)), OPTIONS)
            steps = [len(part.texts) for block in table.blocks() for part in block.texts()]
        assert steps[0] == rows
