"""Files that are exchanged in one step, synced, and never reached through a link."""

import errno
import fcntl
import os
import signal
from collections.abc import Callable
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO

import fsspec
import pytest

from corpusmill import synced_files
from corpusmill.errors import OutageError
from corpusmill.location import Location, NotAFileError, locate
from tests.tools.exchanges import race


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_of_those_that_exchange_the_same_content_wins_each_time(tmp_path: Path) -> None:
    place = locate(str(tmp_path / "pointer"))
    held = race(place, 4, 50)
    assert place.exchange(held or b"", b"anything")
    assert not place.exchange(b"new", None)
    assert list_names(tmp_path) == ["pointer"]
    (tmp_path / "pointer").unlink()
    assert not place.exchange(b"new", held)
    assert list_names(tmp_path) == []


def exchange_apart(place: Location, old: bytes, fsync: Callable[[int], None]) -> None:
    os.fsync = fsync  # type: ignore[assignment]
    os._exit(0 if place.exchange(b"sleeper's", old) else 1)


def test_a_process_that_sleeps_in_its_exchange_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synced_files, "_PATIENCE", 0.2)
    place = locate(str(tmp_path / "pointer"))
    assert place.exchange(b"old", None)

    def sleep(_: int) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    sleeper = get_context("fork").Process(target=exchange_apart, args=(place, b"old", sleep))
    sleeper.start()
    assert sleeper.pid
    os.waitpid(sleeper.pid, os.WUNTRACED)
    with pytest.raises(OutageError, match="pointer: another process is in the middle"):
        place.exchange(b"mine", b"old")
    assert place.read() == b"old"
    # It sleeps once more in the folder's sync, after its exchange.
    os.kill(sleeper.pid, signal.SIGCONT)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert not place.exchange(b"mine", b"old")
    assert place.exchange(b"mine", b"sleeper's")
    os.kill(sleeper.pid, signal.SIGCONT)
    assert os.waitpid(sleeper.pid, 0)[1] == 0
    assert place.read() == b"mine"


def test_a_lock_on_a_file_that_has_lost_its_name_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synced_files, "_PATIENCE", 0.2)
    place, lock = tmp_path / "pointer", fcntl.flock
    place.write_bytes(b"old")
    with (tmp_path / "new").open("w+b") as another:
        another.write(b"old")
        another.flush()

        def lock_late(stream: BinaryIO, how: int) -> None:
            lock(stream, how)
            if (tmp_path / "new").exists():
                lock(another, how)
                (tmp_path / "new").replace(place)

        monkeypatch.setattr(fcntl, "flock", lock_late)
        with pytest.raises(OutageError):
            locate(str(place)).exchange(b"mine", b"old")
    assert locate(str(place)).exchange(b"mine", b"old")


def test_a_killed_process_keeps_nobody_from_an_exchange(tmp_path: Path) -> None:
    place = locate(str(tmp_path / "pointer"))
    assert place.exchange(b"old", None)

    def die(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    killed = get_context("fork").Process(target=exchange_apart, args=(place, b"old", die))
    killed.start()
    killed.join()
    assert place.exchange(b"mine", b"old")
    assert place.read() == b"mine"


def test_file_systems_that_lock_nothing_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, numbers = locate(str(tmp_path / "pointer")), sorted(synced_files._NO_LOCKS)
    assert place.exchange(b"%d" % len(numbers), None)
    for number, refusal in enumerate(numbers):

        def refuse(*_: object, refusal: int = refusal) -> None:
            raise OSError(refusal, os.strerror(refusal))

        monkeypatch.setattr(fcntl, "flock", refuse)
        old = b"%d" % (number or len(numbers))
        assert place.exchange(b"%d" % (number + 1), old) or number + 1 == len(numbers)


def test_what_is_no_file_is_never_exchanged(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "to nothing").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "to nothing", "pipe"):
        for old in (b"theirs", None):
            with pytest.raises(NotAFileError) as refused:
                locate(str(tmp_path / name)).exchange(b"mine", old)
            assert refused.value.filename == str(tmp_path / name)
    assert list_names(tmp_path) == ["link", "pipe", "target", "to nothing"]
    assert (tmp_path / "target").read_bytes() == b"theirs"


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    for old in (b"old", None):
        with pytest.raises(FileNotFoundError):
            locate(str(tmp_path / "gone" / "pointer")).exchange(b"new", old)
    assert list_names(tmp_path) == []


def test_other_places_compare_and_write() -> None:
    place = locate("memory://exchange/pointer")
    assert place.exchange(b"a", None)
    assert place.exchange(b"b", b"a")
    assert place.exchange(b"b", b"anything")
    assert not place.exchange(b"c", None)
    assert place.read() == b"b"
    assert place.list_links() == []
    place.sync(["nothing"])
    fsspec.filesystem("memory").rm("/exchange", recursive=True)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what was synced."""
    paths, sync = list[str](), os.fsync

    def record(descriptor: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return paths


def test_files_are_synced_before_all_folders_on_the_way(tmp_path: Path, synced: list[str]) -> None:
    root = tmp_path / "out"
    files = ["v1/shard", "v1/provenance/table", "card"]
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "other").mkdir()
    locate(str(root)).sync(files)
    assert sorted(synced[:3]) == sorted(str(root / name) for name in files)
    folders = [tmp_path, root, root / "v1", root / "v1" / "provenance"]
    assert sorted(synced[3:]) == sorted(map(str, folders))
    with pytest.raises(FileNotFoundError, match="nothing"):
        locate(str(root)).sync(["nothing"])


def test_an_exchange_is_on_the_disk_when_it_returns(tmp_path: Path, synced: list[str]) -> None:
    place = locate(str(tmp_path / "pointer"))
    for old, new in ((None, b"a"), (b"a", b"b"), (b"a", b"b")):
        synced.clear()
        assert place.exchange(new, old)
        assert synced[-1] == str(tmp_path)


def test_a_disk_that_fails_is_named_and_one_that_syncs_no_folders_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for number, is_folder in product((errno.EIO, *synced_files._NO_SYNC), (True, False)):

        def fail(descriptor: int, number: int = number, is_folder: bool = is_folder) -> None:
            if os.path.isdir(f"/proc/self/fd/{descriptor}") == is_folder:  # noqa: PTH112
                raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fail)
        if number == errno.EIO or not is_folder:
            with pytest.raises(OSError, match="Errno") as failed:
                locate(str(tmp_path)).sync(["file"])
            assert Path(failed.value.filename).exists()
        else:
            locate(str(tmp_path)).sync(["file"])


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours / "v1"):
        folder.mkdir(parents=True)
        (folder / "shard").touch()
    (ours / "link").symlink_to(theirs)
    (ours / "v1" / "link").symlink_to(theirs / "shard")
    data_set = locate(str(ours))
    assert data_set.list_links() == ["link", "v1/link"]
    for names in (["v1/shard", "link/shard"], ["v1/shard", "v1/link"], ["link"]):
        with pytest.raises(NotAFileError, match="it is a link"):
            data_set.delete(names)
    for linked, last in ((data_set / "link", "shard"), (data_set, "link/shard")):
        with pytest.raises(NotAFileError, match="it is a link"):
            linked.remove(last)
    assert sorted(data_set.list()) == ["link", "v1/link", "v1/shard"]
    # The data set itself may be reached through one.
    (tmp_path / "way").symlink_to(ours)
    locate(str(tmp_path / "way")).delete(["v1/shard"])
    (data_set / "v1").remove("mark")
    assert list_names(ours) == ["link"]
    assert list_names(theirs) == ["shard"]
