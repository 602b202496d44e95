"""Data sets pushed to a hub on the loopback and opened from it."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import numpy as np
import pytest

from corpusmill import outages
from corpusmill.commands.command_line import main
from corpusmill.dataset.manifest import MANIFEST, REJECTS, SUCCESS
from corpusmill.dataset.ownership import RECORD
from corpusmill.errors import OutageError, UserError
from corpusmill.location import locate
from corpusmill.publishing import push
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.conftest import CHECKOUT
from tests.tools.loopback_hub import COMMIT, TOKEN, Handler, Hub, run_in_thread
from tests.tools.loopback_hub import DataSet as HubDataSet
from tests.tools.small_datasets import WITH_REJECT, Recipe, write_dataset, write_version

# A small Hugging Face hub on the loopback to which data sets are pushed, as Git LFS objects.


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

    def __init__(self, data_sets: dict[str, HubDataSet] | None = None) -> None:
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
        self.server.data_sets[name] = HubDataSet({".gitattributes": b"*.parquet"}, private=private)
        self.answer_json({"url": f"{self.server.address}/datasets/{name}"})

    def answer_modes(self, data_set: HubDataSet, revision: str, wanted: dict[str, Any]) -> None:
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


# Files of a data set that stay on this machine.
OWN = {f"v1/{REJECTS}", f"v1/{RECORD}"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("push") / "out"
    write_version(folder, Recipe(text=WITH_REJECT))
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[WritableHub]:
    with hub_in_use(monkeypatch) as server:
        yield server


def files_at(hub: WritableHub, branch: str = "main") -> dict[str, bytes]:
    found = hub.data_sets["me/out"].find(branch)
    assert found
    return found[1]


def fetched(hub: WritableHub) -> set[str]:
    """The files whose content was asked for."""
    return {request.rpartition("/")[2] for request in hub.requests if " /storage/" in request}


def tokens_of(data_set: DataSet) -> list[list[int]]:
    return [row["input_ids"].tolist() for row in data_set.take(np.arange(len(data_set)))]


def test_what_was_pushed_opens_again(hub: WritableHub, out: Path, tmp_path: Path) -> None:
    before = locate(str(out)).list()
    pushed = push(out, "me/out", private=True)
    assert locate(str(out)).list() == before
    assert (pushed.url, pushed.private) == ("hf://datasets/me/out", True)
    assert hub.data_sets["me/out"].private
    assert files_at(hub).keys() == before.keys() - OWN | {".gitattributes"}
    assert b"Not " not in files_at(hub)["README.md"]
    assert verify(pushed.url) == []
    hub.requests.clear()
    opened = DataSet(pushed.url, cache_folder=tmp_path / "cache")
    assert fetched(hub) == {"dataset.json"}
    hub.requests.clear()
    assert len(opened[0]["input_ids"])
    assert fetched(hub) == {"train-00000-of-00003.parquet"}
    assert tokens_of(opened) == tokens_of(DataSet(out, cache_folder=tmp_path / "cache"))
    assert push(out, "me/out").commit == pushed.commit


def test_rejects_are_pushed_if_asked(hub: WritableHub, out: Path) -> None:
    push(out, "hf://datasets/me/out", with_rejects=True)
    before = locate(str(out)).list()
    before.pop(f"v1/{RECORD}")
    assert {name: len(data) for name, data in files_at(hub).items() if name in before} == before


def test_a_push_changes_nothing_for_who_has_opened_the_data_set(
    hub: WritableHub, out: Path, tmp_path: Path
) -> None:
    hub.data_sets["me/out"] = HubDataSet({"LICENSE": b"free"})
    push(out, "me/out")
    opened = DataSet("hf://datasets/me/out", cache_folder=tmp_path / "first")
    write_version(tmp_path / "new", Recipe(shards=1, validation_share=0), number=2)
    push(tmp_path / "new", "me/out")
    assert tokens_of(opened) == tokens_of(DataSet(out, cache_folder=tmp_path / "second"))
    shards = [name for name in files_at(hub) if name.endswith(".parquet")]
    assert shards == ["v2/train-00000-of-00001.parquet"]
    assert [problem.file for problem in verify("hf://datasets/me/out")] == ["LICENSE"]
    assert files_at(hub)["LICENSE"] == b"free"
    newly = DataSet("hf://datasets/me/out", cache_folder=tmp_path / "first")
    assert newly.digest != opened.digest


def test_a_killed_push_goes_on_and_shows_nothing_before(hub: WritableHub, out: Path) -> None:
    hub.data_sets["me/out"] = HubDataSet({})
    second, killed = threading.Event(), threading.Event()

    def stop_at_the_second(_: str) -> None:
        if len(hub.objects) == 1:
            second.set()
            killed.wait()

    hub.on_upload = stop_at_the_second
    program = (
        "import sys, functools; from huggingface_hub import HfApi;"
        "HfApi.create_commit = functools.partialmethod(HfApi.create_commit, num_threads=1);"
        "from corpusmill.publishing import push; push(*sys.argv[1:])"
    )
    settings = {"HF_ENDPOINT": hub.address, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    client = subprocess.Popen(
        [sys.executable, "-c", program, str(out), "me/out"],
        env={**os.environ, **settings}, cwd=CHECKOUT,
    )  # fmt: skip
    assert second.wait(120)
    client.send_signal(signal.SIGKILL)
    client.wait()
    hub.on_upload = lambda _: None
    killed.set()
    assert files_at(hub) == {}
    (arrived,) = tuple(hub.objects)[:1]
    hub.requests.clear()
    pushed = push(out, "me/out")
    assert verify(pushed.url) == []
    assert not any(arrived in request for request in hub.requests)


def test_a_lost_answer_is_no_failure(hub: WritableHub, out: Path) -> None:
    hub.loses_answers = True
    pushed = push(out, "me/out")
    assert hub.data_sets["me/out"].branches["main"] == pushed.commit


def test_a_file_that_the_hub_leaves_out_is_named(hub: WritableHub, out: Path) -> None:
    hub.ignored = {"tokenizer.json"}
    with pytest.raises(UserError, match=r"not take tokenizer.json as it was sent.*\.gitignore"):
        push(out, "me/out")


def test_a_hub_that_is_busy_is_asked_again_when_it_says(
    hub: WritableHub, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=waits.append)
    monkeypatch.setattr(outages, "time", clock)
    hub.busy = 3
    pushed = push(out, "me/out")
    assert hub.data_sets["me/out"].branches["main"] == pushed.commit
    assert len(waits) == 3
    assert min(waits) >= 7


def test_a_branch_is_made_and_the_main_one_stays(hub: WritableHub, out: Path) -> None:
    hub.data_sets["me/out"] = HubDataSet({"LICENSE": b"free"})
    pushed = push(out, "me/out@draft")
    assert pushed.url == "hf://datasets/me/out@draft"
    assert hub.data_sets["me/out"].branches["main"] == COMMIT
    assert SUCCESS in files_at(hub, "draft")


def test_of_two_pushes_at_a_time_one_is_refused(hub: WritableHub, out: Path) -> None:
    hub.data_sets["me/out"] = HubDataSet({})

    def push_another(_: str) -> None:
        hub.data_sets["me/out"].branches["main"] = "d0" * 20
        hub.data_sets["me/out"].commits["d0" * 20] = {}

    hub.on_upload = push_another
    with pytest.raises(UserError, match="me/out: somebody else has pushed to it meanwhile"):
        push(out, "me/out")


def damage(folder: Path) -> None:
    shard = folder / "train-00000-of-00003.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])


# The name and what else differs, and the message.
MISTAKES: list[tuple[tuple[str, dict[str, Any]], str]] = [
    (("me/out", {"token": ""}), r"me/out: pushing needs a token .*/settings/tokens.*hf auth login"),
    (("me/out", {"token": "hf_unknown"}), "me/out: the hub does not accept the token"),
    (("me/out", {"token": "hf_reader"}), "me/out: the token may not write there"),
    (("out", {}), "out: it is not the name of a data set on the hub"),
    (("me/o ut", {}), "me/o ut: it is not the name of a data set"),
    (("me/out@a", {"revision": "b"}), "it is not the name of a data set"),
    (("me/out/README.md", {}), "it is not the name of a data set"),
    (("me/public", {"private": True}), "me/public: it exists, and is public"),
    (("me/out", {"folder": "s3://bucket/out"}), "s3://bucket/out: it is not on this machine"),
    (("me/out", {"change": lambda out: (out / MANIFEST).unlink()}), "or a copy was not fini"),
    (("me/out", {"change": damage}), "the data set is damaged: train-00000-of-00003.parquet:"),
]


def test_mistakes_are_refused_and_nothing_is_pushed(
    hub: WritableHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.data_sets["me/public"] = HubDataSet({})
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    write_dataset(tmp_path / "out")
    for number, ((name, case), message) in enumerate(MISTAKES):
        folder = Path(shutil.copytree(tmp_path / "out", tmp_path / str(number)))
        case.get("change", lambda _: None)(folder)
        monkeypatch.setenv("HF_TOKEN", case.get("token", TOKEN))
        options = {key: case[key] for key in case.keys() & {"revision", "private"}}
        with pytest.raises(UserError, match=message):
            push(case.get("folder", folder), name, **options)
    assert not hub.objects
    assert not any(" /api/datasets" in request for request in hub.requests if "POST" in request)


def test_a_hub_that_is_not_there_is_named(
    hub: WritableHub, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(outages.Patience, "first_seconds", 0.0)
    with pytest.raises(OutageError, match=r"the hub cannot be reached \(127\.0\.0\.1"):
        push(out, "me/out")
    with pytest.raises(OutageError, match=r"the hub cannot be read \(127\.0\.0\.1"):
        DataSet("hf://datasets/me/out")
    assert not hub.requests


def test_the_command_says_where_the_data_set_is(
    hub: WritableHub, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(out), "me/out", "--private"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    page = f"{hub.address}/datasets/me/out/tree/{hub.data_sets['me/out'].branches['main']}"
    assert f"pushed, private: {page}" in said
    assert 'corpusmill.DataSet("hf://datasets/me/out")' in said
    assert main(["verify", "hf://datasets/me/out"]) == 0
    assert "all 4 shards" in capsys.readouterr().out
