"""What readers tell of a document beside its text: where its record ends, and its kept fields."""

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, judge_name, read_corpus, resolve_format
from corpusmill.errors import UserError
from tests.tools.corpus_files import as_tar, as_wet
from tests.tools.knobs import small_batches
from tests.tools.read_content import Content, read_ranges
from tests.tools.table_files import arrow_of, parquet_of

JSON = DocumentOptions(input_format="json-lines", keep_fields=("url", "n"))
DOCUMENTS = [["One .", "Two ."], ["Three ."], ["Four .", "Five .", "Six ."]]


def records_of(data: bytes, options: DocumentOptions) -> list[bytes]:
    """The bytes of the file that each document's place and length tell."""
    return [data[place:end] for place, end in read_ranges(data, options).records]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (DocumentOptions(), [b"\xef\xbb\xbfa\n b", b"c  \n\xff\nd"]),
        (DocumentOptions(document_rule="whole-file"),
         [b"\xef\xbb\xbfa\n b \n\n= t =\n\nc  \n\xff\nd"]),
        (DocumentOptions(document_rule="blank-lines", sentence_rule="document"),
         [b"\xef\xbb\xbfa\n b ", b"= t =", b"c  \n\xff\nd"]),
        (DocumentOptions(document_rule="wikitext-articles", sentence_rule="document"),
         [b"\xef\xbb\xbfa\n b \n\n", b"= t =\n\nc  \n\xff\nd\r\n"]),
        (DocumentOptions(document_rule="whole-file", max_document_bytes=2),
         [b"\xef\xbb\xbfa\n b", b"= t =", b"c  \n\xff\nd"]),
        (DocumentOptions(input_format="lines"), [b"\xef\xbb\xbfa", b" b", b"= t =", b"c", b"d"]),
        (DocumentOptions(input_format="lines", sentence_rule="document"),
         [b"\xef\xbb\xbfa", b" b ", b"= t =", b"c  ", b"d"]),
    ],
)  # fmt: skip
def test_a_document_reaches_to_its_last_text(
    options: DocumentOptions, expected: list[bytes]
) -> None:
    data = b"\xef\xbb\xbfa\n b \n\n= t =\n\nc  \n\xff\nd\r\n"
    assert records_of(data, replace(options, input_format=options.input_format)) == expected


def test_sentences_are_split_within_their_record() -> None:
    options = DocumentOptions(sentence_rule="split", language="zh")
    data = "他说。我走。\n\n好。".encode()
    content = read_ranges(data, options)
    assert content.texts == [["他说。", "我走。"], ["好。"]]
    assert [data[place:end].decode() for place, end in content.records] == ["他说。我走。", "好。"]


texts = st.text(st.sampled_from('ab \n"é'), max_size=12)


@given(st.lists(st.tuples(texts, st.sampled_from(["\n", "\r\n", "  \n"])), max_size=6))
@settings(deadline=None)
def test_records_of_json_lines_are_read_back(lines: list[tuple[str, str]]) -> None:
    encoded = [(json.dumps({"text": text, "url": text}), end) for text, end in lines]
    data = "".join(line + end for line, end in encoded).encode()
    content = read_ranges(data, JSON)
    again = [json.loads(data[place:end]) for place, end in content.records]
    kept = [text for text, _ in lines if text.strip()]
    assert [record["text"] for record in again] == kept
    assert content.fields == [{"url": text, "n": None} for text in kept]
    assert all(data[:place][-1:] in {b"", b"\n"} for place, _ in content.records)


@given(st.lists(st.tuples(texts, texts), max_size=6), st.sampled_from(["\n", "\r\n"]))
@settings(deadline=None)
def test_records_of_csv_are_read_back(rows: list[tuple[str, str]], end: str) -> None:
    sink = io.StringIO()
    csv.writer(sink, lineterminator=end).writerows([("text", "url"), *rows])
    data = sink.getvalue().encode()
    content = read_ranges(data, DocumentOptions(input_format="csv", keep_fields=("url",)))
    kept = [[text, url] for text, url in rows if text.strip()]
    parts = [data[place:end].decode() for place, end in content.records]
    assert [next(csv.reader(io.StringIO(part, newline=""))) for part in parts] == kept
    assert [[fields["url"]] for fields in content.fields] == [[url] for _, url in kept]


@pytest.mark.parametrize(("kind", "write"), [("tar", as_tar), ("wet", as_wet)])
@pytest.mark.parametrize("large", [False, True])
def test_members_of_archives_are_read_back(kind: str, write: Any, large: bool) -> None:
    data = write(DOCUMENTS)
    # A member above the limit of lines is read line by line.
    options = DocumentOptions(input_format=kind, max_line_bytes=8 if large else 100)
    for name, content in ((f"a.{kind}", data), (f"a.{kind}.gz", gzip.compress(data))):
        stream = open_decompressed(io.BytesIO(content), name)
        read = Content().add(read_corpus(stream, FileRange(name, 3, options)))
        records = [data[place:end].decode() for place, end in read.records]
        assert records == ["\n".join(lines) for lines in DOCUMENTS]


