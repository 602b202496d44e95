"""What only Avro has: codecs, unions, schemas, the marks between blocks."""

import io
import json
import zlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.corpus.tables.avro import HEADER, MAGIC, check_schema
from corpusmill.errors import UserError
from tests.tools.memory import memory_of
from tests.tools.small_limits import refusal_limits
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


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_small_block_cannot_fill_the_memory(codec: str) -> None:
    compress = {"snappy": _snappy, "zstandard": _zstandard}.get(codec)
    content = ["x" * 200_000, "y"]
    data = repack(avro(content, 1), codec, compress) if compress else avro(content, 1, codec)
    assert len(data) < 50_000
    result = read(data, OPTIONS, limits=refusal_limits(block_bytes=50_000))
    assert (result.sentences, result.reasons) == (["y"], ["block-too-large"])


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


@pytest.mark.parametrize(
    ("limits", "reasons"),
    [
        ({"avro_block_bytes": 1001, "most_texts": 0}, ["block-too-large"]),
        ({"avro_block_bytes": 1002, "most_texts": 0}, []),
        ({"avro_block_bytes": 1, "most_texts": 1}, ["block-too-large"]),
        ({"avro_block_bytes": 1, "most_texts": 2}, []),
        ({"block_bytes": 1001}, ["block-too-large"]),
        ({"block_bytes": 1002}, []),
    ],
)
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_block_is_of_usual_size_or_holds_a_few_long_texts(
    codec: str, limits: dict[str, int], reasons: list[str]
) -> None:
    # The number, the kind and the length of the text take four bytes.
    data = avro(["x" * 998], 1, codec)
    options = replace(OPTIONS, max_line_bytes=1000)
    assert read(data, options, limits=refusal_limits(**limits)).reasons == reasons


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
    assert "does not end with the mark" in reject.detail
    assert result.counts.rows == 1  # the block's own number of rows cannot be trusted
    assert reject.length > len(MARK)


def bomb(extra: Any, content: bytes, rows: int = 1, **header: Any) -> bytes:
    """Make a file with one block of rows, whose text comes after a field of another type."""
    fields = [{"name": "extra", "type": extra}, {"name": "text", "type": "string"}]
    meta = {
        "avro.schema": json.dumps({"type": "record", "name": "row", "fields": fields}).encode(),
        "avro.codec": b"deflate",
    }
    sink = io.BytesIO()
    header = {"magic": MAGIC, "meta": meta, "sync": MARK} | header
    fastavro.schemaless_writer(sink, HEADER, header)
    packed = zlib.compress(content, wbits=-15)
    return b"".join([sink.getvalue(), number(rows), number(len(packed)), packed, MARK])


def record(name: str, fields: list[Any]) -> dict[str, Any]:
    numbered = [{"name": f"f{index}", "type": field} for index, field in enumerate(fields)]
    return {"type": "record", "name": name, "fields": numbered}


def widened(levels: int) -> Any:
    """Make a record of 10 ** levels nulls, which take no bytes."""
    inner: Any = "null"
    for level in range(levels):
        inner = record(f"r{level}", [inner, *[f"r{level - 1}" if level else "null"] * 9])
    return inner


NESTED: Any = "int"
for _ in range(80):
    NESTED = {"type": "array", "items": NESTED}


@pytest.mark.parametrize(
    ("extra", "content", "cause"),
    [
        ({"type": "array", "items": "null"}, number(2**33), "many values in no bytes"),
        ({"type": "array", "items": record("e", [])}, number(2**33), "many values in no bytes"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
            number(2**33), "many values in no bytes",
        ),
        ({"type": "map", "values": widened(3)}, number(2**33), "many values in no bytes"),
        (record("a.n", [["null", "n"]]), b"\x02" * 2**20, "type n of its schema contains itself"),
        (
            record("n", [{"type": "array", "items": "n"}]),
            b"\x02" * 2**20, "type n of its schema contains itself",
        ),
        (record("n", ["n"]), b"", "type n of its schema contains itself"),
        (widened(9), b"", "a row of its schema may hold many values"),
        (NESTED, b"\x02" * 100, "nested more than 64 levels deep"),
        ({"type": "request", "fields": []}, b"", "no type request"),
    ],
)  # fmt: skip
def test_schemas_whose_values_have_no_bound_are_refused(
    extra: Any, content: bytes, cause: str
) -> None:
    data = bomb(extra, content)
    with pytest.raises(UserError, match=cause):
        check_start(io.BytesIO(data), "f", OPTIONS)
    [reject] = read(data, OPTIONS).rejects
    assert reject.reason == "damaged-file"
    assert cause in reject.detail


