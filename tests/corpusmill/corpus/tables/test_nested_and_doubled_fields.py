"""Fields inside others, and several fields of one name, in every format that has fields."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.errors import UserError
from tests.tools.read_content import read_ranges
from tests.tools.table_files import CountingStream, arrow_of, parquet_of

OPTIONS = DocumentOptions(text_field="data.text", keep_fields=("data.meta.url", "data.n", "tags"))
INNER = pa.struct([("url", pa.string()), ("tags", pa.list_(pa.string()))])
DATA = pa.struct([("n", pa.int64()), ("text", pa.string()), ("meta", INNER)])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "data": {"n": 1, "text": "a b", "meta": {"url": "u", "tags": ["x"]}}, "tags": ["p"]},
    {"id": 2, "data": {"n": None, "text": "c", "meta": None}, "tags": []},
    {"id": 3, "data": {"n": 3, "text": "d", "meta": {"url": None, "tags": []}}, "tags": None},
    {"id": 4, "data": None, "tags": None},
    {"id": 5, "data": {"n": 5, "text": None, "meta": None}, "tags": None},
]
AVRO = {
    "type": "record", "name": "space.Row", "fields": [
        {"name": "other", "type": ["null", {"type": "record", "name": "Meta", "fields": [
            {"name": "url", "type": ["null", "string"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ]}], "default": None},
        {"name": "data", "type": ["null", {"type": "record", "name": "Data", "fields": [
            {"name": "n", "type": ["null", "long"]}, {"name": "text", "type": ["null", "string"]},
            {"name": "meta", "type": ["null", "Meta"]},
        ]}]},
        {"name": "id", "type": "long"},
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}  # fmt: skip


def table() -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("data", DATA), ("tags", pa.list_(pa.string()))])
    return pa.Table.from_pylist(ROWS, schema)


def as_avro(_: pa.Table) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, AVRO, ROWS, sync_interval=1)
    return sink.getvalue()


def as_json_lines(_: pa.Table) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


Write = Callable[[pa.Table], bytes]
WRITERS: dict[str, Write] = {
    "parquet": partial(parquet_of, rows=2), "arrow": partial(arrow_of, rows=2), "avro": as_avro,
    "json-lines": as_json_lines,
}  # fmt: skip
formats = pytest.mark.parametrize(("kind", "write"), WRITERS.items(), ids=WRITERS)


@formats
@pytest.mark.parametrize("tags", [True, False])  # without them, Avro's other fields are skipped
def test_nested_fields_are_read(kind: str, write: Write, tags: bool) -> None:
    names = OPTIONS.keep_fields if tags else OPTIONS.keep_fields[:2]
    data, options = write(table()), replace(OPTIONS, input_format=kind, keep_fields=names)
    check_start(io.BytesIO(data), "f", options)
    for cuts in ([], [len(data) // 2], list(range(0, len(data), 50))):
        content = read_ranges(data, options, cuts)
        assert content.texts == [["a b"], ["c"], ["d"]]
        assert content.reasons == ["not-text", "not-text"]
        expected = [("u", "1", '["p"]'), (None, None, "[]"), (None, "3", None)]
        assert [tuple(row.values()) for row in content.fields] == [
            values[: len(names)] for values in expected
        ]


@formats
def test_messages_name_nested_fields(kind: str, write: Write) -> None:
    data = write(table())
    for changes in ({"text_field": "text"}, {"keep_fields": ("meta.url",)},
                    {"text_field": "data.text.x"}, {"keep_fields": ("tags.0",)}):  # fmt: skip
        if kind == "json-lines" and changes == {"keep_fields": ("tags.0",)}:
            continue  # null may stand for an object
        options = replace(OPTIONS, input_format=kind, **changes)
        with pytest.raises(UserError, match=r"data\.text, .*data\.meta\.url"):
            check_start(io.BytesIO(data), "f", options)


EXACT = pa.table({
    "data.text": ["flat", "flat"], "data": [{"text": "nested", "a": {"b": 1}}, None],
    "data.a": [{"b": "other"}, {"b": "x"}],
})  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_field_of_exactly_that_name_comes_first(kind: str) -> None:
    options = DocumentOptions(kind, text_field="data.text", keep_fields=("data.a.b", "data"))
    content = read_ranges(WRITERS[kind](EXACT), options)
    assert content.texts == [["flat"], ["flat"]]
    whole = '{"text":"nested","a":{"b":1}}'
    assert content.fields == [{"data.a.b": "1", "data": whole}, {"data.a.b": None, "data": None}]


def test_only_the_nested_column_of_parquet_is_read() -> None:
    rows = 2000
    inner = pa.array([{"text": f"{row}", "other": f"{row}" * 1000} for row in range(rows)])
    data = parquet_of(pa.table({"data": inner}), use_dictionary=False, compression="none")
    stream = CountingStream(data)
    options = DocumentOptions("parquet", text_field="data.text")
    batches = list(read_corpus(stream, FileRange("f", 0, options)))
    assert sum(batch.documents.num_rows for batch in batches) == rows
    assert stream.bytes_read < len(data) / 10


META = {"type": "record", "name": "Meta", "fields": [
    {"name": "x", "type": "string"}, {"name": "y", "type": {"type": "array", "items": "int"}},
]}  # fmt: skip
NULL_OR = ["null", {**META, "name": "Other"}]


@pytest.mark.parametrize(
    ("text_field", "keep_fields", "fields"),
    [
        ("a.x", ("b.x",), {"b.x": "bx"}), ("b.x", ("a.x",), {"a.x": "ax"}), ("b.x", (), {}),
        ("a.x", (), {}), ("c.x", ("b.y", "a"), {"b.y": "[2]", "a": '{"x":"ax","y":[1]}'}),
        ("c.x", ("d.x",), {"d.x": None}), ("c.x", ("m.x",), {"m.x": None}),
    ],
)  # fmt: skip
def test_records_of_avro_may_share_a_type(
    text_field: str, keep_fields: tuple[str, ...], fields: dict[str, str | None]
) -> None:
    kinds = {"a": META, "b": "Meta", "c": NULL_OR, "d": ["null", "Meta", "Other"],
             "m": {"type": "map", "values": "string"}}  # fmt: skip
    listed = [{"name": name, "type": kind} for name, kind in kinds.items()]
    row = {name: {"x": f"{name}x", "y": [number]} for number, name in enumerate("abc", 1)}
    sink = io.BytesIO()
    schema = {"type": "record", "name": "Row", "fields": listed}
    fastavro.writer(sink, schema, [{**row, "d": None, "m": {"x": "mx"}}])
    options = DocumentOptions("avro", text_field=text_field, keep_fields=keep_fields)
    content = read_ranges(sink.getvalue(), options)
    assert (content.texts, content.fields) == ([[text_field.replace(".", "")]], [fields])


def test_twins_of_avro_are_refused() -> None:
    fields = [{"name": "text", "type": "string"}, {"name": "texu", "type": "string"}]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "Row", "fields": fields}, [])
    data = sink.getvalue().replace(b"texu", b"text")
    with pytest.raises(UserError, match="2 fields named text"):
        check_start(io.BytesIO(data), "f", DocumentOptions("avro"))


TWINS = {
    "columns": pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["u"])],
                                    ["text", "text", "url"]),
    "kept columns": pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["u"])],
                                         ["text", "url", "url"]),
    "nested": pa.table({"data": pa.StructArray.from_arrays(
        [pa.array(["a"]), pa.array(["b"])], ["text", "text"])}),
    "outer": pa.Table.from_arrays([pa.array([{"text": "a"}]), pa.array([{"n": 1}])],
                                  ["data", "data"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("twins", TWINS)
def test_fields_of_one_name_are_refused_where_it_is_asked_for(kind: str, twins: str) -> None:
    data = WRITERS[kind](TWINS[twins])
    name = "text" if "columns" in twins else "data.text"
    options = DocumentOptions(kind, text_field=name)
    options = replace(options, keep_fields=("url",)) if twins == "kept columns" else options
    with pytest.raises(UserError, match=r"f: it has 2 fields named \w+.* Rename all but one"):
        check_start(io.BytesIO(data), "f", options)
    content = read_ranges(data, options)  # a file that comes later
    assert (content.texts, content.reasons) == ([], ["doubled-field"])
    assert content.counts.rejected_bytes == content.counts.bytes == len(data)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_fields_that_nobody_asks_for_may_share_a_name(kind: str) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array(["u"]), pa.array(["U"])]
    data = WRITERS[kind](pa.Table.from_arrays(columns, ["url", "url", "text", "Text"]))
    for name, text in (("text", "u"), ("Text", "U")):  # other letters are another name
        options = DocumentOptions(kind, text_field=name)
        check_start(io.BytesIO(data), "f", options)
        assert read_ranges(data, options).texts == [[text]]
