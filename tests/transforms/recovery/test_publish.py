"""Files that get their final names, on this machine's disk and on emulators of both stores."""

from pathlib import Path

import pytest

from corpusmill.dataset.ownership import remove_named
from corpusmill.errors import UserError
from tests.tools.object_stores import Bucket, Request
from transforms.commit import rename as publishing
from transforms.commit.rename import Move, duplicate, publish
from transforms.storage.files import list_folder, locate, read_file, write_file

# Only files from another disk need it.
SCRATCH = "/nowhere"
NEW = [b"new" * index for index in range(5)]


def read_all(moves: list[Move]) -> list[bytes]:
    """Return the contents of the final files."""
    return [read_file(move.destination) for move in moves]


def is_copy(request: Request) -> bool:
    """Return whether a request copies an object: a POST to rewriteTo, or a PUT without a body."""
    return "rewriteTo" in request.path or (request.method == "PUT" and not request.bytes)


def make_moves(root: str, final: str) -> list[Move]:
    moves = []
    for index, content in enumerate(NEW):
        write_file(f"{root}/part-{index}", content)
        moves.append(Move(f"{root}/part-{index}", f"{final}/shard {index}", len(content)))
    return moves


def test_files_get_their_final_names_by_one_request_each(bucket: Bucket) -> None:
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    write_file(f"{bucket.url}/out/shard 2", b"an older one")
    bucket.proxy.clear()
    publish(moves, SCRATCH)
    assert len(bucket.proxy.requests) == len(moves)
    assert read_all(moves) == NEW


@pytest.mark.parametrize("k", [0, 3])
def test_a_commit_that_fails_anywhere_is_repeated_without_harm(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    """A reader always finds the older file or the newer one."""
    monkeypatch.setattr(publishing, "_COPIERS", 1)
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    for number in range(5):
        write_file(f"{bucket.url}/out/shard {number}", f"shard {number}".encode())
    copies: list[Request] = []

    def refuse_kth(request: Request) -> str | None:
        copies.extend([request] if is_copy(request) else [])
        return "403" if is_copy(request) and len(copies) == k + 1 else None

    bucket.proxy.fault = refuse_kth
    with pytest.raises(UserError, match="access is denied"):
        publish(moves, SCRATCH)
    bucket.proxy.clear()
    contents = read_all(moves)
    assert contents[k] == f"shard {k}".encode()
    assert all(content in {b"new" * n, f"shard {n}".encode()} for n, content in enumerate(contents))
    for _ in range(2):
        publish(moves, SCRATCH)
        assert [read_file(move.destination) for move in moves] == [
            b"new" * index for index in range(5)
        ]
    remove_named(locate(f"{bucket.url}/temporary"))
    publish(moves, SCRATCH)  # all is done, and another one has already removed what it came from


def test_a_file_that_is_nowhere_ends_the_commit(bucket: Bucket) -> None:
    moves = make_moves(f"{bucket.url}/temporary", f"{bucket.url}/out")
    write_file(f"{bucket.url}/out/shard 3", b"another one")
    remove_named(locate(f"{bucket.url}/temporary"))
    with pytest.raises(RuntimeError, match="is gone"):
        publish(moves, SCRATCH)


def test_what_lies_on_another_filesystem_is_carried_over(bucket: Bucket, tmp_path: Path) -> None:
    for root, final in ((str(tmp_path / "a"), f"{bucket.url}/out"), (bucket.url, str(tmp_path))):
        moves = make_moves(root, final)
        publish(moves, SCRATCH)
        assert [read_file(move.destination) for move in moves] == [
            b"new" * index for index in range(5)
        ]


def test_another_disk_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    moves = make_moves(str(tmp_path / "a"), str(tmp_path / "b"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "shard 4").write_bytes(b"an older one")
    monkeypatch.setattr("os.rename", refuse)
    publish(moves, str(tmp_path / "scratch"))
    assert read_all(moves) == NEW
    assert len(list((tmp_path / "b").iterdir())) == 5
    assert not list((tmp_path / "scratch").iterdir())
    write_file(str(tmp_path / "c"), b"")


@pytest.mark.parametrize("place", ["a disk", "a store", "a disk without links"])
def test_a_second_name_leaves_the_first(
    place: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    if place == "a disk without links":
        monkeypatch.setattr("os.link", refuse)
    root = bucket.url if place == "a store" else str(tmp_path)
    moves = make_moves(f"{root}/temporary", f"{root}/out")
    (tmp_path / "out").mkdir()
    for _ in range(2):
        duplicate(moves, str(tmp_path / "scratch"))
        for number, move in enumerate(moves):
            assert read_file(move.source) == read_file(move.destination) == NEW[number]
    for folder in ("temporary", "out"):
        remove_named(locate(f"{root}/{folder}"))
    duplicate(moves, str(tmp_path / "scratch"))  # another attempt is through
    assert list_folder(f"{root}/out") == {}
