"""Documents that a condition of SQL chooses."""

import sys
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.provenance.search import search_documents
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
