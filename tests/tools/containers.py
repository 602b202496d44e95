"""The same records in every container that a corpus may have."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Record = Mapping[str, Any]
# Texts in JSON, as they stand in tables, do not tell that another one lacks a key.
_JSON = pa.json_(pa.string())


def _table(records: Sequence[Record]) -> pa.Table:
    """Return a table of which each struct has the keys of all rows."""
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: pa.array([record.get(name) for record in records]) for name in names})


def json_lines(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def json_array(records: Sequence[Record]) -> bytes:
    return json.dumps(records, indent=1).encode()


def parquet(records: Sequence[Record]) -> bytes:
    return _parquet_of(_table(records))


def _parquet_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=3)
    return sink.getvalue()


def arrow_stream(records: Sequence[Record]) -> bytes:
    """Write a stream, as `save_to_disk` does, whose rows begin within another table."""
    table, sink = _table([records[-1], *records]).slice(1), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue()


def feather(records: Sequence[Record]) -> bytes:
    """Write a file with strings as views, and lists of the larger kind."""
    table, sink = _table(records), io.BytesIO()
    table = table.cast(pa.schema([(field.name, _widen(field.type)) for field in table.schema]))
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue()


def _widen(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _widen(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.large_list(_widen(kind.value_type))
    return pa.large_string() if pa.types.is_string(kind) else kind


def avro(records: Sequence[Record]) -> bytes:
    """Write records with a union with null for each value."""
    table, sink = _table(records), io.BytesIO()
    fields = [(field.name, field.type) for field in table.schema]
    [_, schema] = _avro_type(pa.struct(fields), "row")
    fastavro.writer(sink, schema, table.to_pylist(), sync_interval=400)
    return sink.getvalue()


def _avro_type(kind: pa.DataType, name: str) -> list[Any]:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": _avro_type(f.type, f"{name}_{f.name}")} for f in kind]
        return ["null", {"type": "record", "name": name, "fields": fields}]
    if pa.types.is_list(kind):
        return ["null", {"type": "array", "items": _avro_type(kind.value_type, f"{name}_item")}]
    return ["null", {"string": "string", "int64": "long", "double": "double", "bool": "boolean",
                     "null": "boolean"}[str(kind)]]  # fmt: skip


def json_columns(records: Sequence[Record]) -> bytes:
    """Write columns of Arrow's type json, or lists of it, as `datasets` does."""
    names = dict.fromkeys(name for record in records for name in record)
    return _parquet_of(pa.table({name: _json_column(records, name) for name in names}))


def _json_column(records: Sequence[Record], name: str) -> pa.Array:
    values = [record.get(name) for record in records]
    if any(isinstance(value, str) for value in values):
        return pa.array(values)
    if not all(isinstance(value, list) for value in values):
        texts = [None if value is None else json.dumps(value) for value in values]
        return pa.ExtensionArray.from_storage(_JSON, pa.array(texts))
    items = [json.dumps(item) for value in values for item in value or ()]
    offsets = [sum(len(value or ()) for value in values[:n]) for n in range(len(values) + 1)]
    column = pa.ExtensionArray.from_storage(_JSON, pa.array(items, pa.string()))
    return pa.ListArray.from_arrays(offsets, column)


def csv_cells(records: Sequence[Record]) -> bytes:
    """Write what is no text as JSON in a cell."""
    sink, names = io.StringIO(), [*dict.fromkeys(name for record in records for name in record)]
    writer = csv.DictWriter(sink, names)
    writer.writeheader()
    for record in records:
        writer.writerow(
            {n: value if isinstance(value, str) else json.dumps(value)
             for n, value in record.items()}
        )  # fmt: skip
    return sink.getvalue().encode()


# The end of a file's name, and what writes it, by the container.
CONTAINERS: dict[str, tuple[str, str, Callable[[Sequence[Record]], bytes]]] = {
    "JSON lines": ("jsonl", "json-lines", json_lines),
    "JSON": ("json", "json", json_array),
    "Parquet": ("parquet", "parquet", parquet),
    "Arrow stream": ("arrow", "arrow", arrow_stream),
    "Feather": ("feather", "arrow", feather),
    "Avro": ("avro", "avro", avro),
    "columns of JSON": ("parquet", "parquet", json_columns),
}

_USER, _ANSWER = {"role": "user", "content": "What?"}, {"role": "assistant", "content": "That."}
_TURNS = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]


def _call(name: str, arguments: Record) -> Record:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(function: str, **properties: Record) -> Record:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": function, "parameters": schema}}


_AREA = _tool("area", n={"type": "integer"}, unit={"type": "string", "enum": ["m", None]})
_CITY = _tool("city", name={"type": "string", "description": "of it"})
# Six ways in which people write conversations; their records have different keys at any depth, in
# an order that all of them share, as structs of tables have.
LAYOUTS: dict[str, list[Any]] = {
    "messages": [{"messages": [_USER, _ANSWER]}, {"messages": [_USER, _ANSWER, _USER, _ANSWER]}],
    "tools": [
        {"messages": [_USER, {"role": "assistant", "content": "", "tool_calls": [call]},
                      {"role": "tool", "content": "4", "name": "it"}, _ANSWER], "tools": tools}
        for call, tools in (
            (_call("area", {"n": 2}), [_AREA, _CITY]), (_call("city", {"name": "Rome"}), [_CITY]),
            (_call("area", {"n": 3, "unit": "m"}), [_AREA]),
        )
    ] + [{"messages": [_USER, _ANSWER]}],
    "ShareGPT": [{"conversations": _TURNS}, {"conversations": _TURNS, "system": "Be kind."}],
    "Alpaca": [{"instruction": "Add", "input": "1, 2", "output": "3"},
               {"instruction": "Hi", "output": "Hi!"}],
    "parts": [{"messages": [{"role": "user", "content": [{"type": "text", "text": "See"}]},
                            {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}]}],
    "extra keys": [{"messages": [_USER, {**_ANSWER, "reasoning_content": "Hm."}], "id": 7},
                   {"messages": [{**_USER, "name": "Ann"}, {**_ANSWER, "weight": 0}]},
                   {"messages": [_USER, _ANSWER], "source": "x"}],
}  # fmt: skip
