"""Texts and tables of a program become the file that `json.dumps` would write, line by line."""

import datetime as dt
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.errors import UserError
from pipeline.recipe.records import write_records
from tests.tools.lazily import LazyModule
from tests.tools.read_content import Content, read_ranges
from tests.tools.table_rows import check_rows

datasets = LazyModule("datasets")

TEXTS = ["The lamp burns.\nIt is dark.", 'A "quoted" – naïve 文本 \U0001f600.', "", " \t<b>"]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
TABLE = {"number": range(len(TEXTS)), "text": TEXTS}


class Sequenced:
    """A data set of PyTorch's kind, which only knows its items by number."""

    def __getitem__(self, number: int) -> str:
        return TEXTS[number]


GIVEN: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "generator": lambda: (text for text in TEXTS),
    "dicts": lambda: [{"text": text} for text in TEXTS],
    "items by number": Sequenced,
    "NumPy": lambda: np.array(TEXTS),
    "pandas": lambda: pd.DataFrame(TABLE),
    "pandas, chosen rows": lambda: pd.DataFrame(TABLE, index=[7, 3, 3, 1]),
    "pandas series": lambda: pd.Series(TEXTS),
    "polars": lambda: pl.DataFrame(TABLE),
    "polars lazy": lambda: pl.DataFrame(TABLE).lazy(),
    "polars series": lambda: pl.Series(TEXTS),
    "Arrow": lambda: pa.table(TABLE),
    "Arrow batch": lambda: pa.record_batch(pa.table(TABLE).to_pydict()),
    "Arrow reader": lambda: pa.table(TABLE).to_reader(max_chunksize=2),
    "Arrow array": lambda: pa.array(TEXTS),
    "Arrow dictionary": lambda: pa.table({"text": pa.array(TEXTS).dictionary_encode()}),
    "datasets": lambda: datasets.Dataset.from_dict(TABLE),
}


def write(
    given: Any, folder: Path, text_field: str = "text", keep_fields: Sequence[str] = ()
) -> str:
    file = write_records(given, str(folder), text_field, keep_fields)
    return Path(file.path).read_text()


def test_all_kinds_of_input_make_the_same_lines(tmp_path: Path) -> None:
    assert {kind for kind in GIVEN if write(GIVEN[kind](), tmp_path) != LINES} == set()


def test_dicts_stand_as_they_are_and_other_fields_are_found(tmp_path: Path) -> None:
    records = [{"id": 1, "body": "é", "tags": ["a"]}, {"body": "b"}]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    assert write(iter(records), tmp_path, "body") == lines
    assert write(["é"], tmp_path, "body") == '{"body": "\\u00e9"}\n'


def test_what_json_cannot_hold_is_neither_lost_nor_taken_for_text(tmp_path: Path) -> None:
    circular: dict[str, Any] = {"text": "kept"}
    circular["self"] = circular
    given = [None, 7, b"b", float("nan"), "\ud800", {"title": "t"}, circular, {"text": circular}]
    lines = [json.loads(line) for line in write(given, tmp_path).splitlines()]
    assert lines == [
        {"text": None}, {"text": 7}, {"text": {"type": "bytes"}}, {"text": None},
        {"text": "\ud800"}, {"title": "t"}, {"text": "kept"}, {"text": {"type": "dict"}},
    ]  # fmt: skip
    missing = pd.DataFrame({"text": ["a", None, np.nan, pd.NA, b"b"]}, dtype=object)
    assert [json.loads(line)["text"] for line in write(missing, tmp_path).splitlines()] == [
        "a", None, None, None, {"type": "bytes"},
    ]  # fmt: skip


def test_a_number_that_json_lacks_stands_as_json_dumps_writes_it(tmp_path: Path) -> None:
    given = [{"text": "a", "score": np.nan, "day": dt.date(2020, 1, 2)}]
    line = write(given, tmp_path, keep_fields=("score", "day"))
    assert line == '{"text": "a", "score": NaN, "day": "2020-01-02"}\n'


ROWS = [
    {"id": 1, "data": {"text": "a", "n": 1}, "meta": {"day": dt.date(2020, 1, 2)}},
    {"id": 2, "data": {"text": "b", "n": None}, "meta": None},
]
KINDS: dict[str, Callable[[], Any]] = {
    "dicts": lambda: ROWS,
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.DataFrame(ROWS).lazy(),
    "Arrow": lambda: pa.Table.from_pylist(ROWS),
    "datasets": lambda: datasets.Dataset(pa.Table.from_pylist(ROWS)),
}


def test_kept_and_nested_fields_are_taken_or_refused(tmp_path: Path) -> None:
    fields = ("id", "data.n", "meta.day")

    def read(kind: str, keep_fields: tuple[str, ...]) -> Content:
        options = DocumentOptions("json-lines", text_field="data.text", keep_fields=keep_fields)
        data = write(KINDS[kind](), tmp_path, "data.text", keep_fields).encode()
        check_start(io.BytesIO(data), "the input", options)
        return read_ranges(data, options)

    def check(kind: str) -> None:
        content = read(kind, fields)
        assert content.texts == [["a"], ["b"]]
        rows = [tuple(row.values()) for row in content.fields]
        assert rows[0] == ("1", "1", "2020-01-02")
        assert rows[1] in {("2", None, None), ("2", "NaN", None)}
        with pytest.raises(UserError, match=r"--keep-fields url: .* its fields are .*data"):
            read(kind, ("url",))

    check_rows(KINDS, check)


def test_the_name_of_the_file_is_a_digest_of_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first, again, other = (
        write_records(texts, str(tmp_path / folder), "text")
        for texts, folder in ((["x"], ""), (["x"], "a"), (["y"], "a"))
    )
    assert first.name == again.name != other.name
    assert first.path != again.path
    assert "/" not in first.name


def test_records_are_read_once_and_written_as_they_come(tmp_path: Path) -> None:
    path, seen = tmp_path / "records.jsonl", []

    def texts() -> Iterator[str]:
        for number in range(64):
            seen.append(path.stat().st_size if path.exists() else 0)
            yield str(number) * 40_000

    write_records(texts(), str(tmp_path), "text")
    assert len(seen) == 64
    assert seen[-1] > path.stat().st_size // 2


NO_INPUT = [
    (iter([]), "--input: it has no records"),
    ({"text": ["a"]}, "--input: it is of type dict, with text"),
    (b"text", "--input: it is of type bytes"),
    (7, "--input: it is of type int"),
    (lambda: datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": ["a"]})), "with train"),
    (pd.DataFrame({"body": ["a"]}), "--text-field text: .* its fields are body"),
    (pl.DataFrame({"body": ["a"]}), "--text-field text: .* its fields are body"),
    (pa.table({"body": ["a"]}), "--text-field text: .* its fields are body"),
    (lambda: datasets.Dataset.from_dict({"body": ["a"]}), "its fields are body"),
    (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "several columns"),
]


def test_what_is_no_input_is_refused(tmp_path: Path) -> None:
    def check(row: tuple[Any, str]) -> None:
        with pytest.raises(UserError, match=row[1]):
            write(row[0]() if callable(row[0]) else row[0], tmp_path)

    check_rows(NO_INPUT, check)


def test_a_data_set_of_many_rows_is_read_in_steps(tmp_path: Path) -> None:
    for rows in (1023, 1024, 1025):
        texts = [f"{number}" for number in range(rows)]
        given = datasets.Dataset.from_dict({"text": texts})
        assert [json.loads(line)["text"] for line in write(given, tmp_path).splitlines()] == texts
