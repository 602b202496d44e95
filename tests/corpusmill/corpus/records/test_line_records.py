"""Records that are lines, against a plain-Python reading of the whole file."""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange, ReadCounts, Reject, UnreadableError, document_id
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.corpus.records.json_lines import (
    keep_values,
    parse_json,
    read_line_records,
    take_text,
)
from corpusmill.errors import UserError
from tests.tools.knobs import knobs, small_batches
from tests.tools.read_content import read_ranges
from tests.tools.table_files import cut_lines

JSON = DocumentOptions(input_format="json-lines", max_line_bytes=60, max_document_bytes=12)
LINES = replace(JSON, input_format="lines")
Documents = list[tuple[int, list[str]]]

texts = st.text(st.sampled_from("ab \n\té漢😀\u2028\u00a0"), max_size=14)
json_lines = st.one_of(
    texts.map(lambda text: json.dumps({"text": text}, ensure_ascii=False).encode()),
    texts.map(lambda text: json.dumps({"n": 1, "text": text}).encode()),
    st.sampled_from(
        [b"", b"  ", b"{", b"[1]", b'{"text": 3}', b'{"text": null}', b'{"other": "x"}', b"\xff",
         b'{"text": "\\ud800"}', b'{"text": "' + b"x" * 60 + b'"}', b'\t{"text": "a"}\r']
    ),
)  # fmt: skip
plain_lines = st.one_of(texts.map(lambda text: text.replace("\n", " ").encode()),
                        st.sampled_from([b"", b"\xff", b"y" * 70]))  # fmt: skip

CUTS, SIZES = st.lists(st.integers(0, 300), max_size=5), st.sampled_from([1, 7, 100, 10_000])


def files(lines: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    ended = st.lists(lines, max_size=8).map(lambda lines: b"".join(line + b"\n" for line in lines))
    return st.builds(lambda whole, rest: whole + rest, ended, st.one_of(st.just(b""), lines))


def text_of_json(line: bytes) -> str | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str) or any("\ud800" <= char <= "\udfff" for char in text):
        return None
    return text


def reference(
    data: bytes, options: DocumentOptions, text_of: Callable[[bytes], str | None]
) -> tuple[Documents, list[int], int]:
    """Return the documents, the offsets of the rejects, and the number of lines."""
    documents: Documents = []
    rejects = []
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    offset = 0
    for line in lines:
        text: str | None = None
        try:
            stripped = line.decode().strip().encode()
            text = text_of(stripped) if len(line) <= options.max_line_bytes else None
        except UnicodeDecodeError:
            stripped = line
        if text is not None and stripped:
            pieces = enumerate(cut_lines(text.split("\n"), options.max_document_bytes))
            documents += [(document_id(3, offset) + place, piece) for place, piece in pieces]
        elif stripped:
            rejects.append(offset)
        offset += len(line) + 1
    return documents, rejects, len(lines)


def check(
    data: bytes, options: DocumentOptions, cuts: list[int], size: int,
    text_of: Callable[[bytes], str | None],
) -> None:  # fmt: skip
    documents, rejects, lines = reference(data, options, text_of)
    with small_batches(size):
        whole, joined = read_ranges(data, options), read_ranges(data, options, cuts)
    assert whole.documents == documents
    assert [reject.offset for reject in whole.rejects] == rejects
    counts = whole.balanced(len(data)).counts
    assert (counts.lines, counts.rejected_lines) == (lines, len(rejects))
    assert joined == whole


@given(files(json_lines), CUTS, SIZES)
def test_json_lines_in_ranges_are_the_whole_file(data: bytes, cuts: list[int], size: int) -> None:
    check(data, JSON, cuts, size, text_of_json)


@given(files(plain_lines), CUTS, SIZES)
def test_lines_in_ranges_are_the_whole_file(data: bytes, cuts: list[int], size: int) -> None:
    check(data, LINES, cuts, size, bytes.decode)


def test_every_cut_of_a_small_file() -> None:
    data = b'{"text": "a\\nb"}\n\n{"text": 1}\n{"text": "' + b"z" * 70 + b'"}\n{"text": "c"}'
    for first in range(len(data) + 1):
        check(data, JSON, [first, first + 9], 16, text_of_json)


