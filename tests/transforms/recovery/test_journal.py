import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpusmill.location import locate
from tests.tools.data_files import damage_file
from transforms.elements import LinesFile, Segment, WrittenFile
from transforms.recovery import Journal, Output, Workplace, count_finished
from transforms.storage.checksums import compute_checksum


class Work:
    """Work that counts its calls, and writes the files that it names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, 0

    def __call__(self) -> Iterator[Output]:
        self.done += 1
        paths = [str(self.folder / f"{name}-{self.done}") for name in "abcd"]
        for path in paths:
            Path(path).write_text(f"content {self.done}")
        whole = f"content {self.done}".encode()
        checks = [compute_checksum(part) for part in (whole[:4], whole[4:])]
        digest = hashlib.sha256(whole).hexdigest()
        yield "segments", Segment(3, 7, paths[0], 4, 5, checks[1])
        yield "segments", Segment(2, 7, paths[0], 0, 4, checks[0])
        yield "segments", Segment(2, 0, "", 0, 0, 0)
        yield "candidates", Segment(1, 2, paths[1], 4, 5, checks[1], 2**52)
        yield "rejects", LinesFile(1, paths[2], 4, len(whole), digest)
        yield "", WrittenFile(1, 0, paths[3], 9, 99, len(whole), digest)
        yield "counts", ("read.bytes", 2**40)
        yield "", "plain text"


def test_work_that_is_finished_is_not_done_again(tmp_path: Path) -> None:
    work, journal = Work(tmp_path), Journal(Workplace(str(tmp_path)))
    first, is_repeated = journal.once("task-1", work)
    assert not is_repeated
    second, is_repeated = Journal(Workplace(str(tmp_path))).once("task-1", work)
    assert is_repeated
    assert second == first
    assert [type(element) for _, element in second] == [type(element) for _, element in first]
    assert work.done == 1
    journal.once("task-2", work)
    assert work.done == 2


def test_what_is_not_whole_is_done_again(tmp_path: Path) -> None:
    for kind in ("cut", "gone", "flipped", "zeroed"):
        for name in ("a-1", "b-1", "c-1", "d-1", "done-task-1.json"):
            folder = tmp_path / f"{kind}-{name}"
            folder.mkdir()
            work, journal = Work(folder), Journal(Workplace(str(folder)))
            journal.once("task-1", work)
            damage_file(folder / name, kind)
            again, is_repeated = journal.once("task-1", work)
            assert (is_repeated, work.done) == (False, 2), folder.name
            assert journal.once("task-1", work) == (again, True)


def test_work_that_fails_is_not_finished(tmp_path: Path) -> None:
    def fail() -> Iterator[Output]:
        yield "counts", ("read.bytes", 1)
        raise OSError("no more")

    journal = Journal(Workplace(str(tmp_path)))
    with pytest.raises(OSError, match="no more"):
        journal.once("task-1", fail)
    assert count_finished(locate(str(tmp_path)).list()) == {}


def test_finished_work_is_counted_by_kind(tmp_path: Path) -> None:
    work, journal = Work(tmp_path), Journal(Workplace(str(tmp_path)))
    for name in ("task-1", "task-12", "shard-1", "pool"):
        journal.once(name, work)
    assert count_finished(locate(str(tmp_path)).list()) == {"task": 2, "shard": 1, "pool": 1}
    assert count_finished(locate(str(tmp_path / "missing")).list()) == {}
