import os
import time
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from tests.tools.object_stores import Bucket
from tests.tools.stored_objects import read_objects, write_objects
from transforms import recovery
from transforms.recovery import (
    COMMITTED,
    FAILED,
    Claim,
    Journal,
    Output,
    Workplace,
    drop_claim,
    end_claim,
    last_sign,
    read_claim,
    take_claim,
)
from transforms.storage.files import write_file


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """The place of a run with a claim, whose job may outlive its command."""
    output, folder = tmp_path / "out", tmp_path / "temp"
    output.mkdir()
    folder.mkdir()
    take_claim(str(output), Claim("mine", str(folder), "host", 1, 0.0))
    return Workplace(str(folder), str(output), "mine", outlives=True)


def work(journal: Journal, name: str) -> list[Output]:
    outputs, _ = journal.once(name, lambda: [("", "done")])
    return outputs


def test_work_of_a_run_that_is_over_is_not_done(place: Workplace) -> None:
    journal, output = Journal(place), Path(place.output)
    assert work(journal, "task-1") == [("", "done")]
    end_claim(place.output, "another", COMMITTED)
    assert not place.is_over()
    end_claim(place.output, "mine", COMMITTED)
    end_claim(place.output, "mine", FAILED)
    claim = read_claim(place.output)
    assert claim
    assert claim.ended == COMMITTED
    assert work(journal, "task-1") == work(journal, "task-2") == []
    # Neither claim nor data set: a worker that does not see the folder must not keep silent.
    drop_claim(place.output, "mine")
    assert not place.is_over()
    (output / "_SUCCESS").touch()
    assert place.is_over()
    take_claim(place.output, Claim("theirs", "", "host", 2, 0.0))
    assert place.is_over()
    assert not Workplace(place.temp_folder).is_over()


def test_work_that_ends_after_its_folder_is_gone_leaves_nothing(bucket: Bucket) -> None:
    place = Workplace(f"{bucket.url}/temp", f"{bucket.url}/out", "mine", outlives=True)
    take_claim(place.output, Claim("theirs", "", "host", 2, 0.0))
    claim = read_objects(bucket)
    write_objects(bucket, {})
    take_claim(place.output, Claim("mine", place.temp_folder, "host", 1, 0.0))

    def lose() -> list[Output]:
        write_file(f"{place.temp_folder}/spill-1", b"documents")
        write_objects(bucket, {**read_objects(bucket), **claim})
        return [("", "done")]

    Journal(place).once("task-1", lose)
    assert read_objects(bucket) == claim


def test_a_mistake_ends_the_run_and_a_fault_does_not(place: Workplace) -> None:
    with pytest.raises(OSError, match="disk"), place.at_work():
        raise OSError("disk")
    assert not place.is_over()
    mistake = UserError("value", "cause", "cure")
    with pytest.raises(UserError), place.at_work():
        raise mistake
    assert place.is_over()
    claim = read_claim(place.output)
    assert claim
    assert claim.mistake == ("value", "cause", "cure")


def test_a_worker_gives_signs_of_life_while_it_works(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_SECONDS_BETWEEN_SIGNS", 0.01)
    assert not last_sign(place.temp_folder)
    with place.at_work():
        [sign] = Path(place.temp_folder).iterdir()
        os.utime(sign, (0, 0))
        while time.time() - last_sign(place.temp_folder) > 60:
            time.sleep(0.01)


def test_what_a_killed_process_left_of_a_claim_goes_with_it(place: Workplace) -> None:
    (Path(place.output) / f"_RUNNING.{'0a' * 16}").touch()
    drop_claim(place.output, "mine")
    assert list(Path(place.output).iterdir()) == []
