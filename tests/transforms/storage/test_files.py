"""Files and folders, on this machine's disk and on emulators of both stores."""

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.localfilesystem import LocalFileSystem

from tests.tools.object_stores import Bucket
from transforms.storage import amazon_s3, objects
from transforms.storage.files import create_once, find_files, locate, read_part, write_file


def write_all(root: str, *names: str) -> dict[str, int]:
    for name in names:
        write_file(f"{root}/{name}", name.encode())
    return {name: len(name.encode()) for name in sorted(names)}


def test_folders_and_globs_name_the_same_files_with_a_slash_and_without(bucket: Bucket) -> None:
    root = f"{bucket.url}/corpus"
    texts = write_all(root, "a.txt", "b b.txt", "c/d.txt")
    write_all(bucket.url, "corpus-2/x.txt")
    write_file(f"{root}/empty/", b"")  # a placeholder of a folder

    def find(pattern: str) -> list[str]:
        return [file.path for file in find_files(pattern)]

    paths = [f"{root}/{name}" for name in texts]
    assert find(root) == find(f"{root}/") == paths
    assert find(f"{root}/*.txt") == [f"{root}/a.txt", f"{root}/b b.txt"]
    assert find(f"{root}/**.txt") == paths
    assert find(f"{bucket.url}/corpus*/x.txt") == [f"{bucket.url}/corpus-2/x.txt"]
    assert locate(root).list() == locate(f"{root}/").list() == texts
    assert len(locate(bucket.url).list()) == len(locate(f"{bucket.url}/").list()) == 4


def test_wildcards_in_the_name_of_a_folder_mean_themselves(bucket: Bucket, tmp_path: Path) -> None:
    for root in (str(tmp_path), bucket.url):
        texts = write_all(f"{root}/a[1]*?", "b[2].txt", "c/*")
        write_all(root, "a1xx/b2.txt", "a1xx/c/d")
        assert locate(f"{root}/a[1]*?").list() == texts
        locate(f"{root}/a[1]*?").delete(["b[2].txt", "c/*"])
        locate(f"{root}/a[1]*?").remove("nothing")
        assert list(locate(root).list()) == ["a1xx/b2.txt", "a1xx/c/d"]


def test_all_pages_of_a_list_are_taken(bucket: Bucket) -> None:
    """The emulator of S3 has pages of 20 names; the one of Google has no pages."""
    texts = write_all(bucket.url, *(f"many/{number:02d}" for number in range(45)))
    assert locate(bucket.url).list() == texts
    locate(f"{bucket.url}/many").remove("nothing")
    assert locate(bucket.url).list() == {}


def test_a_folder_is_deleted_whole_and_nothing_beside_it(bucket: Bucket) -> None:
    write_all(bucket.url, "a/1", "a/b/2", "ab/3")
    locate(f"{bucket.url}/a").remove("nothing")
    assert list(locate(bucket.url).list()) == ["ab/3"]
    locate(f"{bucket.url}/a").remove("nothing")
    locate(bucket.url).delete(["not-there", "ab/3"])
    assert locate(bucket.url).list() == {}
    with pytest.raises(ValueError, match="whole bucket"):
        locate(f"{bucket.url}/").remove("nothing")


def test_any_number_of_files_is_deleted_with_the_fewest_requests(bucket: Bucket) -> None:
    most = {"gs": 100, "s3": 1000}[bucket.scheme]
    numbers, requests = (99, 100, 101, 1000, 1001), list[int]()
    for number in numbers:
        names = [f"{each:04}" for each in range(number)]
        write_all(bucket.url, names[0], names[-1])
        bucket.proxy.clear()
        locate(bucket.url).delete(names)
        requests.append(len(bucket.proxy.requests))
        assert locate(bucket.url).list() == {}
    assert requests == [math.ceil(number / most) for number in numbers]


