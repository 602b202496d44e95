"""What only Avro has: codecs, unions, schemas, the marks between blocks."""

import io
import zlib
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.errors import UserError
from tests.tools.table_files import avro, read

OPTIONS = DocumentOptions(input_format="avro")
MARK = bytes(range(16))


def repack(data: bytes, codec: str, compress: Any) -> bytes:
    """Compress the blocks of an uncompressed file with a function, not with fastavro."""
    schema = fastavro.reader(io.BytesIO(data)).writer_schema
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [], sync_marker=MARK)
    named = b"avro.codec" + number(len(codec)) + codec.encode()
    packed = sink.getvalue().replace(b"avro.codec\x08null", named)
    parts = [packed]
    blocks: Any = fastavro.block_reader(io.BytesIO(data))
    for block in blocks:
        content = compress(block.bytes_.getvalue())
        parts += [number(block.num_records), number(len(content)), content, MARK]
    return b"".join(parts)


def number(value: int) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, {"type": "long"}, value)
    return sink.getvalue()


def with_schema(text_type: Any, rows: list[Any], **extra: Any) -> bytes:
    fields = [{"name": "text", "type": text_type}, {"name": "n", "type": "int", "default": 1}]
    schema = {"type": "record", "name": "row", "fields": fields, **extra}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"text": row} for row in rows])
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(codec: str) -> None:
    content = [f"some text {number}" for number in range(60)]
    data = avro(content, 7, codec)
    assert read(data, OPTIONS, [300, 500, 501]).sentences == content


def _snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


def _zstandard(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


@pytest.mark.parametrize(("codec", "compress"), [("snappy", _snappy), ("zstandard", _zstandard)])
def test_codecs_for_which_fastavro_needs_other_packages(codec: str, compress: Any) -> None:
    content = [*(f"some text {number}" for number in range(60)), "x" * 200_000]
    data = repack(avro(content, 7), codec, compress)
    assert read(data, OPTIONS, [300, 500]).sentences == content


def test_the_checksum_of_snappy_is_checked() -> None:
    data = repack(avro(["a", "b"], 1), "snappy", _snappy)
    checksum = zlib.crc32(b"\x02\x02\x02b").to_bytes(4, "big")  # the second block: id 1, text "b"
    assert data.count(checksum) == 1
    result = read(data.replace(checksum, bytes(4)), OPTIONS)
    assert (result.sentences, result.reasons) == (["a"], ["damaged-block"])


def test_a_codec_that_is_not_known_is_refused() -> None:
    data = repack(avro(["a"], 1), "lz5", bytes)
    with pytest.raises(UserError, match="its codec lz5 is not one of null, deflate"):
        check_start(io.BytesIO(data), "f", OPTIONS)
    assert read(data, OPTIONS).reasons == ["damaged-file"]


@pytest.mark.parametrize(
    ("text_type", "rows"),
    [
        ("string", ["a", "b"]),
        ("bytes", [b"a", b"b"]),
        (["null", "string"], ["a", "b"]),
        (["string", "null", "int"], ["a", "b"]),
        ({"type": "string", "avro.java.string": "String"}, ["a", "b"]),
    ],
)
def test_types_that_hold_text(text_type: Any, rows: list[Any]) -> None:
    data = with_schema(text_type, rows)
    check_start(io.BytesIO(data), "f", OPTIONS)
    assert read(data, OPTIONS).sentences == ["a", "b"]


@pytest.mark.parametrize(
    ("text_type", "row", "words"),
    [
        ("int", 1, "int"),
        ({"type": "array", "items": "string"}, ["a"], "array"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", "enum"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, 1, "decimal"),
        (["null", "double"], None, "null or double"),
        ({"type": "record", "name": "r", "fields": []}, {}, "record"),
    ],
)
def test_types_that_hold_no_text(text_type: Any, row: Any, words: str) -> None:
    data = with_schema(text_type, [Decimal(row) if words == "decimal" else row])
    with pytest.raises(UserError, match=f"this field holds {words}"):
        check_start(io.BytesIO(data), "f", OPTIONS)
    result = read(data, OPTIONS)
    assert (result.reasons, result.counts.rejected_rows) == (["not-text"], 1)


def test_a_reject_names_what_a_union_holds_instead_of_text() -> None:
    result = read(avro(["a", 7, None, b"\xff", "b"], 5), OPTIONS)
    assert result.sentences == ["a", "b"]
    assert [reject.detail for reject in result.rejects][:2] == [
        "row 1: text holds a value of type int", "row 2: text holds null",
    ]  # fmt: skip
    assert result.reasons == ["not-text", "not-text", "invalid-utf-8"]


def test_a_schema_that_is_not_a_record_has_no_fields() -> None:
    sink = io.BytesIO()
    fastavro.writer(sink, "string", ["a"])
    with pytest.raises(UserError, match="its fields are none"):
        check_start(sink, "f", OPTIONS)


def test_a_damaged_block_costs_its_own_rows() -> None:
    data = avro(["a", "b", "c"], 1)
    text = b"\x02\x02\x02b"  # of the row with the number 1: number, kind, length and text
    assert data.count(text) == 1
    result = read(data.replace(text, b"\x02\x02\x7eb"), OPTIONS)
    assert result.sentences == ["a", "c"]
    assert result.reasons == ["damaged-block"]
    assert result.rejects[0].detail.startswith("rows 1 to 1: ")


def test_nothing_is_read_after_a_wrong_mark() -> None:
    data = avro(["a", "b", "c"], 1)
    mark = data.index(MARK, data.index(MARK, data.index(MARK) + 1) + 1)
    result = read(data[:mark] + b"?" + data[mark + 1 :], OPTIONS, [mark])
    assert result.sentences == ["a"]
    [reject] = result.rejects
    assert reject.reason == "damaged-block"
    assert "sync marker not found" in reject.detail
    assert result.counts.rows == 1  # the block's own number of rows cannot be trusted
    assert reject.length > len(MARK)
