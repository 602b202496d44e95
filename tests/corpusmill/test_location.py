import errno
import os
import pickle
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.shards import open_data_set, read_manifest, read_shard
from corpusmill.errors import UserError
from corpusmill.location import Location, RemoteUrl, locate
from corpusmill.reading.checks import check_tokenizer
from corpusmill.verification.check_data_set import verify
from tests.tools.small_datasets import write_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage") / "a 100% data set"
    write_dataset(folder)
    return folder


@pytest.fixture(params=["path", "file", "memory"])
def folder(request: pytest.FixtureRequest, dataset: Path) -> Iterator[Location]:
    """The same data set at three kinds of places."""
    if request.param == "path":
        yield locate(str(dataset))
    elif request.param == "file":
        yield locate(dataset.as_uri())
    else:
        memory = fsspec.filesystem("memory")
        memory.put(str(dataset), "/bucket/out", recursive=True)
        yield locate("memory://bucket/out")
        memory.rm("/bucket", recursive=True)


def test_a_data_set_is_the_same_wherever_it_lies(folder: Location, dataset: Path) -> None:
    assert folder.list() == locate(str(dataset)).list()
    assert verify(folder) == []
    manifest = read_manifest(folder)
    split = manifest.splits["train"]
    batches = [
        batch for shard in split.shards for batch in read_shard(folder, manifest, shard.file, 3)
    ]
    assert sum(batch.num_rows for batch in batches) == split.rows
    assert max(batch.num_rows for batch in batches) == 3


def test_a_damaged_shard_is_seen_from_afar(dataset: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(dataset), "/damaged", recursive=True)
    name = "train-00000-of-00003.parquet"
    memory.pipe(f"/damaged/{name}", memory.cat(f"/damaged/{name}")[:-1])
    [problem] = verify(locate("memory://damaged"))
    assert problem.file == name
    memory.rm("/damaged", recursive=True)


def test_files_are_read_from_any_place(folder: Location, dataset: Path) -> None:
    local = folder.local_path("dataset.json")
    assert local == (None if folder.url.startswith("memory") else dataset / "dataset.json")
    assert pickle.loads(pickle.dumps(folder)).list() == folder.list()  # noqa: S301
    whole = folder.read("dataset.json")
    with folder.open("dataset.json") as stream:
        stream.seek(-9, 2)
        assert stream.read() == whole[-9:]
        stream.seek(4)
        assert stream.read(3) == whole[4:7]
    with pytest.raises(FileNotFoundError):
        folder.open("nothing")


def test_what_is_no_data_set_yet_is_refused(tmp_path: Path) -> None:
    assert locate(str(tmp_path / "nothing")).list() == {}
    assert locate("memory://nothing").list() == {}
    write_dataset(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).unlink()
    with pytest.raises(UserError, match="or a copy was not finished"):
        read_manifest(locate(str(tmp_path / "out")))


def test_a_url_that_no_package_knows_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("s3fs", "gcsfs"):
        monkeypatch.setitem(sys.modules, package, None)
    for url, cure in {
        "s3://bucket/out": "pip install s3fs",
        "gs://bucket/out": "pip install gcsfs",
        "nonsense://out": "Give a path, or a URL",
        "~nobody-here/x": "no such home",
    }.items():
        with pytest.raises(UserError) as refused:
            locate(url)
        assert url in str(refused.value)
        assert cure in str(refused.value)


@pytest.mark.parametrize("name", ["dataset.json", "tokenizer.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting(
    name: str, dataset: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(dataset, copy)
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(OSError, match="it is not a regular file"):
        locate(str(copy)).open(name)
    if name == MANIFEST:
        with pytest.raises(UserError, match=f"{name} cannot be read .it is not a regular file"):
            read_manifest(locate(str(copy)))
    folder = locate(str(dataset))
    with pytest.raises(UserError, match="it is not a regular file"):
        check_tokenizer(folder, read_manifest(folder), copy / name)


def test_a_server_that_does_not_answer_is_named() -> None:
    pytest.importorskip("aiohttp")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UserError, match=r": 127\.0\.0\.1 cannot be reached \("):
        open_data_set(locate(f"http://127.0.0.1:{port}/out"))


class RememberingFiles(MemoryFileSystem):  # fsspec is untyped
    """Files of a server that is slow to list, so that what it has listed is remembered."""

    protocol = "remembering"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    find = fsspec.AbstractFileSystem.find

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("remembering://").strip("/")

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if path not in self.dircache:
            listed = super().ls(path, detail=True, **options)
            self.dircache[path] = listed
        else:
            listed = self.dircache[path]
        return listed if detail else [one["name"] for one in listed]

    def info(self, path: str, **_: Any) -> Any:
        path = self._strip_protocol(path)
        return next(one for one in self.ls(self._parent(path)) if one["name"] == path)


def test_a_data_set_that_was_replaced_is_opened_again_in_the_same_process() -> None:
    fsspec.register_implementation("remembering", RememberingFiles, clobber=True)
    folder = locate("remembering://x")
    assert isinstance(folder, RemoteUrl)
    for content in (b"a", b"more"):
        RememberingFiles(use_listings_cache=False).pipe_file("/x/file", content)
        files, path = folder._find("file")
        assert files.size(path) == len(content)
        assert folder.list() == {"file": len(content)}


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fsspec.register_implementation("remembering", RememberingFiles, clobber=True)
    RememberingFiles().pipe_file("/y/below/file", b"content")
    list_one = RememberingFiles.ls
    assert locate("remembering://y").list() == {"below/file": 7}
    for broken in ("/y", "/y/below"):

        def fail(self: RememberingFiles, path: str, broken: str = broken, **options: Any) -> Any:
            if path == broken:
                raise TimeoutError("no answer")
            return list_one(self, path, **options)

        monkeypatch.setattr(RememberingFiles, "ls", fail)
        with pytest.raises(UserError, match="cannot be listed"):
            locate("remembering://y").list()


def test_a_local_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    scan = os.scandir

    def fail(path: str) -> Any:
        if str(path).endswith("below"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    assert locate(str(tmp_path / "nothing")).list() == {}
    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(UserError, match="cannot be listed"):
        locate(str(tmp_path)).list()
