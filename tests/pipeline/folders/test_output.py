import errno
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Split
from corpusmill.dataset.manifest_json import encode, seal
from corpusmill.dataset.ownership import MARK
from corpusmill.errors import UserError
from corpusmill.location import LocalPath, locate
from pipeline.folders.output import (
    APPEND,
    BUILD,
    EDIT,
    Intent,
    Standing,
    check_output,
    list_stale,
)
from pipeline.folders.run_folder import settle
from pipeline.folders.temporary_folder import folder_of_run, make_temporary_folder, new_folder
from tests.tools.manifests import small_manifest, small_shard
from transforms.recovery import CLAIM, COMMITTED, FAILED, Claim, Workplace, end_claim, take_claim

NAMES = ("train-00000-of-00002.parquet", "validation-00001-of-00002.parquet")


def fill(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def data_set(folder: Path, *more: str, sealed: bool = True) -> Path:
    """Make a data set of files that hold their names, and of others that it does not list."""
    shards = [small_shard(name, rows=0, tokens=0) for name in NAMES]
    content = encode(small_manifest(splits={"train": Split.from_shards(shards, {})}))
    fill(folder, [*NAMES, *more])
    (folder / MANIFEST).write_bytes(content)
    if sealed:
        (folder / SUCCESS).write_bytes(seal(content))
    return folder


def check(folder: Path, temp_location: Path | None = None, **intent: Any) -> Standing:
    temp = locate(str(temp_location)) if temp_location else None
    return check_output(locate(str(folder)), temp, Intent(**intent))


def test_a_folder_is_listed_with_sizes_and_names_relative_to_it(tmp_path: Path) -> None:
    folder = str(fill(tmp_path / "out", NAMES))
    assert locate(folder).list() == {name: len(name) for name in NAMES}
    assert locate(f"{folder}/").list() == locate(folder).list()
    assert locate(str(tmp_path / "missing")).list() == {}


def test_a_new_and_an_empty_folder_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        for replaces in (False, True):
            assert list_stale(check(tmp_path / name, replaces=replaces)) == ()


def test_a_data_set_is_replaced_where_asked(tmp_path: Path) -> None:
    folder = data_set(tmp_path / "out")
    assert set(list_stale(check(folder, replaces=True))) == {*NAMES, MANIFEST, SUCCESS}
    with pytest.raises(
        UserError, match=r"it is not empty .*\. Give another folder, or add --replace"
    ):
        check(folder)


@pytest.mark.parametrize("name", [SUCCESS, MANIFEST, f"sub/{MARK}"])
def test_a_file_that_cannot_be_read_is_not_taken_for_a_missing_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_set(tmp_path / "out", f"sub/{MARK}")
    real = LocalPath.open

    def fail(self: LocalPath, part: str = "") -> Any:
        if self.local_path(part) == folder / name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, part)

    monkeypatch.setattr(LocalPath, "open", fail)
    for intent in ({"replaces": True}, {"resumes": True}, {"kind": APPEND, "changes": True}):
        with pytest.raises(UserError, match=rf"{name}: it cannot be read \(Input/output error\)"):
            check(folder, **intent)


def test_an_unfinished_data_set_is_called_so(tmp_path: Path) -> None:
    folder = data_set(tmp_path / "out", sealed=False)
    with pytest.raises(UserError, match=r"it has an unfinished data set\. .*--replace"):
        check(folder)
    assert check(folder, replaces=True).own.of_data_set == {*NAMES, MANIFEST}


