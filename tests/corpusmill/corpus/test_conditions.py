"""Conditions over the fields of records: what is taken is what DuckDB finds in the files."""

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.conditions import settle_condition
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_file
from corpusmill.errors import UserError
from tests.tools.knobs import small_batches

duckdb = pytest.importorskip("duckdb")

_SIMPLE = [
    "score > 0.5", "score >= 1", "score = 0", "score IS NULL", "score IS NOT NULL AND score < 0.2",
    "score BETWEEN 0.25 AND 0.75", "NOT score > 0.5", "score <> 1", "score IS DISTINCT FROM 1",
    "score * 2 > 1.5", "score + id > 100", "round(score, 1) = 0.5", "abs(score - 0.5) < 0.1",
    "score > 0.5 OR lang = 'en'", "score > 0.5 AND lang = 'en'", "score::VARCHAR LIKE '0.1%'",
    "id % 7 = 3", "id // 10 = 4", "id / 2 > 100", "id IN (1, 5, 9, 11111)", "id < 50 OR id > 250",
    "ID = 7", "id = 7.0", "id::VARCHAR LIKE '%9'", "id & 4 = 4", "-id > -20", "id ** 2 < 500",
    "big > 4611686018427387904", "big = 4611686018427387910", "big < 0", "big % 2 = 1",
    "lang = 'en'", "lang IN ('en', 'de')", "lang NOT IN ('en', 'de')", "lang IS NULL",
    "lang <> 'en'", "lang = 'ü''x'", "lang = 'q\"t'", "lang LIKE 'e_'", "lang ILIKE 'EN'",
    "upper(lang) = 'ZH'", "length(lang) = 3", "lang > 'e'", "lang || '!' = 'en!'",
    "lang = '日本語'",
    "starts_with(lang, 'ü')", "contains(lang, 't')", "regexp_matches(lang, '^[a-z]{2}$')",
    "coalesce(lang, 'none') = 'none'", "lang SIMILAR TO '(en|de)'", "lang[1] = 'e'",
    "strlen(lang) = 9", "lang = ''", "nullif(lang, 'en') IS NULL", "hash(lang) % 2 = 0",
    "CASE WHEN lang = 'en' THEN score > 0.5 ELSE score < 0.5 END", "concat(lang, id) = 'en4'",
    "ok", "NOT ok", "ok IS NULL", "ok = true", "ok AND score > 0.5", "ok IS NOT TRUE",
    "text LIKE '%fox%'", "length(text) > 40", "text LIKE '%1%' AND id < 100", "text IS NOT NULL",
    "date > '2024-06-01'", "date = DATE '2024-02-29'", "year(date) = 2024",
    "month(date) IN (1, 2)",
    "date BETWEEN '2024-03-01' AND '2024-04-01'", "date + INTERVAL 1 DAY > '2024-12-01'",
    "dayofweek(date) = 0", "extract(day FROM date) = 1",
    "date_diff('day', date, DATE '2024-12-31') < 30",
    "seen > '2024-01-15'", "hour(seen) = 3", "seen::DATE = '2024-01-02'",
    "date_trunc('hour', seen) = seen",
    "seen < TIMESTAMP '2024-01-05 10:00:00'", "strftime(seen, '%H') = '05'", "epoch(seen) % 2 = 0",
]  # fmt: skip
_NESTED = [
    "meta IS NULL", "meta.score > 1", "meta.score > 1 OR meta.score IS NULL", "meta.n.k = 2",
    "meta.url LIKE 'http://%/1%'", "meta.n.k IS NULL AND meta IS NOT NULL", "META.Score > 2.5",
    "meta['score'] > 1", "struct_extract(meta, 'url') LIKE '%7'", "meta.\"n\".k < score",
    "meta.\"odd key\" = 'a.b'", "meta.\"odd key\" IS NULL", "meta.score + score > 2",
    "tags IS NULL", "len(tags) = 2", "'a' IN tags", "list_contains(tags, 'b')", "tags[1] = 'c'",
    "tags = ['a', 'b']", "list_has_any(tags, ['b', 'c'])",
    "len(list_filter(tags, lambda x: x = 'a')) > 0",
    "tags = []", "array_to_string(tags, '+') = 'a+b'", "tags[2] IS NULL",
    "list_sort(tags)[1] = 'a'",
    "len(parts) > 1", "parts[1].k > 3", "list_transform(parts, lambda p: p.k)[1] = 2",
    "list_sum(list_transform(parts, lambda p: p.k)) > 5", "parts IS NULL OR len(parts) = 0",
    '"dotted.name" = 1', '"dotted.name" IN (0, 2)', '"qu""ote" = 1', '"ünï" > 1',
]  # fmt: skip
_DECIMAL = [
    "price > 1.1",
    "price = 2.50",
    "price * 2 = 5",
    "price::VARCHAR = '1.10'",
    "price % 1 = 0",
]
_ROWS = 300


