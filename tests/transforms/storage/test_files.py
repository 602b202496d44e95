"""Files and folders, on this machine's disk and on emulators of both stores."""

from pathlib import Path

import pytest

from tests.tools.object_stores import Bucket
from transforms.storage import amazon_s3, objects
from transforms.storage.files import (
    find_files,
    list_folder,
    locate,
    read_part,
    write_file,
)


def write_all(root: str, *names: str) -> dict[str, int]:
    for name in names:
        write_file(f"{root}/{name}", name.encode())
    return {f"{root}/{name}": len(name.encode()) for name in sorted(names)}


def test_folders_and_globs_name_the_same_files_with_a_slash_and_without(bucket: Bucket) -> None:
    root = f"{bucket.url}/corpus"
    texts = write_all(root, "a.txt", "b b.txt", "c/d.txt")
    write_all(bucket.url, "corpus-2/x.txt")
    write_file(f"{root}/empty/", b"")  # a placeholder of a folder

    def find(pattern: str) -> list[str]:
        return [file.path for file in find_files(pattern)]

    assert find(root) == find(f"{root}/") == list(texts)
    assert find(f"{root}/*.txt") == [f"{root}/a.txt", f"{root}/b b.txt"]
    assert find(f"{root}/**.txt") == list(texts)
    assert find(f"{bucket.url}/corpus*/x.txt") == [f"{bucket.url}/corpus-2/x.txt"]
    assert list_folder(root) == list_folder(f"{root}/") == texts
    assert len(list_folder(bucket.url)) == len(list_folder(f"{bucket.url}/")) == 4


@pytest.mark.parametrize("is_local", [True, False])
def test_wildcards_in_the_name_of_a_folder_mean_themselves(
    is_local: bool, bucket: Bucket, tmp_path: Path
) -> None:
    root = str(tmp_path) if is_local else bucket.url
    texts = write_all(f"{root}/a[1]*?", "b[2].txt", "c/*")
    write_all(root, "a1xx/b2.txt", "a1xx/c/d")
    assert list_folder(f"{root}/a[1]*?") == texts
    locate(f"{root}/a[1]*?").delete(["b[2].txt", "c/*"])
    locate(f"{root}/a[1]*?").remove("nothing")
    assert list(list_folder(root)) == [f"{root}/a1xx/b2.txt", f"{root}/a1xx/c/d"]


def test_all_pages_of_a_list_are_taken(bucket: Bucket) -> None:
    """The emulator of S3 has pages of 20 names; the one of Google has no pages."""
    texts = write_all(bucket.url, *(f"many/{number:02d}" for number in range(45)))
    assert list_folder(f"{bucket.url}/many/") == texts
    locate(f"{bucket.url}/many").remove("nothing")
    assert list_folder(bucket.url) == {}


def test_a_folder_is_deleted_whole_and_nothing_beside_it(bucket: Bucket) -> None:
    write_all(bucket.url, "a/1", "a/b/2", "ab/3")
    locate(f"{bucket.url}/a").remove("nothing")
    assert list(list_folder(bucket.url)) == [f"{bucket.url}/ab/3"]
    locate(f"{bucket.url}/a").remove("nothing")
    locate(bucket.url).delete(["not-there", "ab/3"])
    assert list_folder(bucket.url) == {}


@pytest.mark.parametrize("number", [99, 100, 101, 1000, 1001])
def test_any_number_of_files_is_deleted(number: int, bucket: Bucket) -> None:
    """The stores take 100 and 1000 names with a request."""
    names = [f"{each:04}" for each in range(number)]
    write_all(bucket.url, names[0], names[-1])
    locate(bucket.url).delete(names)
    assert list_folder(bucket.url) == {}


def test_a_whole_bucket_is_never_deleted(bucket: Bucket) -> None:
    with pytest.raises(ValueError, match="whole bucket"):
        locate(f"{bucket.url}/").remove("nothing")


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
