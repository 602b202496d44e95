import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus import hub_data_sets
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.hub_data_sets import ROWS_AT_A_TIME, fetch_wikitext
from corpusmill.corpus.text.text_documents import read_text
from tests.tools.loopback_hub import DataSet, Hub, run_client, serve

# Rows as the hub has them: the newline is part of the row, and an empty line is an empty row.
FIRST = ["", " = Valkyria = \n", "", " A sentence of the first file . \n"]
SECOND = [" The document continues in the second , with naïve — “ text ” . \n"]
SECOND += ["", " Another \n", " one"]

FETCH = """
import sys
from corpusmill.errors import UserError
from corpusmill.corpus.hub_data_sets import fetch_wikitext
try:
    print(fetch_wikitext(*sys.argv[1:]))
except UserError as error:
    sys.exit(f"UserError: {error}")
"""


def parquet(rows: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": rows}), sink, row_group_size=2)
    return sink.getvalue()


@pytest.fixture
def hub() -> Iterator[Hub]:
    files = {
        ".gitattributes": b"",
        "README.md": b"# wikitext",
        "wikitext-2-raw-v1/train-00001-of-00002.parquet": parquet(SECOND),
        "wikitext-2-raw-v1/train-00000-of-00002.parquet": parquet(FIRST),
        "wikitext-2-raw-v1/test-00000-of-00001.parquet": parquet(["nor this\n"]),
        "wikitext-2-v1/train-00000-of-00001.parquet": parquet(["not this one\n"]),
        "wikitext-103-raw-v1/train-00000-of-00002.parquet": parquet(FIRST),
    }
    with serve({"Salesforce/wikitext": DataSet(files)}) as server:
        yield server


def test_the_rows_become_lines_in_the_order_of_the_files(hub: Hub, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = run_client(FETCH, tmp_path, hub.address, "wikitext-2", str(out))
    assert done.returncode == 0, done.stderr
    path = out / "wiki.train.tokens"
    assert done.stdout == f"{path}\n"
    assert list(out.iterdir()) == [path]
    assert path.read_text("utf-8") == "".join(row.rstrip("\n") + "\n" for row in FIRST + SECOND)
    with path.open("rb") as stream:
        (batch,) = read_text(stream, FileRange(str(path), 0, DocumentOptions()))
    crossing, last = batch.documents.column("sentences").to_pylist()
    assert crossing == [FIRST[3].strip(), SECOND[0].strip()]
    assert last == ["Another", "one"]


def test_cached_files_need_no_hub(hub: Hub, tmp_path: Path) -> None:
    arguments = "wikitext-2", str(tmp_path)
    assert run_client(FETCH, tmp_path, hub.address, *arguments).returncode == 0
    requests = len(hub.requests)
    text = (tmp_path / "wiki.train.tokens").rename(tmp_path / "first").read_text()
    done = run_client(FETCH, tmp_path, hub.address, *arguments, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "wiki.train.tokens").read_text() == text
    assert len(hub.requests) == requests
    # The cache has only this one.
    others = ("wikitext-103", str(tmp_path))
    done = run_client(FETCH, tmp_path, hub.address, *others, HF_HUB_OFFLINE="1")
    assert done.stderr.startswith("UserError: wikitext-103 (the train split")


@pytest.mark.parametrize("environment", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_offline_the_message_names_data_set_cause_and_cure(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run_client(
        FETCH, tmp_path, "http://127.0.0.1:9", "wikitext-103", str(tmp_path), **environment
    )
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert message.startswith("UserError: wikitext-103 (the train split of Salesforce/")
    assert ("offline mode is enabled" if environment else "refused") in message
    assert message.endswith("pass the path of its text file.")
    assert not (tmp_path / "wiki.train.tokens").exists()


def test_missing_files_are_an_error(hub: Hub, tmp_path: Path) -> None:
    done = run_client(FETCH, tmp_path, hub.address, "wikitext-103", str(tmp_path))
    assert "incomplete, found: train-00000-of-00002.parquet" in done.stderr
    assert done.stderr.startswith("UserError: ")


def test_the_page_of_a_captive_portal_is_an_error(hub: Hub, tmp_path: Path) -> None:
    done = run_client(FETCH, tmp_path, f"{hub.address}/portal", "wikitext-2", str(tmp_path))
    assert done.stderr.startswith("UserError: wikitext-2")


def test_a_row_group_of_any_size_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hub_data_sets, "_parquet_files", lambda *_: [tmp_path / "f"])
    for rows in (ROWS_AT_A_TIME - 1, ROWS_AT_A_TIME, ROWS_AT_A_TIME + 1):
        lines = [f"{number}\n" for number in range(rows)]
        pq.write_table(pa.table({"text": lines}), tmp_path / "f")
        assert fetch_wikitext("wikitext-2", tmp_path).read_text() == "".join(lines)
