"""States of a folder, and what each command may do in them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Split
from corpusmill.dataset.manifest_json import encode
from corpusmill.dataset.ownership import OwnFolder, write_record
from corpusmill.errors import UserError
from corpusmill.location import locate
from pipeline.folders.standing import APPEND, BUILD, EDIT, Intent, check_output, hold_folder
from tests.tools.manifests import small_manifest, small_shard
from transforms.recovery import Run, begin_run

SHARD = "v1/train-00000-of-00001.parquet"
COMMANDS = {
    "build": Intent(),
    "replace": Intent(replaces=True),
    "resume": Intent(resumes=True),
    "append": Intent(APPEND),
    "resume append": Intent(APPEND, resumes=True),
    "drop": Intent(EDIT),
}


def make_data_set(folder: Path) -> None:
    """Make a data set of one shard."""
    shard = small_shard(SHARD, rows=0, tokens=0)
    manifest = small_manifest(splits={"train": Split.from_shards([shard], {})}, version=1)
    (folder / "v1").mkdir(parents=True)
    write_record(locate(str(folder / "v1")), [SHARD.removeprefix("v1/")])
    (folder / SHARD).write_bytes(b"x")
    (folder / MANIFEST).write_bytes(encode(manifest))
    (folder / SUCCESS).touch()


def stop(folder: Path, number: int, kind: str = BUILD, has_work: bool = True) -> None:
    """Leave what a run leaves that is killed."""
    version = folder / f"v{number}"
    version.mkdir(parents=True)
    temporary = version / f"_temporary-{'0a' * 16}"
    OwnFolder(locate(str(temporary)), {"output": str(folder)}).make()
    if has_work:
        (temporary / "done-task-0.json").touch()
    content = folder / MANIFEST
    base = check_output(locate(str(folder)), None, Intent(replaces=True)).base
    assert content.exists() == bool(base)
    assert begin_run(locate(str(version)), Run("t", str(temporary), "", 1, 1.0, kind, base=base))


def fill(*makers: Callable[[Path], object]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for maker in makers:
            maker(folder)

    return make


def write(name: str, content: str = "mine") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)

    return make


def change_manifest(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes().rstrip() + b" \n\n")


def link(folder: Path) -> None:
    (folder / "v1" / "provenance").symlink_to("/")


NOTHING = "there is no complete data set"
HOLDS, UNFINISHED = "it holds a data set", "it has an unfinished data set"
FOREIGN, LINK = "has a file that is not part of a data set", "is a link there"
STOPPED = "a run was stopped that "
# The states of a folder, and what is said to each command; nothing where it is allowed.
STATES: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "missing": (lambda _: None, {"append": NOTHING, "resume append": NOTHING}),
    "empty": (lambda folder: folder.mkdir(), {"append": NOTHING, "resume append": NOTHING}),
    "a data set": (make_data_set, {"build": HOLDS}),
    "foreign files": (
        write("thesis.txt"),
        {**dict.fromkeys(("build", "replace", "resume"), FOREIGN),
         **dict.fromkeys(("append", "resume append"), NOTHING)},
    ),
    "a data set and foreign files": (
        fill(make_data_set, write("v1/mine.txt")), {"build": FOREIGN, "replace": FOREIGN}
    ),
    "a data set with a link": (fill(make_data_set, link), dict.fromkeys(COMMANDS, LINK)),
    "a damaged manifest": (
        fill(make_data_set, write(MANIFEST, '{"format": "corpusmill"}')),
        dict.fromkeys(COMMANDS, "dataset.json"),
    ),
    "a manifest with other bytes": (
        fill(make_data_set, change_manifest),
        dict.fromkeys(COMMANDS, "do not have the sha256 that they state"),
    ),
    "a stopped build": (
        lambda folder: stop(folder, 1),
        {"build": UNFINISHED, "append": NOTHING, "resume append": NOTHING},
    ),
    "a stopped append": (
        fill(make_data_set, lambda folder: stop(folder, 2, APPEND)),
        {"build": HOLDS, "resume": "adds to the data set", "drop": STOPPED},
    ),
    "a stopped replacement": (
        fill(make_data_set, lambda folder: stop(folder, 2)),
        {"build": HOLDS, "append": STOPPED, "drop": STOPPED,
         "resume append": "builds the data set"},
    ),
    "a killed removal": (
        fill(make_data_set, lambda folder: stop(folder, 2, EDIT, has_work=False)),
        {"build": HOLDS, "resume": "removes documents", "resume append": "removes documents"},
    ),
}  # fmt: skip


def test_each_command_does_in_each_state_what_the_page_says(tmp_path: Path) -> None:
    wrong = []
    for number, (state, (make, refusals)) in enumerate(STATES.items()):
        folder = tmp_path / str(number)
        make(folder)
        before = sorted(folder.rglob("*"))
        for name, intent in COMMANDS.items():
            said = ""
            try:
                check_output(locate(str(folder)), None, intent)
            except UserError as error:
                said = str(error)
            expected = refusals.get(name, "")
            if (expected not in said) if expected else said:
                wrong.append(f"{state}, {name}: {said or 'allowed'}")
        assert sorted(folder.rglob("*")) == before
    assert wrong == []


def test_a_run_that_is_at_work_is_left_alone(tmp_path: Path) -> None:
    make_data_set(tmp_path)
    stop(tmp_path, 2)
    version = locate(str(tmp_path / "v2"))
    with hold_folder(version):
        for intent in COMMANDS.values():
            with pytest.raises(UserError, match="a run is at work there since"):
                check_output(locate(str(tmp_path)), None, intent)
    check_output(locate(str(tmp_path)), None, COMMANDS["replace"])


def test_what_a_run_has_finished_is_counted_anew_each_time(tmp_path: Path) -> None:
    """A run that is resumed before its first task is finished keeps what it finishes then."""
    stop(tmp_path, 1, has_work=False)
    run = check_output(locate(str(tmp_path)), None, COMMANDS["resume"]).stopped
    assert run
    assert run.finished == {}
    (tmp_path / "v1" / f"_temporary-{'0a' * 16}" / "done-task-0.json").touch()
    assert run.finished == {"task": 1}