@pytest.mark.parametrize(
    "foreign",
    [
        "thesis.txt", "train-00000-of-00009.parquet", "rejects/rejects-more1.jsonl",
        "provenance/mine.parquet", "README.md", "tokenizer.json", f"_RUNNING.{'0a' * 16}",
        f"_generation-{'0a' * 16}/dataset.json", f"_temporary-{'1b' * 16}/x",
        f"_temporary-{'1b' * 16}/corpusmill-run.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [False, True])
def test_a_file_that_is_in_no_record_is_never_replaced(
    tmp_path: Path, foreign: str, whole: bool
) -> None:
    folder = data_set(tmp_path / "out", foreign, sealed=whole)
    for replaces in (False, True):
        with pytest.raises(UserError) as caught:
            check(folder, replaces=replaces)
        assert "--replace" not in caught.value.cure
    assert foreign in caught.value.cause
    fill(tmp_path / "alone", [foreign])
    with pytest.raises(UserError, match="not part of a data set"):
        check(tmp_path / "alone", replaces=True)


@pytest.mark.parametrize("name", [MANIFEST, SUCCESS, CLAIM])
def test_a_stranger_s_file_with_a_name_of_ours_is_not_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(UserError, match=f"not part of a data set .{name}"):
        check(tmp_path, replaces=True)
    # As Spark leaves it.
    (tmp_path / name).write_text("")
    if name != CLAIM:
        with pytest.raises(UserError, match=f"not part of a data set .{name}"):
            check(tmp_path, replaces=True)


def stop(output: Path, temp_location: Path | None = None, **changes: object) -> Path:
    """Leave the claim of a run that was stopped after a task; return its temporary folder."""
    place, temp = locate(str(output)), locate(str(temp_location)) if temp_location else None
    folder = folder_of_run(locate(new_folder(place, temp)), place)
    make_temporary_folder(folder, place, temp)
    fields = {
        "token": "t", "temp_folder": folder.place.url, "host": socket.gethostname(), "process": 1,
        "started": 1.0,
    }  # fmt: skip
    take_claim(str(output), Claim(**fields | changes))  # type: ignore[arg-type]
    path = Path(folder.place.url)
    (path / "done-task-0.json").touch()
    return path


def test_a_run_that_was_stopped_is_resumed_or_replaced(tmp_path: Path) -> None:
    folder = stop(tmp_path)
    assert check(tmp_path, resumes=True).finished == {"task": 1}
    check(tmp_path, replaces=True)
    with pytest.raises(UserError, match=r"unfinished .* or add --resume, or add --replace"):
        check(tmp_path)
    # A run that has finished nothing is in nobody's way.
    (folder / "done-task-0.json").unlink()
    assert check(tmp_path).claim is not None


@pytest.mark.parametrize("content", ["", "{", '{"token":"t","temp', "\0" * 90])
def test_a_torn_claim_is_explained_and_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / CLAIM).write_text(content)
    with pytest.raises(UserError, match=f"{CLAIM} is damaged.* Start over with --replace"):
        check(tmp_path, resumes=True)
    with pytest.raises(UserError, match=r"unfinished data set\. Give another folder, or add --rep"):
        check(tmp_path)
    check(tmp_path, replaces=True)
    data_set(tmp_path)
    for resumes in (False, True):
        with pytest.raises(UserError, match=rf"emove {tmp_path}/{CLAIM}"):
            check(tmp_path, kind=APPEND, changes=True, resumes=resumes)


@pytest.mark.parametrize(
    "content",
    ["[]", "null", '{"token": "x"}', b"\xff\xfe",
     '{"tokens":"t","temp_folder":7,"host":"x","process":1,"started":1}'],
)  # fmt: skip
def test_a_file_that_is_no_claim_is_not_ours(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / CLAIM).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=f"not part of a data set .{CLAIM}"):
        check(tmp_path, replaces=True)
    data_set(tmp_path)
    with pytest.raises(UserError, match="that is not ours"):
        check(tmp_path, kind=EDIT, changes=True)


