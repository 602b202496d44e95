"""The same records give a maker of texts the same mappings, whatever container holds them."""

import datetime as dt
import io
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions, TextMaker, make_texts
from corpusmill.corpus.tables.record_values import to_values
from corpusmill.errors import UserError
from tests.tools.containers import CONTAINERS, LAYOUTS, Record, avro, csv_cells, json_lines, parquet
from tests.tools.knobs import knobs
from tests.tools.read_content import Content, read_ranges
from tests.tools.table_files import parquet_of


@dataclass(frozen=True)
class Recorder:
    """Makes the text of a record that says all of it, with the types of Python."""

    fields: tuple[str, ...]

    def explain_lack(self, names: Sequence[str]) -> tuple[str, str] | None:
        return ("it lacks them", "Add them") if {*self.fields}.isdisjoint(names) else None

    def __call__(self, record: Mapping[str, Any], _: tuple[str, ...] = ()) -> str:
        return repr({**record})


def read(data: bytes, kind: str, fields: Sequence[str]) -> Content:
    return read_with(Recorder((*fields,)), data, kind)


def read_with(maker: TextMaker, data: bytes, kind: str, keep: Sequence[str] = ()) -> Content:
    options = DocumentOptions(
        input_format=kind,
        document_rule="whole-file",
        sentence_rule="document",
        keep_fields=(*keep,),
    )
    return read_ranges(data, make_texts(options, maker))


def texts_of(content: Content) -> list[str]:
    assert not content.rejects
    return [text for texts in content.texts for text in texts]


def test_six_layouts_in_all_containers() -> None:
    faults = []
    for layout, records in LAYOUTS.items():
        fields = [*dict.fromkeys(name for record in records for name in record)]
        expected = [repr(record) for record in records * 4]
        for container, (_, kind, write) in CONTAINERS.items():
            made = texts_of(read(write(records * 4), kind, fields))
            if made != expected:
                faults.append((layout, container, made[0], expected[0]))
    assert faults == []


def test_cells_of_csv_hold_json() -> None:
    records = LAYOUTS["tools"][:1]
    [text] = texts_of(read(csv_cells(records), "csv", ["messages", "tools"]))
    cells = {name: json.dumps(value) for name, value in records[0].items()}
    assert text == repr(cells)


def _json(kind: pa.DataType, *texts: str | None) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(kind), pa.array(texts, kind))


_MAP = pa.map_(pa.string(), pa.list_(pa.int64()))
_INNER = [{"a": [1, None], "b": None}, None, {}]


