"""A small Hugging Face hub on the loopback to which data sets are pushed, as Git LFS objects."""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import pytest

from tests.tools.loopback_hub import TOKEN, DataSet, Handler, Hub, run_in_thread

# Larger files are LFS objects; the hub itself decides by their names, too.
_LARGE = 8192


class WritableHub(Hub):
    """A hub that is written to.

    Attributes:
        objects: content of the LFS objects that have arrived, by digest.
        on_upload: is called with the digest of each object that is about to arrive.
        loses_answers: whether the answer to a commit gets lost.
        busy: how many of the next messages it asks to send again in seven seconds.
        ignored: names of the files that a .gitignore in the repository names.
    """

    def __init__(self, data_sets: dict[str, DataSet] | None = None) -> None:
        super().__init__(data_sets or {}, TOKEN)
        self.objects: dict[str, bytes] = {}
        self.on_upload: Callable[[str], object] = lambda _: None
        self.loses_answers = False
        self.busy = 0
        self.ignored: set[str] = set()

    @property
    def handler(self) -> type[Handler]:
        return _WritingHandler


class _WritingHandler(Handler):
    server: WritableHub

    def take_object(self) -> None:
        self.server.requests.append(f"PUT {self.path}")
        digest = self.path.rpartition("/")[2]
        self.server.on_upload(digest)
        content = self.rfile.read(int(self.headers["Content-Length"]))
        assert hashlib.sha256(content).hexdigest() == digest
        self.server.objects[digest] = content
        self.answer(200, b"", {})

    def take_message(self) -> None:
        self.server.requests.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if self.server.busy and re.search("/commit/|/create$", path):
            self.server.busy -= 1
            self.answer(429, b"", {"Retry-After": "7"})
        elif path == "/api/validate-yaml":
            self.answer_json({"errors": [], "warnings": []})
        elif not self.knows_token:
            self.refuse(401 if self.headers["Authorization"] == "Bearer hf_unknown" else 403, "No")
        elif path == "/api/repos/create":
            self.create(json.loads(body))
        elif match := re.fullmatch(r"/datasets/(.+)\.git/info/lfs/objects/batch", path):
            self.answer_batch(match[1], json.loads(body))
        else:
            match = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/(\w+)/([^/]+)", path)
            assert match, path
            self.change(match[1], match[2], unquote(match[3]), body)

    do_PUT, do_POST = take_object, take_message  # noqa: N815  named by the base class

    def change(self, name: str, what: str, revision: str, body: bytes) -> None:
        data_set = self.server.data_sets[name]
        match what:
            case "branch":
                data_set.branches.setdefault(revision, data_set.branches["main"])
                self.answer_json({})
            case "preupload":
                self.answer_modes(data_set, revision, json.loads(body))
            case "commit":
                self.commit(name, revision, [*map(json.loads, body.splitlines())])
            case _:
                raise AssertionError(what)

    def create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        self.server.data_sets[name] = DataSet({".gitattributes": b"*.parquet"}, private=private)
        self.answer_json({"url": f"{self.server.address}/datasets/{name}"})

    def answer_modes(self, data_set: DataSet, revision: str, wanted: dict[str, Any]) -> None:
        found = data_set.find(revision)
        assert found
        modes = []
        for file in wanted["files"]:
            path, is_large = file["path"], file["size"] > _LARGE
            present = found[1].get(path)
            oid = _oid(present, is_large) if present is not None else None
            mode = "lfs" if is_large else "regular"
            is_ignored = path in self.server.ignored
            modes.append({"path": path, "oid": oid, "uploadMode": mode, "shouldIgnore": is_ignored})
        self.answer_json({"files": modes})

    def answer_batch(self, name: str, wanted: dict[str, Any]) -> None:
        objects = []
        for one in wanted["objects"]:
            place = {"upload": {"href": f"{self.server.address}/objects/{name}/{one['oid']}"}}
            has = one["oid"] in self.server.objects
            objects.append(one if has else {**one, "actions": place})
        self.answer_json({"transfer": "basic", "objects": objects})

    def commit(self, name: str, revision: str, lines: list[dict[str, Any]]) -> None:
        data_set = self.server.data_sets[name]
        parent = data_set.branches[revision]
        files = dict(data_set.commits[parent])
        for line in lines:
            key, value = line["key"], line["value"]
            if key == "header" and value.get("parentCommit", parent) != parent:
                self.refuse(412, "Conflict")
                return
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
        commit = hashlib.sha1(f"{parent} {sorted(files.items())}".encode()).hexdigest()  # noqa: S324
        data_set.commits[commit] = files
        data_set.branches[revision] = commit
        if self.server.loses_answers:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        page = f"{self.server.address}/datasets/{name}/commit/{commit}"
        self.answer_json({"success": True, "commitOid": commit, "commitUrl": page})


def _oid(content: bytes, is_large: bool) -> str:
    if is_large:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()  # noqa: S324


@contextmanager
def hub_in_use(monkeypatch: pytest.MonkeyPatch) -> Iterator[WritableHub]:
    """Run a hub that this process takes for the one of Hugging Face."""
    with run_in_thread(WritableHub()) as server:
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True, raising=False)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
