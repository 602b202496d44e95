"""Records of JSON files that are arrays, or objects one after the other, against `json`."""

import gzip
import io
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange, document_id
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_file
from corpusmill.corpus.records.json_lines import check_json_field
from corpusmill.corpus.records.json_values import check_json, find_values, read_json
from corpusmill.errors import UserError
from tests.tools.knobs import small_batches
from tests.tools.read_content import Content

OPTIONS = DocumentOptions(input_format="json", sentence_rule="document")


def read(data: bytes, options: DocumentOptions = OPTIONS, size: int = 2**20) -> Content:
    """Read a file, and check what holds for any file."""
    with small_batches(size):
        content = Content().add(read_json(io.BytesIO(data), FileRange("f", 2, options)))
    assert content.counts.rejected_rows == len(content.rejects)
    return content.balanced(len(data))


def test_records_end_where_their_brackets_are_closed() -> None:
    data = np.frombuffer(b'[{"a": 1}, 2]', np.uint8)
    begins, ends = find_values(data, 0, np.array([0, 0, 0, 0, -1]))
    assert (begins.tolist(), ends.tolist()) == ([1, 11], [9, 12])


TEXTS = st.text(st.sampled_from('ab"\\{}[], \n\u4e2d\U0001f600'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
RECORDS = st.lists(st.builds(lambda text, more: {"more": more, "text": text}, TEXTS, VALUES))


@given(
    RECORDS, st.sampled_from(["array", "lines", "objects"]), st.sampled_from([None, 1]),
    st.booleans(), st.sampled_from([1, 7, 60, 10_000]),
)  # fmt: skip
def test_all_written_records_are_read(
    records: list[dict[str, object]], kind: str, indent: int | None, mark: bool, size: int
) -> None:
    parts = [json.dumps(record, indent=indent) for record in records]
    written = {
        "array": json.dumps(records, indent=indent),
        "lines": "\n".join(parts),
        "objects": "".join(parts),
    }[kind]
    data = b"\xef\xbb\xbf" * mark + written.encode()
    content = read(data, size=size)
    texts = [str(record["text"]) for record in records]
    assert content.texts == [[text] for text in texts if text.strip()]
    assert not content.rejects
    assert content.counts.records == len(records)


@pytest.mark.parametrize("size", [1, 9, 1000])
@pytest.mark.parametrize(
    ("data", "texts", "rejects"),
    [
        (b'[{"text": "a"}, 3, {"text": "b"}]', "ab", [(16, 1, "not-an-object")]),
        (b'[{"text": "a"}, {"x": 1}, {"text": "b"}]', "ab", [(16, 8, "missing-field")]),
        (b'[{"text": "a"}, {"text": 1}]', "a", [(16, 11, "not-text")]),
        (b'{"text": "a"} x {"text": "b"}', "ab", [(14, 1, "invalid-json")]),
        (b'[{"text": "a"}, {"text": "b', "a", [(16, 11, "invalid-json")]),
        (b'[{"text": "\xff"}, {"text": "b"}]', "b", [(1, 13, "invalid-utf-8")]),
        (b'[{"text": "a"}, {"text": "' + b"x" * 50 + b'"}, {"text": "b"}]', "ab",
         [(16, 62, "record-too-long")]),
        (b'[{"text": "a"}, {"text": "' + b"x" * 50, "a", [(16, 60, "record-too-long")]),
        (b'[{"text": "a"}] [{"text": "b"}]\n{"text": "c"}', "abc", []),
        (b'[{"text": "a", "n": NaN}, {"text": "b", "n": 1e400}]', "ab", []),
    ],
)  # fmt: skip
def test_what_holds_no_text_is_a_reject(
    data: bytes, texts: str, rejects: list[tuple[int, int, str]], size: int
) -> None:
    content = read(data, replace(OPTIONS, max_line_bytes=40), size)
    assert content.texts == [[text] for text in texts]
    assert [(each.offset, each.length, each.reason) for each in content.rejects] == rejects


def test_a_document_is_known_by_the_byte_of_its_record() -> None:
    content = read(b'[\n  {"text": "a"}, {"text": "b"}]')
    assert [each for each, _ in content.documents] == [document_id(2, 4), document_id(2, 19)]


def test_nested_and_kept_fields_are_taken() -> None:
    options = replace(OPTIONS, text_field="data.text", keep_fields=("data.url", "n"))
    part = FileRange("f", 0, options)
    data = json.dumps([{"data": {"text": "a", "url": "u"}, "n": 2}, {"data": {"text": "b"}}])
    [batch] = read_json(io.BytesIO(data.encode()), part)
    kept = batch.documents.to_pylist()
    assert [list(row.values())[-2:] for row in kept] == [["u", "2"], [None, None]]


@pytest.mark.parametrize("cut", [30, 200, 400])
def test_a_compressed_file_that_ends_early_gives_what_it_holds(cut: int) -> None:
    packed = gzip.compress(json.dumps([{"text": f"{n * n} and {n}"} for n in range(200)]).encode())
    batches = list(read_file(io.BytesIO(packed[:-cut]), FileRange("f.json.gz", 0, OPTIONS)))
    rejects = [reject for batch in batches for reject in batch.rejects]
    assert sum(batch.documents.num_rows for batch in batches) > 50
    assert [reject.reason for reject in rejects] == ["damaged-compression"]
    assert sum(batch.counts.unfinished_files for batch in batches) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"body": "a"}]', r"--text-field text: .*its fields are body"),
        (b'{"data": {"id": 1}}', r"--text-field text: .*its fields are data"),
        (b'["a", "b"]', r"--input f: its first record is no object"),
        (b'{"text": {"en": "a", "de": "b"}}', r"--text-field text: .*this field holds an object"),
    ],
)
def test_wrong_fields_are_refused_before_any_work(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_json(io.BytesIO(data), "f", OPTIONS)


def test_records_in_another_shape_are_named_with_a_command_that_writes_them(
    tmp_path: Path,
) -> None:
    """jq is run where it is installed: its output must be the records, one a line."""
    records = [{"text": f"the river {n}", "id": n} for n in range(3)]
    columns = {name: [record[name] for record in records] for name in ("text", "id")}
    by_row = {str(n): record for n, record in enumerate(records)}
    shapes = {
        "a list in a field": {"version": 1, "data": records},
        "a list in a field of a field": {"all data": {"my rows": records}},
        "pandas: columns": {
            name: {str(n): value for n, value in enumerate(values)}
            for name, values in columns.items()
        },
        "pandas: index": by_row,
        "pandas: index of names": {f"row {n}": record for n, record in enumerate(records)},
        "pandas: split": {
            "columns": [*columns],
            "index": [0, 1, 2],
            "data": [[*record.values()] for record in records],
        },
        "pandas: table": {"schema": {"fields": [{"name": "text"}]}, "data": records},
        "lists": columns,
        "pandas: values": [[record["text"], record["id"]] for record in records],
        "texts": [record["text"] for record in records],
    }
    path, wrong = tmp_path / "d it.json", dict[str, object]()
    for name, shape in shapes.items():
        for indent in (None, 1):
            path.write_text(json.dumps(shape, indent=indent))
            check = check_json if indent or type(shape) is list else check_json_field
            with path.open("rb") as stream, pytest.raises(UserError) as caught:
                check(stream, str(path), OPTIONS)
            command = re.search(r"jq -c '.*?'(?: '.*?')?", caught.value.cure)
            assert command
            if not shutil.which("jq"):
                continue
            words = [*shlex.split(command[0])[:3], str(path)]
            lines = subprocess.run(words, capture_output=True, check=True).stdout
            read = [json.loads(line) for line in lines.splitlines()]
            expected = [{"text": record["text"]} for record in records]
            if read not in (records, expected):
                wrong[name] = read
    assert not wrong


def test_a_table_too_long_for_a_record_is_named_by_its_beginning() -> None:
    """No record of it ends in what is looked at."""
    options = replace(OPTIONS, max_line_bytes=2**20)
    rows = [{"text": "river " * 999} for _ in range(999)]
    for shape in ({"v": 1, "data": rows}, {"text": {str(n): "song " * 999 for n in range(999)}}):
        for check, indent in ((check_json_field, None), (check_json, 1)):
            data = json.dumps(shape, indent=indent).encode()
            with pytest.raises(UserError, match=r"--input f: .*(array of records|holds a column)"):
                check(io.BytesIO(data), "f", options)