def test_only_a_folder_of_a_run_into_the_same_output_is_resumed(tmp_path: Path) -> None:
    output, other = tmp_path / "out", tmp_path / "other"
    folder = stop(output)
    claim = (output / CLAIM).read_bytes()
    other.mkdir()
    (other / CLAIM).write_bytes(claim)
    with pytest.raises(UserError, match=f"worked in {folder}, which is not a temporary folder"):
        check(other, resumes=True)
    # Not even where this run's temporary folders are.
    with pytest.raises(UserError, match=r"start over with --replace"):
        check(other, output, resumes=True)
    assert not check(other, replaces=True).has_work


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_run_that_was_killed_before_it_made_its_folder_is_begun_anew(
    tmp_path: Path, elsewhere: bool
) -> None:
    output, temp = tmp_path / "out", tmp_path / "temp"
    output.mkdir()
    folder = stop(output, temp if elsewhere else None)
    shutil.rmtree(folder)
    for intent in ({"resumes": True}, {"replaces": True}, {}):
        standing = check(output, temp if elsewhere else None, **intent)
        assert not standing.has_work


def test_a_run_of_another_kind_is_not_resumed(tmp_path: Path) -> None:
    data_set(tmp_path)
    stop(tmp_path, kind=APPEND, before=(tmp_path / SUCCESS).read_text())
    with pytest.raises(UserError, match=r"adds to the data set\. Add --append"):
        check(tmp_path, resumes=True)
    check(tmp_path, kind=APPEND, changes=True, resumes=True)
    check(tmp_path, kind=APPEND, changes=True)
    with pytest.raises(UserError, match=r"a build was stopped .*, to give up, remove"):
        check(tmp_path, kind=EDIT, changes=True)


@pytest.mark.parametrize("host", ["another", ""])
def test_a_run_whose_process_cannot_be_asked_is_left_alone_until_it_is_silent(
    tmp_path: Path, host: str
) -> None:
    folder = stop(tmp_path, outlives=True, host=host or socket.gethostname())
    Workplace(str(folder)).give_sign()
    for resume in (False, True):
        with pytest.raises(UserError, match=r"process 1 on .*\) writes .* sign of life is 0 s"):
            check(tmp_path, replaces=not resume, resumes=resume)
    for sign in folder.iterdir():
        os.utime(sign, (time.time() - 301,) * 2)
    with pytest.raises(UserError, match="sign of life is 0 s"):  # the claim itself
        check_output(locate(f"file://{tmp_path}"), None, Intent(resumes=True))
    os.utime(tmp_path / CLAIM, (time.time() - 301,) * 2)
    check(tmp_path, resumes=True)
    Workplace(str(folder)).give_sign()
    end_claim(str(tmp_path), "t", FAILED, UserError("--max-rejects 5", "9 lines are rejects", ""))
    check(tmp_path, resumes=True)
    with pytest.raises(
        UserError, match=r"ended with: --max-rejects 5: 9 lines are rejects\)\. Giv"
    ):
        check(tmp_path)


@pytest.mark.parametrize("has_mark", [False, True])
@pytest.mark.parametrize("is_noted", [False, True])
def test_what_a_killed_command_has_left_of_a_finished_run_is_removed(
    tmp_path: Path, has_mark: bool, is_noted: bool
) -> None:
    folder = stop(tmp_path)
    assert not check(tmp_path, resumes=True).is_whole
    data_set(tmp_path)
    if is_noted:
        end_claim(str(tmp_path), "t", COMMITTED)
    if not has_mark:
        (folder / MARK).unlink()
    standing = check(tmp_path, resumes=True)
    assert standing.is_whole
    settle(standing, BUILD)
    assert {path.name for path in tmp_path.iterdir()} == {*NAMES, MANIFEST, SUCCESS}


@pytest.mark.parametrize("is_zombie", [False, True])
def test_a_run_at_work_is_left_alone(tmp_path: Path, is_zombie: bool) -> None:
    process = psutil.Process(os.getppid())
    if is_zombie:
        child = subprocess.Popen(["sleep", "0"])
        process = psutil.Process(child.pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    stop(tmp_path, process=process.pid, started=process.create_time())
    for resume in (False, True):
        if is_zombie:
            check(tmp_path, replaces=not resume, resumes=resume)
            continue
        with pytest.raises(UserError, match=rf"another run \(process {process.pid}\) writes"):
            check(tmp_path, replaces=not resume, resumes=resume)
