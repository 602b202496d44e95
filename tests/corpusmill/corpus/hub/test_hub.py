import hashlib
import io
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.hub.wikitext import fetch_wikitext
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.reading import read_text
from corpusmill.errors import UserError
from tests.tools.loopback_hub import AnsweringHandler, run_client, run_server

COMMIT = "b08601e04326c79dfdd32d625aee71d232d685c3"
# Rows as the hub has them: the newline is part of the row, and an empty line is an empty row.
FIRST = ["", " = Valkyria = \n", "", " A sentence of the first file . \n"]
SECOND = [
    " The document continues in the second , with naïve — “ text ” . \n",
    "",
    " Another \n",
    " one",
]

FETCH = """
import sys
from corpusmill.errors import UserError
from corpusmill.corpus.hub.wikitext import fetch_wikitext
try:
    print(fetch_wikitext(*sys.argv[1:]))
except UserError as error:
    sys.exit(f"UserError: {error}")
"""


def parquet(rows: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": rows}), sink, row_group_size=2)
    return sink.getvalue()


class Hub(ThreadingHTTPServer):
    """A Hugging Face hub on the loopback with one data set.

    It answers requests for files as for large ones, with a redirect to another host name (the hub's
    storage), and with the size and the ETag of the file.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        super().__init__(("127.0.0.1", 0), HubHandler)


class HubHandler(AnsweringHandler):
    server: Hub

    def do_HEAD(self) -> None:  # noqa: N802  named by the base class
        self.server.requests.append(f"{self.command} {self.path}")
        resolve = "/datasets/Salesforce/wikitext/resolve/"
        if self.path.startswith("/api/datasets/Salesforce/wikitext"):
            siblings = [{"rfilename": name} for name in self.server.files]
            info = {"id": "Salesforce/wikitext", "sha": COMMIT, "siblings": siblings}
            self.answer(200, json.dumps(info).encode(), {"Content-Type": "application/json"})
        elif self.path.startswith(resolve):
            revision, _, name = self.path.removeprefix(resolve).partition("/")
            assert revision in {"main", COMMIT}
            content = self.server.files[name]
            headers = {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Size": str(len(content)),
                "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
                "Location": f"http://localhost:{self.server.server_port}/storage/{name}",
            }
            self.answer(302, b"", headers)
        elif self.path.startswith("/storage/"):
            self.answer(200, self.server.files[self.path.removeprefix("/storage/")], {})
        else:
            self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    do_GET = do_HEAD  # noqa: N815  named by the base class


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        server.files = {
            ".gitattributes": b"",
            "README.md": b"# wikitext",
            "wikitext-2-raw-v1/train-00001-of-00002.parquet": parquet(SECOND),
            "wikitext-2-raw-v1/train-00000-of-00002.parquet": parquet(FIRST),
            "wikitext-2-raw-v1/test-00000-of-00001.parquet": parquet([" the test split \n"]),
            "wikitext-2-v1/train-00000-of-00001.parquet": parquet(["not this one\n"]),
            "wikitext-103-raw-v1/train-00000-of-00002.parquet": parquet(FIRST),
        }
        with run_server(server):
            yield server


def address(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.server_port}"


def test_the_rows_become_lines_in_the_order_of_the_files(hub: Hub, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = run_client(FETCH, tmp_path, address(hub), "wikitext-2", str(out))
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
    arguments = "wikitext-2", str(tmp_path), "test"
    assert run_client(FETCH, tmp_path, address(hub), *arguments).returncode == 0
    requests = len(hub.requests)
    (tmp_path / "wiki.test.tokens").unlink()
    done = run_client(FETCH, tmp_path, address(hub), *arguments, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "wiki.test.tokens").read_text() == " the test split \n"
    assert len(hub.requests) == requests
    # The cache has only this split.
    done = run_client(
        FETCH, tmp_path, address(hub), "wikitext-2", str(tmp_path), HF_HUB_OFFLINE="1"
    )
    assert done.stderr.startswith("UserError: wikitext-2 (split 'train'")


@pytest.mark.parametrize("environment", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_offline_the_message_names_data_set_cause_and_cure(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run_client(
        FETCH, tmp_path, "http://127.0.0.1:9", "wikitext-103", str(tmp_path), **environment
    )
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert message.startswith("UserError: wikitext-103 (split 'train' of the data set Salesforce/")
    assert ("offline mode is enabled" if environment else "refused") in message
    assert message.endswith("pass the path of its text file.")
    assert not (tmp_path / "wiki.train.tokens").exists()


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["wikitext-103"], "incomplete, found: train-00000-of-00002.parquet"),
        (["wikitext-2", "validation"], "incomplete, found: none"),
    ],
)
def test_missing_files_are_an_error(
    hub: Hub, tmp_path: Path, arguments: list[str], cause: str
) -> None:
    done = run_client(FETCH, tmp_path, address(hub), arguments[0], str(tmp_path), *arguments[1:])
    assert cause in done.stderr
    assert done.stderr.startswith("UserError: ")


def test_the_page_of_a_captive_portal_is_an_error(hub: Hub, tmp_path: Path) -> None:
    done = run_client(FETCH, tmp_path, f"{address(hub)}/portal", "wikitext-2", str(tmp_path))
    assert done.stderr.startswith("UserError: wikitext-2")


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="wikitext-2 or wikitext-103"):
        fetch_wikitext("wikitext-3", tmp_path)
    with pytest.raises(UserError, match="train, validation, test"):
        fetch_wikitext("wikitext-2", tmp_path, "dev")
