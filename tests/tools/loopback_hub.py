"""A small Hugging Face hub on the loopback, for files of data sets and of models."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from tests.conftest import CHECKOUT

TOKEN = "hf_secret"  # noqa: S105  of no real hub
COMMIT, CONVERTED_COMMIT = "c0" * 20, "c1" * 20


@dataclass
class DataSet:
    """A data set of the hub, or a model.

    Attributes:
        files: content by path, at its newest commit.
        card: the header of its README.
        converted: the Parquet files that the hub made of its files.
        gated: whether a token is needed to read its files.
        private: whether a token is needed to see it.
        branches: the commit of each branch.
        commits: the files of each commit.
    """

    files: dict[str, bytes]
    card: dict[str, Any] = field(default_factory=dict)
    converted: dict[str, bytes] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, "v1": COMMIT})
    commits: dict[str, dict[str, bytes]] = field(init=False)

    def __post_init__(self) -> None:
        self.commits = {COMMIT: self.files}

    def find(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Return commit and files of a revision; None if there is none."""
        commit = self.branches.get(revision, revision)
        if commit in self.commits:
            return commit, self.commits[commit]
        if revision in {"refs/convert/parquet", CONVERTED_COMMIT} and self.converted:
            return CONVERTED_COMMIT, self.converted
        return None


class Hub(ThreadingHTTPServer):
    """The hub. It answers requests for files with a redirect to its storage, as for large ones.

    Args:
        data_sets: by their names.
        token: opens gated data sets.

    Attributes:
        requests: method and path of each.
    """

    def __init__(self, data_sets: dict[str, DataSet], token: str) -> None:
        self.data_sets, self.token = data_sets, token
        self.requests: list[str] = []
        super().__init__(("127.0.0.1", 0), self.handler)

    @property
    def handler(self) -> "type[Handler]":
        """What answers the requests."""
        return Handler

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


_AnyHub = TypeVar("_AnyHub", bound=Hub)


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"
    # Headers and content are sent apart; Nagle's algorithm would hold the content back for 40 ms.
    disable_nagle_algorithm = True

    @property
    def knows_token(self) -> bool:
        """Whether the request comes with the hub's token."""
        return self.headers.get("Authorization") == f"Bearer {self.server.token}"

    def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep the test's output quiet."""

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        url = urlsplit(self.path)
        place = re.sub("^/(api/datasets/|api/models/|datasets/|storage/)?", "", url.path) + "/"
        name = next((name for name in self.server.data_sets if place.startswith(f"{name}/")), None)
        # Addresses in the storage are signed.
        is_signed = url.path.startswith("/storage/")
        is_hidden = name and self.server.data_sets[name].private and not self.knows_token
        if name is None or (is_hidden and not is_signed):
            return self.refuse(404, "RepoNotFound")
        rest = place.removeprefix(f"{name}/").rstrip("/").split("/")
        if url.path.startswith("/api/"):
            return self.answer_api(name, rest, parse_qs(url.query))
        if url.path.startswith("/storage/"):
            files = self.server.data_sets[name].find(rest[0])
            assert files
            return self.answer_range(files[1][unquote("/".join(rest[1:]))])
        assert rest[0] == "resolve"
        return self.resolve(name, unquote(rest[1]), unquote("/".join(rest[2:])))

    do_HEAD = do_GET  # noqa: N815  named by the base class

    def answer_api(self, name: str, rest: list[str], query: dict[str, list[str]]) -> None:
        data_set = self.server.data_sets[name]
        revision = unquote(rest[1]) if len(rest) > 1 else "main"
        if not (snapshot := data_set.find(revision)):
            return self.refuse(404, "RevisionNotFound")
        commit, files = snapshot
        if rest[0] == "tree":
            deep = query.get("recursive", ["false"])[0].lower() == "true"
            return self.answer_tree(files, unquote("/".join(rest[2:])), deep)
        siblings = [{"rfilename": path} for path in files]
        about = {"cardData": data_set.card, "private": data_set.private}
        return self.answer_json({"id": name, "sha": commit, "siblings": siblings, **about})

    def answer_tree(self, files: dict[str, bytes], folder: str, deep: bool) -> None:
        prefix = f"{folder}/" if folder else ""
        entries = {}
        for path, content in files.items():
            if not path.startswith(prefix):
                continue
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts)):
                inner = prefix + "/".join(parts[:depth])
                entries[inner] = {"type": "directory", "path": inner, "oid": "0" * 40, "size": 0}
            size = len(content)
            entries[path] = {"type": "file", "path": path, "oid": "0" * 40, "size": size}
        if not deep:
            entries = {
                path: entry for path, entry in entries.items() if "/" not in path[len(prefix) :]
            }
        if not entries and folder:
            return self.refuse(404, "EntryNotFound")
        return self.answer_json(list(entries.values()))

    def resolve(self, name: str, revision: str, path: str) -> None:
        data_set = self.server.data_sets[name]
        snapshot = data_set.find(revision)
        assert snapshot
        if data_set.gated and not self.knows_token:
            return self.refuse(403, "GatedRepo")
        commit, files = snapshot
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Size": str(len(files[path])),
            "X-Linked-Etag": f'"{hashlib.sha256(files[path]).hexdigest()}"',
            # The storage has another host name.
            "Location": f"http://localhost:{self.server.server_port}/storage/{name}/{commit}/{path}",
        }
        return self.answer(302, b"", headers)

    def answer_range(self, content: bytes) -> None:
        if "Range" not in self.headers:
            return self.answer(200, content, {})
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        bounds = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return self.answer(206, part, {"Content-Range": bounds})

    def answer_json(self, content: object) -> None:
        self.answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, b"", {"X-Error-Code": code, "X-Error-Message": code})


@contextmanager
def serve(data_sets: dict[str, DataSet]) -> Iterator[Hub]:
    """Run a hub that is only read in a thread, while the block lasts."""
    with run_in_thread(Hub(data_sets, TOKEN)) as hub:
        yield hub


@contextmanager
def run_in_thread(hub: _AnyHub) -> Iterator[_AnyHub]:
    """Run a hub in a thread, while the block lasts."""
    with hub:
        hub.daemon_threads = True
        hub.block_on_close = False
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()


def run_client(
    program: str, folder: Path, endpoint: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in its own process, as the hub's client reads its settings only once.

    Where no hub answers, it waits for half a second, where users' programs wait for twenty.
    """
    impatient = "from corpusmill.outages import Patience; Patience.first_seconds = 0.5\n"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    settings = {"HF_HOME": str(folder / "cache"), "HF_ENDPOINT": endpoint, "NO_PROXY": "*"}
    return subprocess.run(
        [sys.executable, "-c", impatient + program, *arguments],
        env=inherited | settings | environment, cwd=CHECKOUT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