def _make_rows() -> list[dict[str, Any]]:
    draw = random.Random(7)  # noqa: S311
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    langs = ["en", "de", "zh", "ü'x", 'q"t', "日本語", "", None]
    start = dt.datetime(2024, 1, 1)
    return [
        {
            "id": number,
            "text": f"{' '.join(draw.choices(words, k=draw.randint(3, 12)))} {number}",
            "score": draw.choice([None, 1.0, 0.0, round(draw.random(), 3), draw.random()]),
            "big": draw.choice([2**62 + number, -5]),
            "lang": draw.choice(langs),
            "ok": draw.choice([True, False, None]),
            "date": start.date() + dt.timedelta(draw.randint(0, 400)),
            "seen": start + dt.timedelta(hours=draw.randint(0, 700)),
            "price": Decimal(draw.choice(["1.10", "2.50", "3.00"])),
            "meta": draw.choice([
                None,
                {"score": draw.random() * 3, "url": f"http://x/{number}",
                 "n": {"k": draw.choice([1, 2])}, "odd key": "a.b"},
                {"score": None, "url": None, "n": None, "odd key": None},
            ]),
            "tags": draw.choice([None, [], ["a"], ["a", "b"], ["c", None]]),
            "parts": draw.choice(
                [None, [], [{"k": draw.randint(0, 5)}], [{"k": 2}, {"k": number}]]
            ),
            "dotted.name": draw.choice([0, 1, 2]),
            'qu"ote': draw.choice([0, 1]),
            "ünï": draw.choice([0, 1, 2, None]),
        }
        for number in range(_ROWS)
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else float(value)


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    lines = (json.dumps(row, default=_plain, ensure_ascii=row["id"] % 2 > 0) for row in rows)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _write_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, default=_plain, indent=1), "utf-8")


def _write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist([*rows]), path, row_group_size=70)


