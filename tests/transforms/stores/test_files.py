"""Files and folders, on this machine's disk and on emulators of both stores."""

from pathlib import Path

import pytest

from corpusmill.faults import UserError
from tests.object_stores import Bucket, Request
from transforms.stores import amazon_s3, files, objects
from transforms.stores.files import (
    Move,
    create_stored,
    delete_files,
    delete_folder,
    list_files,
    open_stored,
    publish,
    read_part,
    write_file,
)


def write_all(root: str, *names: str) -> dict[str, int]:
    for name in names:
        write_file(f"{root}/{name}", name.encode())
    return {f"{root}/{name}": len(name.encode()) for name in sorted(names)}


def read(path: str) -> bytes:
    with open_stored(path) as stream:
        return stream.read()


def is_copy(request: Request) -> bool:
    """Of either store: a POST to rewriteTo, a PUT without a body."""
    return "rewriteTo" in request.path or (request.method == "PUT" and not request.bytes)


def test_folders_and_globs_name_the_same_files_with_a_slash_and_without(bucket: Bucket) -> None:
    root = f"{bucket.url}/corpus"
    texts = write_all(root, "a.txt", "b b.txt", "c/d.txt")
    write_all(bucket.url, "corpus-2/x.txt")
    write_file(f"{root}/empty/", b"")  # a placeholder of a folder
    assert list_files(root) == list_files(f"{root}/") == texts
    assert list(list_files(f"{root}/*.txt")) == [f"{root}/a.txt", f"{root}/b b.txt"]
    assert list_files(f"{root}/**.txt") == texts
    assert list_files(f"{bucket.url}/corpus*/x.txt") == {f"{bucket.url}/corpus-2/x.txt": 14}
    assert len(list_files(bucket.url)) == len(list_files(f"{bucket.url}/")) == 4


def test_all_pages_of_a_list_are_taken(bucket: Bucket) -> None:
    """The emulator of S3 has pages of 20 names; that of Google has no pages."""
    texts = write_all(bucket.url, *(f"many/{number:02d}" for number in range(45)))
    assert list_files(f"{bucket.url}/many/") == texts
    delete_folder(f"{bucket.url}/many")
    assert list_files(bucket.url) == {}


def test_a_folder_is_deleted_whole_and_nothing_beside_it(bucket: Bucket) -> None:
    write_all(bucket.url, "a/1", "a/b/2", "ab/3")
    delete_folder(f"{bucket.url}/a")
    assert list(list_files(bucket.url)) == [f"{bucket.url}/ab/3"]
    delete_folder(f"{bucket.url}/a")
    delete_files([f"{bucket.url}/not-there", f"{bucket.url}/ab/3"])
    assert list_files(bucket.url) == {}


def test_a_whole_bucket_is_never_deleted(bucket: Bucket) -> None:
    with pytest.raises(ValueError, match="whole bucket"):
        delete_folder(f"{bucket.url}/")


def test_what_a_killed_writer_has_sent_to_s3_is_removed(bucket: Bucket) -> None:
    if bucket.scheme != "s3":
        pytest.skip("Google removes it by itself after a week")
    store, _ = objects.find_object(bucket.url)
    assert isinstance(store, amazon_s3.AmazonS3Store)
    store.begin_upload("temporary/x").add(b"x")
    store.begin_upload("other").add(b"x")
    delete_folder(f"{bucket.url}/temporary")
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


def make_moves(root: str, final: str, number: int = 5) -> list[Move]:
    moves = []
    for of in range(number):
        write_file(f"{root}/part-{of}", b"new" * of)
        moves.append(Move(f"{root}/part-{of}", f"{final}/shard {of}", 3 * of))
    return moves


def test_files_get_their_final_names_by_one_request_each(bucket: Bucket) -> None:
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    write_file(f"{bucket.url}/out/shard 2", b"an older one")
    bucket.proxy.clear()
    publish(moves)
    assert len(bucket.proxy.requests) == len(moves)
    assert [read(move.destination) for move in moves] == [b"new" * of for of in range(5)]


@pytest.mark.parametrize("k", [0, 3])
def test_a_commit_that_fails_anywhere_is_repeated_without_harm(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    """A reader that comes at any time finds the older file or the newer one, never none."""
    monkeypatch.setattr(files, "_COPIERS", 1)
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    write_all(f"{bucket.url}/out", *(f"shard {number}" for number in range(5)))
    copies: list[Request] = []

    def refuse_kth(request: Request) -> str | None:
        copies.extend([request] if is_copy(request) else [])
        return "403" if is_copy(request) and len(copies) == k + 1 else None

    bucket.proxy.fault = refuse_kth  # type: ignore[assignment]
    with pytest.raises(UserError, match="access is denied"):
        publish(moves)
    bucket.proxy.clear()
    found = [read(move.destination) for move in moves]
    assert found[k] == f"shard {k}".encode()
    assert all(of in {b"new" * n, f"shard {n}".encode()} for n, of in enumerate(found))
    for _ in range(2):
        publish(moves)
        assert [read(move.destination) for move in moves] == [b"new" * of for of in range(5)]
    delete_folder(f"{bucket.url}/temporary")
    publish(moves)  # all is done, and another one has already removed what it came from


def test_a_file_that_is_nowhere_ends_the_commit(bucket: Bucket) -> None:
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    write_file(f"{bucket.url}/out/shard 3", b"another one")
    delete_folder(f"{bucket.url}/temporary")
    with pytest.raises(RuntimeError, match="is gone"):
        publish(moves)


def test_what_lies_on_another_filesystem_is_carried_over(bucket: Bucket, tmp_path: Path) -> None:
    for root, final in ((str(tmp_path / "a"), f"{bucket.url}/out"), (bucket.url, str(tmp_path))):
        moves = make_moves(root, final)
        publish(moves)
        assert [read(move.destination) for move in moves] == [b"new" * of for of in range(5)]


def test_another_disk_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    moves = make_moves(str(tmp_path / "a"), str(tmp_path / "b"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "shard 4").write_bytes(b"an older one")
    monkeypatch.setattr("os.rename", refuse)
    publish(moves)
    assert [read(move.destination) for move in moves] == [b"new" * of for of in range(5)]
    assert len(list((tmp_path / "b").iterdir())) == 5
    with create_stored(str(tmp_path / "c")) as stream:
        stream.write(b"")