def test_what_a_killed_writer_has_sent_to_s3_is_removed(bucket: Bucket) -> None:
    if bucket.scheme != "s3":
        pytest.skip("Google removes it by itself after a week")
    store, _ = objects.find_object(bucket.url)
    assert isinstance(store, amazon_s3.AmazonS3Store)
    store.begin_upload("temporary/x").write(b"x")
    store.begin_upload("other").write(b"x")
    locate(f"{bucket.url}/temporary").remove("nothing")
    left = store.client.list_multipart_uploads(Bucket=store.bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == ["other"]


def fail_in_block(path: str, scratch: str) -> None:
    with create_once(path, scratch) as stream:
        stream.write(b"a part")
        raise ZeroDivisionError


def test_a_file_that_is_written_once_is_whole_when_it_has_its_name(tmp_path: Path) -> None:
    scratch, path = tmp_path / "v1" / "scratch", tmp_path / "v1" / "a" / "x"
    scratch.mkdir(parents=True)
    for before, content in ((None, b"first"), (b"first", b"again")):
        with create_once(str(path), str(scratch)) as stream:
            stream.write(content)
            stream.flush()
            assert (path.read_bytes() if path.exists() else None) == before
        assert path.read_bytes() == content
    with pytest.raises(ZeroDivisionError):
        fail_in_block(str(path), str(scratch))
    (tmp_path / "link").symlink_to(path)
    with create_once(str(tmp_path / "link"), str(scratch)) as stream:
        stream.write(b"other")
        stream.close()
    assert locate(str(tmp_path)).list() == {"link": 5, "v1/a/x": 5}
    assert path.read_bytes() == b"again"


def test_a_folder_that_was_removed_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run is over, and a writer of it that slept wakes."""
    version = tmp_path / "v1"

    def remove() -> None:
        shutil.rmtree(version, ignore_errors=True)

    def write(path: Path, scratch: Path, meanwhile: Callable[[], None]) -> None:
        with create_once(str(path), str(scratch)) as stream:
            stream.write(b"late")
            meanwhile()

    def remove_first(written: str, path: str) -> None:
        remove()
        rename(written, path)

    rename = os.replace
    monkeypatch.setattr(os, "replace", remove_first)
    for path, scratch in (
        (version / "x", version / "scratch"),
        (version / "a" / "x", version / "scratch"),
        (version / "a" / "x", tmp_path),
        (version / "x", tmp_path / "nothing"),
    ):
        for meanwhile in (remove, lambda: None):
            (version / "scratch").mkdir(parents=True)
            with pytest.raises(FileNotFoundError):
                write(path, scratch, meanwhile)
            assert not any((version / name).exists() for name in ("x", "a"))
            assert scratch.name == "nothing" or list(tmp_path.iterdir()) == []
            remove()


class LikeHdfs(LocalFileSystem):
    """A file system of Beam's that refuses to replace a file, as HDFS does, in a local folder."""

    root = ""

    @classmethod
    def scheme(cls) -> str:
        return "likehdfs"

    def _local(self, path: str) -> str:
        return path.replace("likehdfs://host", self.root)

    def exists(self, path: str) -> bool:
        return bool(super().exists(self._local(path)))

    def delete(self, paths: list[str]) -> None:
        super().delete([*map(self._local, paths)])

    def mkdirs(self, path: str) -> None:
        super().mkdirs(self._local(path))

    def open(self, path: str, *arguments: Any, **options: Any) -> BinaryIO:
        stream: BinaryIO = super().open(self._local(path), *arguments, **options)
        return stream

    def create(self, path: str, *arguments: Any, **options: Any) -> BinaryIO:
        if self.exists(path):
            raise BeamIOError(f"File already exists: {path}")
        stream: BinaryIO = super().create(self._local(path), *arguments, **options)
        return stream

    def rename(self, sources: list[str], targets: list[str]) -> None:
        if any(map(self.exists, targets)):
            raise BeamIOError("Rename operation failed")
        super().rename([*map(self._local, sources)], [*map(self._local, targets)])


def test_other_file_systems_are_written_once_and_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LikeHdfs, "root", str(tmp_path))
    (tmp_path / "scratch").mkdir()
    for content in (b"first", b"again"):
        with create_once("likehdfs://host/v1/x", "likehdfs://host/scratch") as stream:
            stream.write(content)
        assert (tmp_path / "v1" / "x").read_bytes() == content
    with pytest.raises(ZeroDivisionError):
        fail_in_block("likehdfs://host/v1/x", "likehdfs://host/scratch")
    pointer, held = locate("likehdfs://host/pointer"), None
    for content in (b"a", b"b"):
        assert pointer.exchange(content, held)
        held = content
    assert not pointer.exchange(b"c", b"a")
    assert pointer.read() == b"b"
    assert list(locate(str(tmp_path)).list()) == ["pointer", "v1/x"]


def test_a_part_is_read_in_one_request_of_its_size(bucket: Bucket, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    for path in (f"{bucket.url}/x", str(tmp_path / "x")):
        write_file(path, content)
        bucket.proxy.clear()
        assert read_part(path, 1000, 300) == content[1000:1300]
        assert read_part(path, 5, 0) == b""
        with pytest.raises(OSError, match="ends before"):
            read_part(path, len(content) - 1, 2)
    with pytest.raises(FileNotFoundError):
        read_part(f"{bucket.url}/nothing", 0, 1)
