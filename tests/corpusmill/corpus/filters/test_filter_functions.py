"""Filters: functions that keep a document, or drop it with a reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.corpus.batches import TEXT_SCHEMA, add_facts, document_id
from corpusmill.corpus.filters.functions import FILTERS, FilterOptions, drop_documents, load_filters
from corpusmill.errors import UserError

SENTENCES = [["a short one ."], [], ["this is", "a longer one ."], ["bad words ."]]
DOCUMENTS = pa.RecordBatch.from_pydict(
    {"document": [document_id(2, offset) for offset in (0, 5, 9, 30)], "sentences": SENTENCES},
    schema=TEXT_SCHEMA,
)
SEEN: list[tuple[str, dict[str, Any]]] = []


def drop_short(text: str, metadata: dict[str, Any]) -> str | None:
    SEEN.append((text, metadata))
    return "too-short" if len(text) < 5 else None


def drop_bad(text: str, metadata: dict[str, Any]) -> bool | str:
    metadata.clear()
    return "bad-words" if "bad" in text else True


def fail(text: str, _: object) -> None:
    raise ValueError(f"cannot read\n{text}")


def answer(value: object) -> Callable[[str, object], object]:
    return lambda _text, _metadata: value


@pytest.fixture(autouse=True)
def own_filters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    functions: dict[str, Any] = {"short": drop_short, "bad": drop_bad, "fail": fail}
    monkeypatch.setattr(FILTERS, "_own", functions)
    monkeypatch.setattr(FILTERS, "_loaded", {})
    SEEN.clear()
    return functions


def test_each_filter_sees_what_the_ones_before_it_keep() -> None:
    kept, reasons, sentences, sizes = drop_documents(DOCUMENTS, "a", load_filters(["bad", "short"]))
    assert kept.column("sentences").to_pylist() == [SENTENCES[0], SENTENCES[2]]
    assert kept.schema == TEXT_SCHEMA
    assert (reasons, sentences) == ({"too-short": 1, "bad-words": 1}, 1)
    assert (sizes["too-short"], sizes["bad-words"]) == (0, len("bad words ."))
    assert [
        ("a short one .", {"file": "a", "offset": 0, "id": document_id(2, 0), "fields": {}}),
        ("", {"file": "a", "offset": 5, "id": document_id(2, 5), "fields": {}}),
        (
            "this is\na longer one .",
            {"file": "a", "offset": 9, "id": document_id(2, 9), "fields": {}},
        ),
    ] == SEEN


def test_a_filter_sees_the_kept_fields() -> None:
    lengths, fields = np.zeros(4, np.uint64), [pa.array(["x", None, "y", "z"], pa.string())]
    documents = add_facts(DOCUMENTS, lengths, fields, ["meta.url"])
    drop_documents(documents, "a", load_filters(["short", "bad"]))
    assert [metadata.get("fields") for _, metadata in SEEN] == [
        {"meta.url": value} for value in ("x", None, "y", "z")
    ]


def test_without_filters_everything_is_kept() -> None:
    assert load_filters(()) == ()
    assert drop_documents(DOCUMENTS, "a", ()) == (DOCUMENTS, {}, 0, {})


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (False, "returns False"), (1, "returns 1"), ("", "returns ''"), ("Too Short", "Too Short"),
        ("a\n", "'a\\n'"), ("a" * 41, "'aaa"), (object, "class 'object'"),
        ("duplicate", "--drop-duplicates"), ("overlap", "that of --drop-overlap-with"),
    ],
)  # fmt: skip
def test_other_answers_are_refused(value: object, part: str, own_filters: dict[str, Any]) -> None:
    own_filters["odd"] = answer(value)
    with pytest.raises(UserError) as caught:
        drop_documents(DOCUMENTS, "the file", load_filters(["odd"]))
    assert caught.value.value == "--filter odd"
    assert part in caught.value.cause
    assert "\n" not in str(caught.value)


def test_a_filter_that_fails_is_named_with_the_document() -> None:
    with pytest.raises(UserError) as caught:
        drop_documents(DOCUMENTS, "the file", load_filters(["short", "fail"]))
    assert caught.value.value == "--filter fail"
    cause = "it fails on the document of the file at 0 (ValueError: cannot read)"
    assert caught.value.cause == cause


@pytest.mark.parametrize("error", ["SystemExit(3)", "GeneratorExit", "BaseException('x')"])
def test_a_filter_does_not_end_the_process(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"ending_{error.partition('(')[0].lower()}"
    (tmp_path / f"{name}.py").write_text(f"def end(text, metadata):\n    raise {error}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="it fails on the document of the file at 0"):
        drop_documents(DOCUMENTS, "the file", load_filters([f"{name}:end"]))


def test_a_module_of_filters_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending_module.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="cannot be imported"):
        load_filters(["ending_module:end"])


def test_functions_are_found_by_their_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "filters_of_mine.py").write_text("def none(text, metadata):\n    return 'all'\n")
    monkeypatch.syspath_prepend(tmp_path)
    kept, reasons, _, _ = drop_documents(DOCUMENTS, "", load_filters(["filters_of_mine:none"]))
    assert (kept.num_rows, reasons) == (0, {"all": 4})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("missing", "Choose one of short, bad, fail, or give package.module:function"),
        ("no.such:thing", "No module named 'no'"),
        ("corpusmill.errors:missing", "has no attribute 'missing'"),
        ("corpusmill.errors:_SHORT_ESCAPES", "is not a function"),
    ],
)
def test_what_is_no_filter_is_refused(name: str, part: str) -> None:
    with pytest.raises(UserError, match=part) as caught:
        load_filters([name])
    assert caught.value.value == f"--filter {name}"


def test_where_there_is_none_only_functions_are_offered(own_filters: dict[str, Any]) -> None:
    own_filters.clear()
    with pytest.raises(UserError) as caught:
        load_filters(["missing"])
    assert caught.value.cure == "Give package.module:function"


def test_a_filter_is_named_once() -> None:
    with pytest.raises(UserError, match="--filter a b a: a filter is named twice"):
        FilterOptions(filter=("a", "b", "a"))