REFUSED = [
    (b"{", "invalid-json", "unexpected end"),
    (b'{"text": NaN}', "not-text", "text holds a number"),
    (b'{"text": "a", "n": nan}', "invalid-json", "expected"),
    (b'{"text": "a", "n": ' + b"[" * 1200 + b"]" * 1200 + b"}", "invalid-json", "depth"),
    (b'{"text": "a", "n": [NaN, ' + b"[" * 10**5 + b"]" * 10**5 + b"]}", "invalid-json", ""),
    (b'{"meta": {"body": "x"}}', "missing-field", "its fields are meta, meta.body"),
    (b'{"text": "\\ud800"}', "invalid-surrogate", "surrogate"),
    (b'"words"', "not-an-object", "a string"),
    (b"[1]", "not-an-object", "an array"),
    (b'{"title": "x", "body": "y"}', "missing-field", "its fields are title, body"),
    (b"{}", "missing-field", "its fields are none"),
    (b'{"text": null}', "not-text", "text holds null"),
    (b'{"text": 3.5}', "not-text", "text holds a number"),
    (b'{"text": true}', "not-text", "text holds a truth value"),
    (b'{"text": ["a"]}', "not-text", "text holds an array"),
    (b'{"text": {"a": 1}}', "not-text", "text holds an object"),
]


def test_a_refusal_tells_its_reason() -> None:
    wrong = []
    for line, reason, detail in REFUSED:
        with pytest.raises(UnreadableError) as refused:
            take_text(parse_json(line), DocumentOptions(text_field="text"))
        if refused.value.reason != reason or detail not in refused.value.detail:
            wrong.append((line[:40], refused.value.args))
    assert not wrong


NOT_STRICT = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 5000, b"-" + b"9" * 30, b'"\\ud800"',
    b'"\\udc80\\ud83d"', b'["a", {"b": NaN}]', b'{"\\ud800": 1}',
)  # fmt: skip


def test_what_json_does_not_allow_in_another_field_costs_no_record() -> None:
    lines = [b'{"n": ' + value + b', "text": "caf\xc3\xa9", "id": 3}\n' for value in NOT_STRICT]
    options = DocumentOptions(input_format="json-lines", keep_fields=("id",))
    for line in lines:
        check_start(io.BytesIO(line), "f", options)
    content = read_ranges(b"".join(lines), options)
    assert (content.texts, content.rejects) == ([["caf\u00e9"]] * len(lines), [])
    assert content.fields == [{"id": "3"}] * len(lines)


def test_what_json_does_not_allow_is_kept_as_text() -> None:
    expected = [
        "NaN", "Infinity", "-Infinity", "Infinity", "Infinity", "-1e+30", "\ufffd", "\ufffd\ufffd",
        '["a",{"b":null}]', '{"\ufffd":1}',
    ]  # fmt: skip
    lines = (b'{"n": ' + value + b', "text": "a"}\n' for value in NOT_STRICT)
    data = b"".join(lines) + b'{"text": "b", "n": "c"}\n'
    content = read_ranges(data, DocumentOptions(input_format="json-lines", keep_fields=("n",)))
    assert [fields["n"] for fields in content.fields] == [*expected, "c"]


@pytest.mark.parametrize("depth", [100, 300, 900, 1000])
def test_a_value_that_is_nested_too_deep_is_kept_or_costs_its_record(depth: int) -> None:
    value = "[" * depth + "]" * depth
    data = f'{{"text": "a", "n": {value}}}\n{{"text": "b"}}\n'.encode()
    content = read_ranges(data, DocumentOptions(input_format="json-lines", keep_fields=("n",)))
    assert content.texts[-1] == ["b"]
    if content.rejects:
        assert [reject.reason for reject in content.rejects] == ["invalid-json"]
    else:
        assert content.fields[0]["n"] == value


NESTED = [
    ({"data.text": "a", "data": {"text": "b"}}, "data.text", "a"),
    ({"data": {"text": "b"}}, "data.text", "b"),
    ({"a.b": {"c": "x"}}, "a.b.c", "x"),
    ({"a": {"b.c": "x"}}, "a.b.c", "x"),
    ({"a": {"b": {"c": "x"}}}, "a.b.c", "x"),
    ({"a": {"b": {}}, "a.b": {"c": "x"}}, "a.b.c", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "name", "text"), NESTED)