def test_pieces_of_a_record_end_where_it_ends() -> None:
    data = b'{"text": "aaa\\nbbb\\nccc", "url": "u", "n": 1}\n{"text": "d"}\n'
    content = read_ranges(data, replace(JSON, max_document_bytes=4))
    assert content.texts == [["aaa"], ["bbb"], ["ccc"], ["d"]]
    end = data.index(b"\n")
    assert content.records == [(0, end), (1, end), (2, end), (end + 1, len(data) - 1)]
    assert content.fields == [{"url": "u", "n": "1"}] * 3 + [{"url": None, "n": None}]


VALUES: list[tuple[Any, str | None]] = [
    ("a\nb", "a\nb"), ("", ""), (None, None), (3, "3"), (-1.5, "-1.5"), (True, "true"),
    ([1, "é"], '[1,"é"]'), ({"a": None}, '{"a":null}'), (2**63 + 1, "9223372036854775809"),
]  # fmt: skip


def test_fields_of_json_lines_become_text() -> None:
    rows = [{"text": "t", "n": value} for value, _ in VALUES] + [{"text": "t"}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    for cuts, size in (((), 2**20), ((40, 90), 2**20), (range(0, 300, 7), 1)):
        with small_batches(size):
            content = read_ranges(data, JSON, list(cuts))
        assert [fields["n"] for fields in content.fields] == [*(text for _, text in VALUES), None]


def test_fields_of_refused_and_empty_records_are_left_out() -> None:
    data = b'{"text": "a", "url": "1"}\n{"url": "2"}\n{"text": " ", "url": "3"}\n[]\n'
    data += b'{"text": "b", "url": "4"}\n'
    assert [fields["url"] for fields in read_ranges(data, JSON).fields] == ["1", "4"]


TABLE = pa.table(
    {
        "s": ["a", None, "é"],
        "text": ["One .\nTwo .", "", "Three ."],
        "n": [1, None, 3],
        "b": [True, False, None],
        "f": [1.0, 2.5, None],
        "d": pa.array([dt.date(2020, 1, 2), None, dt.date(1, 1, 1)], pa.date32()),
        "t": pa.array([0, 1, None], pa.timestamp("ns", "Europe/Berlin")),
        "l": [[1, 2], [], None],
        "m": [{"x": "y", "z": None}, None, {"x": "é", "z": 1}],
        "c": pa.array(["p", "p", None]).dictionary_encode(),
        "raw": [b"ok", b"\xff", None],
    }
)
EXPECTED = {
    "s": ["a", "é"], "n": ["1", "3"], "b": ["true", None], "f": ["1.0", None],
    "d": ["2020-01-02", "0001-01-01"], "t": ["1970-01-01T00:00:00.000000000Z", None],
    "l": ["[1,2]", None], "m": ['{"x":"y"}', '{"x":"é","z":1}'], "c": ["p", None],
    "raw": ["ok", None],
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "write"),
    [("parquet", parquet_of), ("arrow", partial(arrow_of, new=pa.ipc.new_stream)),
     ("parquet", lambda table, rows: parquet_of(table, rows, use_dictionary=False))],
)  # fmt: skip
def test_fields_of_tables_become_text(kind: str, write: Any, rows: int) -> None:
    data, names = write(TABLE, rows), tuple(EXPECTED)
    options = DocumentOptions(input_format=kind, keep_fields=names)
    for cuts in ([], [len(data) // 2], list(range(0, len(data), 97))):
        content = read_ranges(data, options, cuts)
        assert content.texts == [["One .", "Two ."], ["Three ."]]
        assert content.lengths == [1, 1]
        assert {name: [row[name] for row in content.fields] for name in names} == EXPECTED
    for name in names:
        alone = read_ranges(data, replace(options, keep_fields=(name,)))
        assert [row[name] for row in alone.fields] == EXPECTED[name]


@pytest.mark.parametrize("nested", [False, True])
def test_fields_of_avro_become_text(nested: bool) -> None:
    kinds: dict[str, Any] = {
        "text": "string", "url": ["null", "string"], "n": "long",
        "day": {"type": "int", "logicalType": "date"},
        "tags": {"type": "array", "items": "string"},
    }  # fmt: skip
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    rows: list[dict[str, Any]] = [
        {"text": "a", "url": "u", "n": 1, "day": dt.date(2020, 1, 2), "tags": ["x", "y"]},
        {"text": "b", "url": None, "n": 2, "day": dt.date(2021, 1, 2), "tags": []},
    ]
    sink = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    fastavro.writer(sink, schema, rows, sync_interval=1)
    names = ("day", "url", "n", *(["tags"] if nested else []))
    options = DocumentOptions(input_format="avro", keep_fields=names)
    content = read_ranges(sink.getvalue(), options, [150, 200])
    expected = {"day": ["2020-01-02", "2021-01-02"], "url": ["u", None], "n": ["1", "2"]}
    expected |= {"tags": ['["x","y"]', "[]"]} if nested else {}
    assert {name: [row[name] for row in content.fields] for name in names} == expected
    assert content.lengths == [1, 1]


def test_pieces_of_a_row_keep_its_fields() -> None:
    data = parquet_of(pa.table({"text": ["aa\nbb\ncc", "d"], "url": ["1", "2"]}), 2)
    options = DocumentOptions(input_format="parquet", keep_fields=("url",), max_document_bytes=2)
    content = read_ranges(data, options)
    assert [fields["url"] for fields in content.fields] == ["1", "1", "1", "2"]
    assert content.lengths == [1, 1, 1, 1]


def test_a_field_that_is_too_long_costs_its_row() -> None:
    data = parquet_of(pa.table({"text": ["a", "b"], "url": ["1", "2" * 30]}), 2)
    options = DocumentOptions(input_format="parquet", keep_fields=("url",), max_line_bytes=20)
    content = read_ranges(data, options)
    assert content.texts == [["a"]]
    [reject] = content.rejects
    assert reject.reason == "record-too-long"
    assert "url has 30 bytes" in reject.detail


def test_large_fields_make_small_batches() -> None:
    table = pa.table({"text": ["a"] * 64, "url": ["u" * 2**18] * 64})
    options = DocumentOptions(input_format="parquet", keep_fields=("url",))
    part = FileRange("f", 0, options)
    batches = list(read_corpus(io.BytesIO(parquet_of(table, 64)), part))
    assert sum(batch.documents.num_rows for batch in batches) == 64
    assert max(batch.documents.nbytes for batch in batches) < 2**22


def test_a_column_that_a_later_file_lacks_is_null() -> None:
    table = pa.table({"text": ["a"]})
    options = DocumentOptions(keep_fields=("url",))
    for kind, data in (("parquet", parquet_of(table, 1)), ("arrow", arrow_of(table, 1)),
                       ("csv", b"text\na\n")):  # fmt: skip
        content = read_ranges(data, replace(options, input_format=kind))
        assert (content.texts, content.fields) == ([["a"]], [{"url": None}])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("url", ""), "empty"), (("url,,id",), "empty"), (("url", "id", "url"), "twice"),
        (("digest",), "of its own"), (("url,document",), "of its own"), (("text",), "the text"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_kept_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        DocumentOptions(keep_fields=names)
    assert "--keep-fields" in str(refused.value)


def test_names_are_separated_by_commas_or_spaces() -> None:
    expected = ("url", "id", "date")
    for names in (("url,id,date",), ("url", "id, date"), expected):
        assert DocumentOptions(keep_fields=names).keep_fields == expected


def test_only_kept_fields_are_recorded() -> None:
    assert "keep_fields" not in DocumentOptions().recorded()
    assert DocumentOptions(keep_fields=("url",)).recorded()["keep_fields"] == ("url",)


@pytest.mark.parametrize("name", ["a.txt", "a.tar", "a.wet"])
def test_formats_without_fields_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="have no fields"):
        resolve_format(DocumentOptions(keep_fields=("url",)), {name: judge_name(name)})
    resolve_format(DocumentOptions(keep_fields=("url",)), {"a.jsonl": judge_name("a.jsonl")})


def test_a_table_without_the_column_is_refused() -> None:
    table = pa.table({"text": ["a"], "source": ["b"]})
    options = DocumentOptions(keep_fields=("url",))
    for kind, data in (("parquet", parquet_of(table, 1)), ("arrow", arrow_of(table, 1)),
                       ("csv", b"text,source\na,b\n")):  # fmt: skip
        with pytest.raises(UserError, match="text, source"):
            check_start(io.BytesIO(data), "f", replace(options, input_format=kind))


def test_a_column_that_a_header_names_twice_is_refused() -> None:
    options = DocumentOptions(input_format="csv", keep_fields=("url",))
    with pytest.raises(UserError, match="more than once"):
        check_start(io.BytesIO(b"text,url,url\n"), "f", options)


def test_any_record_of_json_lines_may_lack_a_field_but_not_all_of_them() -> None:
    check_start(
        io.BytesIO(b'{"text": "a"}\n{"text": "b", "n": 1}\n{"text": "c", "url": null}\n'), "f", JSON
    )
    with pytest.raises(UserError, match=r"its fields are text, meta, meta\.url, n") as refused:
        check_start(
            io.BytesIO(b'{"text": "a", "meta": {"url": 1}}\n{"text": "b", "n": 1}\n'), "f", JSON
        )
    assert "--keep-fields url" in str(refused.value)


def facts_of(content: Content) -> Sequence[object]:
    return content.documents, content.lengths, content.fields


@given(st.lists(st.integers(0, 500), max_size=5), st.sampled_from([1, 30, 2**20]))
@settings(deadline=None)
def test_facts_do_not_depend_on_ranges_and_batches(cuts: list[int], size: int) -> None:
    rows = [
        {"text": f"a\nb {n}\n" * (n % 4), "url": "u" * n, "n": n % 3 or None} for n in range(20)
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    options = replace(JSON, max_document_bytes=4)
    with small_batches(size):
        content = read_ranges(data, options, cuts)
    assert facts_of(content) == facts_of(read_ranges(data, options))
