from pathlib import Path

import pytest

from corpusmill.errors import UserError
from corpusmill.location import locate
from tests.tools.object_stores import Bucket
from tests.tools.stored_objects import read_objects, write_objects
from transforms.elements import WrittenFile
from transforms.recovery import (
    COMMITTED,
    FAILED,
    Journal,
    Output,
    Run,
    Workplace,
    begin_run,
    end_run,
    read_run,
)
from transforms.storage.files import write_file


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """The place of a run whose job may outlive its command."""
    place = Workplace(str(tmp_path / "temp"), str(tmp_path / "out"), 1, "mine")
    for folder in (place.temp_folder, place.scratch):
        Path(folder).mkdir(parents=True)
    assert begin_run(place.folder, Run("mine", place.temp_folder, "host", 1))
    return place


def work(journal: Journal, name: str) -> list[Output]:
    outputs, _ = journal.once(name, lambda: [("", "done")])
    return outputs


def test_work_of_a_run_that_is_over_is_not_done(place: Workplace) -> None:
    journal, folder = Journal(place), place.folder
    assert work(journal, "task-1") == [("", "done")]
    journal.once("shard-1", lambda: [("", WrittenFile(0, 0, f"{folder.url}/gone", 0, 0, 0, ""))])
    with pytest.raises(FileNotFoundError, match="gone"):
        journal.sync()
    journal.once("shard-2", lambda: [("", WrittenFile(0, 0, f"{folder.url}/gone", 0, 0, 0, ""))])
    end_run(folder, "another", COMMITTED)
    assert not place.is_over()
    end_run(folder, "mine", COMMITTED)
    end_run(folder, "mine", FAILED)
    run = read_run(folder)
    assert run
    assert run.ended == COMMITTED
    assert work(journal, "task-1") == work(journal, "task-2") == []
    assert begin_run(folder, Run("theirs"), run)
    assert place.is_over()
    Path(folder.url, "_run.json").unlink()
    assert place.is_over()
    journal.sync()  # what the other run may have removed
    assert not Workplace(place.temp_folder).is_over()


def test_of_two_runs_that_begin_in_a_folder_one_has_it(tmp_path: Path) -> None:
    folder, first = locate(str(tmp_path)), Run("first")
    assert begin_run(folder, first)
    assert not begin_run(folder, Run("second"))
    assert begin_run(folder, Run("second"), first)
    assert not begin_run(folder, Run("third"), first)
    run = read_run(folder)
    assert run
    assert run == Run("second")
    # As after a loss of power: it can be resumed, and is nobody's.
    for content in ("", "{", "[]", '{"token": 1}'):
        (tmp_path / "_run.json").write_text(content)
        assert read_run(folder) == Run("")


def test_work_that_ends_after_its_run_is_removed_leaves_no_shard(bucket: Bucket) -> None:
    place = Workplace(f"{bucket.url}/temp", f"{bucket.url}/out", 1, "mine")
    assert begin_run(place.folder, Run("mine", place.temp_folder))

    def lose() -> list[Output]:
        write_file(f"{place.temp_folder}/spill-1", b"documents")
        write_objects(bucket, {})
        return [("", "done")]

    Journal(place).once("task-1", lose)
    assert Journal(place).once("task-2", lose) == ([], True)
    assert not [name for name in read_objects(bucket) if "/out/" in name]


def test_a_mistake_ends_the_run_and_a_fault_does_not(place: Workplace) -> None:
    with pytest.raises(OSError, match="disk"), place.at_work():
        raise OSError("disk")
    assert not place.is_over()
    mistake = UserError("value", "cause", "cure")
    with pytest.raises(UserError), place.at_work():
        raise mistake
    assert place.is_over()
    run = read_run(place.folder)
    assert run
    assert run.mistake == ("value", "cause", "cure")