@pytest.mark.parametrize(
    ("extra", "content"),
    [
        (["null", "string"], b"\x00"),
        ({"type": "array", "items": ["null", "string"]}, b"\x04\x00\x00\x00"),
        ({"type": "map", "values": widened(1)}, b"\x02\x02k\x00"),
        (
            record("a.n", ["null", {"type": "array", "items": record("m", ["int"])}]),
            b"\x02\x02\x00",
        ),
        (
            record("a.n", [record("m", ["int"]), {"type": "array", "items": "m"}, "a.m"]),
            b"\x02\x00\x02",
        ),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x00"),
    ],
)  # fmt: skip
def test_other_fields_may_have_any_bounded_type(extra: Any, content: bytes) -> None:
    assert read(bomb(extra, content + b"\x02a"), OPTIONS).sentences == ["a"]


MANY: Any = {"type": "array", "items": record("e", ["int", *["null"] * 60])}


def hostile_rows() -> dict[str, tuple[bytes, list[str], list[str]]]:
    """Small files whose one row is large, with the sentences and rejects that they give."""
    texts = {"name": "text", "type": ["null", MANY, "string"]}
    schema = json.dumps({"type": "record", "name": "row", "fields": [texts]}).encode()
    array = number(2**20) + bytes(2**20 + 1)
    meta = {"avro.schema": schema, "avro.codec": b"deflate"}
    return {
        "a long text": (bomb("null", number(2**27) + b"x" * 2**27), [], ["block-too-large"]),
        "an array beside the text": (bomb(MANY, array + b"\x02a"), ["a"], []),
        "an array for a text": (bomb("null", b"\x02" + array, meta=meta), [], ["damaged-block"]),
    }


def test_one_row_cannot_fill_the_memory(tmp_path: Path) -> None:
    before = """
        from pathlib import Path
        from tests.corpusmill.corpus.tables.test_avro_records import OPTIONS, read
    """
    rows = hostile_rows()
    for name, (data, _, _) in rows.items():
        (tmp_path / name).write_bytes(data)
        assert len(data) < 2**19
    expected = {name: [sentences, reasons] for name, (_, sentences, reasons) in rows.items()}
    measured = f"""
        for name, expected in {expected!r}.items():
            result = read((Path({str(tmp_path)!r}) / name).read_bytes(), OPTIONS)
            assert [result.sentences, result.reasons] == expected, (name, result)
    """
    assert memory_of(before, measured) < 200 * 2**20


def test_a_block_has_no_more_rows_than_bytes() -> None:
    nothing = {"type": "null", "logicalType": "string"}
    fields = [{"name": "text", "type": nothing}]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields}).encode()
    data = bomb("null", b"", 2**27, meta={"avro.schema": schema, "avro.codec": b"deflate"})
    result = read(data, OPTIONS)
    assert result.reasons == ["damaged-block"]
    assert "134,217,728 rows in 0 bytes" in result.rejects[0].detail


@pytest.mark.parametrize(("depth", "nulls"), [(64, 63), (65, 63), (64, 64)])
def test_how_deep_a_schema_may_be_and_how_many_values_a_row_may_hold_in_no_bytes(
    depth: int, nulls: int
) -> None:
    nested: Any = "int"
    for _ in range(depth):
        nested = {"type": "array", "items": nested}
    row = record("r", ["null"] * nulls)
    if (depth, nulls) == (64, 63):
        check_schema(nested)
        check_schema(row)
    else:
        with pytest.raises(ValueError, match=r"nested more than 64|many values in no bytes"):
            check_schema(nested if depth > 64 else row)


@pytest.mark.parametrize(("more", "reasons"), [(-1, ["damaged-file"]), (0, []), (10**4, [])])
def test_a_header_is_sought_in_two_steps(more: int, reasons: list[str]) -> None:
    data = avro(["a"], 1)
    limits = refusal_limits(avro_header_bytes=data.index(MARK) + len(MARK) + more)
    assert read(data, OPTIONS, [50], limits).reasons == reasons