def _write_arrow(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    pa.feather.write_feather(pa.Table.from_pylist([*rows]), str(path), chunksize=64)


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    nested = {"meta", "tags", "parts"}
    flat = [{name: value for name, value in row.items() if name not in nested} for row in rows]
    pa.csv.write_csv(pa.Table.from_pylist(flat), path)


def _take(
    path: Path, options: DocumentOptions, size: int | None = None
) -> tuple[list[str], Counter[str]]:
    """Return the texts that are taken, read in ranges of a size, and why the others are not."""
    texts, dropped, step = list[str](), Counter[str](), size or path.stat().st_size
    for start in range(0, path.stat().st_size, step):
        part = FileRange(str(path), 0, options, start, start + step if size else None)
        with path.open("rb") as stream:
            for batch in read_file(stream, part):
                texts += batch.documents.column("sentences").flatten().to_pylist()
                dropped.update(batch.dropped)
                assert batch.counts.documents == batch.documents.num_rows + sum(
                    batch.dropped.values()
                )
    return texts, dropped


def _settle(where: str, input_format: str, *paths: Path) -> DocumentOptions:
    options = DocumentOptions(input_format, where=where, sentence_rule="document")
    openers: list[Callable[[], Any]] = [partial(path.open, "rb") for path in paths]
    return settle_condition(options, openers)


_CASES: list[tuple[str, str, Callable[..., None], str, list[str]]] = [
    ("json-lines", "a.jsonl", _write_lines, "read_json('{}')", [*_SIMPLE, *_NESTED]),
    ("json", "a.json", _write_json, "read_json('{}')", [*_SIMPLE, *_NESTED]),
    ("parquet", "a.parquet", _write_parquet, "read_parquet('{}')", [*_SIMPLE, *_NESTED, *_DECIMAL]),
    ("csv", "a.csv", _write_csv, "read_csv('{}')", _SIMPLE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "write", "reader", "conditions"), _CASES)
def test_the_records_are_those_that_duckdb_finds_in_the_file(
    name: str,
    file: str,
    write: Callable[..., None],
    reader: str,
    conditions: list[str],
    tmp_path: Path,
) -> None:
    path, rows, wrong = tmp_path / file, _make_rows(), []
    write(path, rows)
    for where in conditions:
        query = f"SELECT text FROM {reader.format(path)} WHERE ({where}) ORDER BY id"  # noqa: S608
        expected = [text for (text,) in duckdb.connect().execute(query).fetchall()]
        found, dropped = _take(path, _settle(where, name, path))
        if found != expected or dropped["where"] != dropped.total() != _ROWS - len(found):
            wrong.append((where, len(found), len(expected), dropped))
    assert not wrong
    assert len(conditions) >= 80


def _write_avro(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    inner = {"type": "record", "name": "meta", "fields": [
        {"name": "score", "type": ["null", "double"]}, {"name": "url", "type": ["null", "string"]},
    ]}  # fmt: skip
    types: dict[str, Any] = {
        "id": "long",
        "text": "string",
        "score": ["null", "double"],
        "lang": ["null", "string"],
    }
    types |= {
        "meta": ["null", inner],
        "tags": ["null", {"type": "array", "items": ["null", "string"]}],
    }
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    with path.open("wb") as stream:
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        fastavro.writer(stream, schema, rows, sync_interval=4000)


@pytest.mark.parametrize(("name", "write"), [("arrow", _write_arrow), ("avro", _write_avro)])
def test_other_tables_are_judged_as_lines_of_json_are(
    name: str, write: Callable[..., None], tmp_path: Path
) -> None:
    lines, path, rows = tmp_path / "a.jsonl", tmp_path / "a", _make_rows()
    _write_lines(lines, rows)
    write(path, rows)
    for where in [
        "score > 0.5 AND lang IN ('en', 'de')", "meta.score > 1", "'a' IN tags", "meta IS NULL",
        "lang = 'ü\'\'x' OR tags[2] IS NULL", "meta.url LIKE '%7'", "id % 3 = 1",
    ]:  # fmt: skip
        expected = _take(lines, _settle(where, "json-lines", lines))
        assert _take(path, _settle(where, name, path)) == expected
        assert 0 < len(expected[0]) < _ROWS


@pytest.mark.parametrize(
    ("name", "write"), [("json-lines", _write_lines), ("parquet", _write_parquet)]
)
def test_no_answer_depends_on_batches_and_ranges(
    name: str, write: Callable[..., None], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    write(path, _make_rows())
    options = _settle("meta.score > 1 OR score = 1 OR 'b' IN tags", name, path)
    expected = _take(path, options)
    for size in (100, 700, 5000, 10**6):
        with small_batches(size):
            assert _take(path, options, 3 * size) == expected


def test_a_value_of_another_kind_than_the_first_ones_is_null_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    values = [*[1] * 200, 0.75, "1", None, [2], 2, True, 0, 2**63, {"a": 1}]
    lines = [json.dumps({"text": f"t{n}", "n": value}) for n, value in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")
    with small_batches(200):
        options = _settle("n > 0.6", "json-lines", path)
        either = _settle("n > 0.6 OR text = 't201'", "json-lines", path)
    taken = [*(f"t{n}" for n in range(200)), "t204"]
    expected = taken, Counter({"where": 2, "where-other-type": 6})
    for size in (150, 900, 10**6):
        with small_batches(size):
            assert _take(path, options, 2 * size) == expected
    # A condition may be true without the field.
    texts, dropped = _take(path, either)
    assert sorted(texts) == sorted([*taken, "t201"])
    assert dropped == {"where": 2, "where-other-type": 5}


def test_columns_of_several_files_have_the_wider_type(tmp_path: Path) -> None:
    tables = [
        {"n": pa.array([1, 0]), "m": pa.array([{"a": 1}, {"a": 0}])},
        {"n": pa.array([0.75, None]), "m": pa.array([{"a": 0.7, "b": "x"}, None])},
        {"n": pa.array([0, 2], pa.int8())},
        {"n": pa.array(np.array([0.5, 0.75], np.float16))},
        {"other": pa.array([1, 2])},
    ]
    paths = [tmp_path / f"{number}.parquet" for number in range(len(tables))]
    for path, columns in zip(paths, tables, strict=True):
        pq.write_table(pa.table({"text": ["first", "second"], **columns}), path)
    for where, taken in [
        ("n > 0.6", [1, 1, 1, 1, 0]), ("n BETWEEN 0.6 AND 0.8", [0, 1, 0, 1, 0]),
        ("m.a > 0.6 AND m.b IS NULL", [1, 0, 0, 0, 0]),
    ]:  # fmt: skip
        options = _settle(where, "parquet", *paths)
        assert [len(_take(path, options)[0]) for path in paths] == taken
    text = tmp_path / "text.parquet"
    pq.write_table(pa.table({"text": ["first", "second"], "n": ["1", None]}), text)
    options = _settle("n > 0.6", "parquet", *paths)
    assert _take(text, options) == ([], {"where-other-type": 1, "where": 1})


def test_dates_that_are_written_in_other_ways_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "day": "03-04-2024"}\n{"text": "b", "day": "05-04-2024"}\n')
    assert _take(path, _settle("day = '03-04-2024'", "json-lines", path))[0] == ["a"]


@pytest.mark.parametrize("name", ["json-lines", "parquet"])
def test_what_is_no_condition_on_a_record_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    (_write_lines if name == "json-lines" else _write_parquet)(path, _make_rows())
    wrong = []
    for where, part in [
        ("random() < 0.5 AND id > 1", "it has random()"), ("now() > seen", "it has now()"),
        ("ago(INTERVAL 1 DAY) > seen", "it has ago()"), ("id > (SELECT 1)", "it has SUBQUERY"),
        ("row_number() OVER (ORDER BY id) > 1", "it has WINDOW"), ("id > $1", "it has PARAMETER"),
        ("sum(id) > 1", "aggregates"), ("weighted_avg(id, score) > 1", "aggregates"),
        ("true", "one record must decide it"), ("id > 1) FROM (SELECT 1", "one record"),
        ("id > 1); SELECT (id", "one record"), ("COLUMNS(*) > 1", "it has STAR"),
        ("id >", "syntax error"), ("scor > 1", "no field scor"),
        ("meta.scor > 1", "scor"), ("lang + 1 > 2", "DuckDB refuses"), ("id = 'x'", "Conversion"),
        ("current_date > date", "no field current_date"), ("nothing(id)", "nothing"),
        ("read_text('/etc/hostname') = id", "DuckDB refuses"),
    ]:  # fmt: skip
        with pytest.raises(UserError) as refused:
            _settle(where, name, path)
        if part not in str(refused.value) or refused.value.value != f"--where {where}".strip():
            wrong.append((where, str(refused.value)))
    assert not wrong
    cure = r"columns are id \(BIGINT\)\. TRY_CAST gives NULL where a value does not fit"
    with pytest.raises(UserError, match=cure):
        _settle("id = 'x'", name, path)
    with pytest.raises(UserError, match=r"Did you mean score\? Their fields are id, text, score"):
        _settle("scor > 1", name, path)


def test_a_field_of_texts_that_are_not_utf_8_costs_its_record_alone(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.parquet", pa.array([b"good", b"b\xffd", b"fine"], pa.binary())
    pq.write_table(pa.table({"text": texts.view(pa.string()), "n": [1, 1, 1]}), path)
    assert _take(path, _settle("n = 1 AND text <> 'fine'", "parquet", path))[0] == ["good"]