def test_a_nested_field_is_named_with_dots(record: dict[str, object], name: str, text: str) -> None:
    assert take_text(record, DocumentOptions(text_field=name)) == text
    assert keep_values({**record, "text": "t"}, DocumentOptions(keep_fields=(name, "other.x"))) == [
        text,
        None,
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [({"data": None}, "not-text"), ({"data": [{"text": "a"}]}, "missing-field"),
     ({"data": "a"}, "missing-field"), ({"data": {"Text": "a"}}, "missing-field")],
)  # fmt: skip
def test_a_path_leads_through_objects_alone(record: dict[str, object], reason: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        take_text(record, DocumentOptions(text_field="data.text"))
    assert refused.value.reason == reason
    assert keep_values({**record, "text": "t"}, DocumentOptions(keep_fields=("data.text",))) == [
        None
    ]


@pytest.mark.parametrize(
    ("held", "words"),
    [({"0": "a", "1": "b"}, "an object"), (["a"], "an array"), (3, "a number"), (False, "a truth")],
)  # fmt: skip
def test_a_first_text_that_is_none_is_refused_before_any_work(held: object, words: str) -> None:
    for size in (1, 2**20):  # pandas writes a table as one object on one line
        data = json.dumps({"text": held, "id": "x" * size}).encode()
        with pytest.raises(UserError, match=f"holds {words}"):
            check_start(io.BytesIO(data), "f", DocumentOptions(input_format="json-lines"))


def test_a_reject_names_the_line() -> None:
    [batch] = read_line_records(io.BytesIO(b'{"text": "a"}\n{"x": 1}\n'), FileRange("f", 0, JSON))
    assert batch.rejects == (Reject("f", 14, 8, "missing-field", "its fields are x"),)
    assert batch.documents.to_pylist() == [{"document": 0, "sentences": ["a"], "length": 13}]


@given(
    st.sampled_from([b"", b" \xc2\xa0", b"\xef\xbb\xbf"]),
    json_lines,
    st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xe6\xbc"]),
    st.integers(0, 40),
)
def test_bad_utf_8_and_bad_json_are_distinguished(
    before: bytes, line: bytes, wrong: bytes, place: int
) -> None:
    line = before + line[:place] + wrong + line[place:]
    options = replace(JSON, max_line_bytes=200)
    [batch] = read_line_records(io.BytesIO(line + b"\n"), FileRange("f", 0, options))
    with pytest.raises(UnicodeDecodeError) as error:
        line.decode()
    assert batch.rejects == (Reject("f", 0, len(line), "invalid-utf-8", str(error.value)),)


def test_another_field_can_be_named() -> None:
    assert take_text({"text": 1, "body": "words"}, DocumentOptions(text_field="body")) == "words"


def test_rejects_of_all_kinds_are_in_the_order_of_the_file() -> None:
    data = b"{\n\xff\n[1]\n" + b"x" * 70 + b"\n{}\n"
    for size in (1, 10_000):
        with small_batches(size):
            content = read_ranges(data, JSON)
        assert [reject.offset for reject in content.rejects] == [0, 2, 4, 8, 79]


def test_a_block_of_many_records_keeps_them_all_in_order() -> None:
    lines = [b"[]" if n % 1000 == 7 else b'{"text": "%d"}' % n + b" " * 40 for n in range(20_000)]
    with small_batches(2**21):
        content = read_ranges(b"\n".join(lines), replace(JSON, max_line_bytes=100))
    assert content.texts == [[str(n)] for n in range(20_000) if n % 1000 != 7]
    assert len(content.rejects) == 20


def test_an_empty_file_gives_one_empty_batch() -> None:
    [batch] = read_line_records(io.BytesIO(), FileRange("f", 0, JSON))
    assert batch.documents.num_rows == 0
    assert batch.counts == ReadCounts()


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_first_record_of_up_to_a_megabyte_is_judged_before_any_work(extra: int) -> None:
    start, end = b'{"body": "', b'"}'
    line = start + b"x" * (2**20 + extra - len(start) - len(end)) + end
    stream = io.BytesIO(line + b"\n")
    with pytest.raises(UserError, match="its fields are body"):
        check_start(stream, "f", JSON)


@pytest.mark.parametrize(("limit", "sizes"), [(2, [2, 2, 1]), (3, [3, 2]), (5, [5, 0]), (6, [5])])
def test_many_records_end_a_batch(limit: int, sizes: list[int]) -> None:
    part = FileRange("f", 0, DocumentOptions(input_format="lines"))
    with knobs(batch_rows=limit, block_lines=1):
        batches = [*read_line_records(io.BytesIO(b"a\nb\nc\nd\ne\n"), part)]
    assert [batch.counts.records for batch in batches] == sizes
