"""Documents that a condition of SQL chooses."""

import json
import sys
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.provenance.search import search_documents
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.origins import list_documents, open_store


def search(folder: Path, where: str) -> list[str]:
    """Return the kept field `file` of the documents."""
    store = open_store(folder)
    found = search_documents(locate(str(folder)), store.manifest, where)
    return [record.fields["file"] for record in found]


def test_columns_and_kept_fields_can_be_asked_for(data: Path) -> None:
    every = list_documents(data)
    names = [record.fields["file"] for record in every]
    assert search(data, "true") == names
    assert search(data, "source = 'notes'") == [n for n in names if n.startswith("notes")]
    # A kept field has precedence over what the id tells.
    assert search(data, "file = 'wiki-3'") == ["wiki-3"]
    assert search(data, "CAST(n AS INT) BETWEEN 4 AND 5 AND source = 'wiki'") == [
        "wiki-4",
        "wiki-5",
    ]
    longest = max(every, key=lambda record: record.tokens)
    assert search(data, f"tokens >= {longest.tokens}") == [longest.fields["file"]]
    assert search(data, f"document = {longest.document}") == [longest.fields["file"]]
    assert search(data, f"place = {longest.place} AND length = {longest.length}")
    assert search(data, f"digest = {longest.digest}")
    both = search(data, "split = 'train'"), search(data, "split = 'validation'")
    assert sorted([*both[0], *both[1]]) == sorted(names)
    assert all(both)


NAMES = (
    "meta.url",
    "meta.a.b",
    "exact.name",
    "plain",
    "plain.url",
    "file.path",
    "URL",
    "url",
    'q"',
)


@pytest.fixture(scope="session")
def nested(tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose documents have kept fields inside others, and of unusual names."""
    folder = tmp_path_factory.mktemp("nested")
    rows = [
        {"data": {"text": f"Text {n} .\nMore of {n} ."}, "meta": {"url": f"u{n}", "a": {"b": n}},
         "exact.name": f"e{n}", "exact": {"name": "other"}, "plain": {"url": f"p{n}"},
         "file": {"path": f"f{n}"}, "URL": f"U{n}", "url": f"l{n}", 'q"': f"q{n}"}
        for n in range(20)
    ]  # fmt: skip
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = ("--text-field", "data.text", "--keep-fields", ",".join(NAMES))
    built = (
        "--input",
        folder / "a.jsonl",
        "--tokenizer",
        tokenizer_path,
        "--output",
        folder / "out",
    )
    jobs.run_here("bert", *built, *fields, *jobs.PAIRS, "--num-shards", "2")
    return folder / "out"


@pytest.mark.parametrize(
    "where",
    [
        "\"meta.url\" = 'u7'", "meta.url LIKE 'u7%'", "meta.a.b = '7'", "documents.meta.url = 'u7'",
        "META.URL = 'u7'", "exact.name = 'e7'", "\"plain.url\" = 'p7'", "plain LIKE '%p7%'",
        "\"file.path\" = 'f7' AND file LIKE '%.jsonl'", "\"q\"\"\" = 'q7'",
    ],
)  # fmt: skip
def test_fields_inside_others_can_be_asked_for(where: str, nested: Path) -> None:
    store = open_store(nested)
    [record] = search_documents(locate(str(nested)), store.manifest, where)
    expected = ("u7", "7", "e7", '{"url":"p7"}', "p7", "f7", "U7", "l7", "q7")
    assert record.fields == dict(zip(NAMES, expected, strict=True))


@pytest.mark.parametrize("name", ["url", "URL", '"url"', '"URL"'])
def test_names_that_duckdb_takes_for_one_cannot_be_asked_for(name: str, nested: Path) -> None:
    with pytest.raises(UserError, match="DuckDB refuses the condition"):
        search_documents(locate(str(nested)), open_store(nested).manifest, f"{name} = 'l7'")


def test_the_fields_of_a_document_are_found_by_its_id(nested: Path) -> None:
    records = list_documents(nested)
    assert [record.fields["plain"] for record in records] == [
        f'{{"url":"p{n}"}}' for n in range(20)
    ]
    assert [record.fields["URL"] for record in records] == [f"U{n}" for n in range(20)]
    verify(nested)


@pytest.mark.parametrize(
    "where",
    [
        "unknown = 1",
        "tokens >",
        "(SELECT count(*) FROM read_csv('/etc/hostname')) > 0",
        "1/0 > tokens::VARCHAR::DATE",
    ],
)
def test_what_is_no_condition_is_refused(where: str, data: Path) -> None:
    with pytest.raises(UserError, match="DuckDB refuses the condition"):
        search(data, where)


def test_without_duckdb_the_message_says_how_to_install_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r"pip install 'corpusmill\[sql\]'"):
        search(data, "true")