def test_values_of_every_type() -> None:
    struct = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.string())])
    plain: list[tuple[pa.Array, list[Any] | None]] = [
        (pa.array(_INNER, struct), [{"a": [1, None]}, None, {}]),
        (pa.array([_INNER, None]).slice(1), [None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        *((pa.array([[1], None, [2, None]], kind(pa.int64())).slice(1), [None, [2, None]])
          for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        # A map has the keys of its own row: a null in it was there.
        (pa.array([[], [("k", [1]), ("l", None)], None], _MAP).slice(1),
         [{"k": [1], "l": None}, None]),
        (pa.array([[(2, "x")]], pa.map_(pa.int64(), pa.string())), [{"2": "x"}]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        *((_json(kind, '{"a": null}', None, "null", '"x"', "[1]", "no JSON", "[" * 5000),
           [{"a": None}, None, None, "x", [1], "no JSON", "[" * 5000])
          for kind in (pa.string(), pa.large_string(), pa.string_view())),
        (pa.array([b"a", None], pa.binary_view()), ["a", None]),
        (pa.array([Decimal("1.50"), Decimal(2)]), [1.5, 2]),
        (pa.array([True, None]), [True, None]),
        (pa.array([dt.date(2020, 1, 2)]), ["2020-01-02"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (pa.array([2**62], pa.timestamp("s")), None),
        (pa.array([1], pa.duration("ns")), ["0:00:00"]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), None),
    ]  # fmt: skip
    differences = [
        (str(column.type), values)
        for column, expected in plain
        if (values := to_values(column)) != expected and expected is not None
    ]
    assert differences == []
    # The types of Python alone: 1.5 is no 1, and True is no 1.
    assert [type(value) for value in to_values(pa.array([Decimal(2), Decimal("0.5")]))] == [
        int, float,
    ]  # fmt: skip


def test_avro_maps_keep_their_nulls_and_records_do_not() -> None:
    inner = {
        "type": "record",
        "name": "inner",
        "fields": [
            {"name": "a", "type": ["null", "long"]},
            {"name": "b", "type": ["null", "string"]},
        ],
    }
    other = {"type": "record", "name": "other", "fields": [{"name": "c", "type": "bytes"}]}
    days = {"type": "int", "logicalType": "date"}
    values = ["null", {"type": "map", "values": ["null", inner, other, days]}]
    schema = {"type": "record", "name": "row", "fields": [
        {"name": "x", "type": values}, {"name": "y", "type": ["null", {"type": "array",
         "items": ["null", "inner"]}]}]}  # fmt: skip
    rows = [
        {"x": {"k": None, "l": {"a": 1, "b": None}, "m": {"c": b"z"}}, "y": [None, {"b": "u"}]},
        {"x": {"d": dt.date(2020, 1, 2)}, "y": None},
    ]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows)
    assert texts_of(read(sink.getvalue(), "avro", ["x", "y"])) == [
        repr({"x": {"k": None, "l": {"a": 1}, "m": {"c": "z"}}, "y": [None, {"b": "u"}]}),
        repr({"x": {"d": "2020-01-02"}}),
    ]


@dataclass(frozen=True)
class Deep(Recorder):
    """Goes as deep as a record does, as templates and `json` do."""

    def __call__(self, record: Mapping[str, Any], _: tuple[str, ...] = ()) -> str:
        return str(_depth([*record.values()]))


def _depth(value: Any) -> int:
    return 1 + max((_depth(item) for item in value if isinstance(item, list)), default=0)


def test_one_record_that_is_nested_too_deep_is_a_reject() -> None:
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    good = {"x": ["a"]}
    lines = json_lines([good] * 3).splitlines(keepends=True)
    lines[1:1] = [b'{"x":' + b"[" * n + b"]" * n + b"}\n" for n in (900, 5000)]
    column = _json(pa.string(), *(json.dumps(value) for value in (["a"], nested, ["a"], ["a"])))
    table = parquet_of(pa.table({"x": column}))
    outcomes = []

    def read_all() -> None:  # in a thread of its own the depth does not depend on the caller
        for data, kind in ((b"".join(lines), "json-lines"), (table, "parquet")):
            content = read_with(Deep(("x",)), data, kind, keep=["x"])
            outcomes.append((len(content.documents), {each.reason for each in content.rejects}))

    thread = threading.Thread(target=read_all)
    thread.start()
    thread.join()
    assert outcomes == [(3, {"invalid-json"})] * 2


def test_one_record_that_is_too_large_is_a_reject() -> None:
    records: list[Record] = [{"x": [{"a": letter * (90 if letter == "c" else 3)}]} for letter in
                             "abcd"]  # fmt: skip
    with knobs(nested_bytes=64):
        content = read_with(Recorder(("x",)), parquet(records), "parquet")
    assert [text for [text] in content.texts] == [repr(records[row]) for row in (0, 1, 3)]
    assert [(reject.reason, reject.detail[:6]) for reject in content.rejects] == [
        ("record-too-long", "row 2:")
    ]


def test_a_column_of_json_as_the_text_and_as_a_kept_field() -> None:
    column = _json(pa.string(), '"One."', '{"a":  1}', "null", None, '"Two."', "no", '"\\ud800"')
    data = parquet_of(pa.table({"text": column, "kept": column}))
    options = DocumentOptions(input_format="parquet", keep_fields=("kept",))
    content = read_ranges(data, options, [])
    assert content.texts == [["One."], ["Two."]]
    assert [row["kept"] for row in content.fields] == ["One.", "Two."]
    details = [(reject.reason, reject.detail.split(": ", 1)[1][:20]) for reject in content.rejects]
    assert details == [
        ("not-text", "text holds an object"), ("not-text", "text holds null"),
        ("not-text", "text holds null"), ("not-text", "text holds no JSON ("),
        ("invalid-utf-8", "'utf-8' codec can't "),
    ]  # fmt: skip
    as_field = DocumentOptions(input_format="parquet", text_field="x", keep_fields=("kept",))
    data = parquet_of(pa.table({"x": ["t"] * 7, "kept": column}))
    kept = [row["kept"] for row in read_ranges(data, as_field, []).fields]
    assert kept == ["One.", '{"a":  1}', None, None, "Two.", "no", "\ufffd"]


def test_a_maker_that_refuses_a_record_names_its_row() -> None:
    @dataclass(frozen=True)
    class Refusing(Recorder):
        def __call__(self, record: Mapping[str, Any], _: tuple[str, ...] = ()) -> str:
            if record["x"] == ["b"]:
                raise UnreadableError("not-so", "it is b")
            if record["x"] == ["d"]:
                raise UserError("the template", "it is wrong", "Repair it")
            return super().__call__(record)

    content = read_with(Refusing(("x",)), avro([{"x": ["a"]}, {"x": ["b"]}, {"x": ["c"]}]), "avro")
    assert [(reject.reason, reject.detail) for reject in content.rejects] == [
        ("not-so", "row 1: it is b")
    ]
    assert len(content.documents) == 2
    for container in ("JSON lines", "Parquet", "Avro"):  # a mistake of the user is not damage
        _, kind, write = CONTAINERS[container]
        with pytest.raises(UserError, match="it is wrong"):
            read_with(Refusing(("x",)), write([{"x": ["a"]}, {"x": ["d"]}]), kind)


def test_kept_fields_are_those_of_json_lines() -> None:
    records: list[Record] = [{"t": "x", "k": value} for value in (
        {"a": 1}, {"b": {"c": "z"}}, {"b": {"d": [{"e": 1}, {"f": 2}]}},
    )]  # fmt: skip
    kept = {}
    for container in ("JSON lines", "JSON", "Parquet", "Arrow stream", "Feather", "Avro"):
        _, kind, write = CONTAINERS[container]
        options = DocumentOptions(input_format=kind, text_field="t", keep_fields=("k",))
        kept[container] = [row["k"] for row in read_ranges(write(records), options, []).fields]
    expected = [json.dumps(record["k"], separators=(",", ":")) for record in records]
    assert [name for name, values in kept.items() if values != expected] == []


@pytest.mark.parametrize("storage", ["list", "column", "member"])
def test_what_datasets_writes_for_its_feature_json(storage: str, tmp_path: Any) -> None:
    datasets = pytest.importorskip("datasets", "4.8")
    value: Any = {"a": [1, None], "b": None}
    feature = {"list": datasets.List(datasets.Json()), "column": datasets.Json(),
               "member": {"m": datasets.Json()}}[storage]  # fmt: skip
    row = {"list": [value, 3, "t"], "column": value, "member": {"m": value}}[storage]
    made = datasets.Dataset.from_list([{"x": row}] * 3, datasets.Features({"x": feature}))
    made.save_to_disk(tmp_path / "disk")
    made.to_parquet(tmp_path / "x.parquet")
    [saved] = (tmp_path / "disk").glob("data-*.arrow")
    for path, kind in ((saved, "arrow"), (tmp_path / "x.parquet", "parquet")):
        assert texts_of(read(path.read_bytes(), kind, ["x"])) == [repr({"x": row})] * 3
