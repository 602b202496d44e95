"""The commit of files that are moved in groups: tiny ones, in a tree of three levels."""

from dataclasses import replace
from pathlib import Path

import pytest

from corpusmill.layout.placement import Layout
from tests.tools.small_limits import stage_limits
from tests.transforms.test_commit import Folders, check_entries, commit, refused
from transforms.commit.groups import PlannedReveal
from transforms.recovery import CLAIM, Claim, take_claim

LAYOUT = Layout(0, 8, 1)
SHARDS = {
    **{f"train-{number:05d}-of-00008.parquet": (b"%d" % number, 1, 10) for number in range(7)},
    "train-00007-of-00008.parquet": (b"none", 0, 0),
    "validation-00000-of-00001.parquet": (b"last", 2, 20),
}
CONTENTS = {name: content for name, (content, _, _) in SHARDS.items()}


def commit_all(root: Path, fan_in: int, *stale: str) -> Folders:
    """Commit nine shards, and the rejects of two tasks of nine."""
    folders = Folders(root, SHARDS)
    place = replace(folders.options.place, limits=stage_limits(fan_in=fan_in))
    folders.options = replace(folders.options, place=place, tasks=9)
    # In the order of tasks, whatever that of their names is.
    folders.rejects = [file._replace(number=8 * (file.number == 2)) for file in folders.rejects]
    for name in stale:
        (folders.output / name).write_text("old")
    folders.set_stale(*stale)
    commit(folders, layout=LAYOUT)
    return folders


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a data set that one task commits."""
    return commit_all(tmp_path_factory.mktemp("at once"), 1000).files()


def test_a_tree_of_three_levels_commits_the_same_files(
    at_once: dict[str, bytes], tmp_path: Path
) -> None:
    folders = commit_all(tmp_path, 2)
    assert folders.files() == at_once
    assert CONTENTS.items() <= at_once.items()
    assert at_once["rejects/rejects.jsonl"] == refused(0, "first") + refused(2, "later")
    check_entries(at_once)
    assert not folders.temp.exists()
    assert not (folders.output / CLAIM).exists()
    # As when the engine makes all attempts again.
    commit(folders, layout=LAYOUT)
    assert folders.files() == at_once


def test_an_earlier_data_set_is_replaced_in_groups(
    at_once: dict[str, bytes], tmp_path: Path
) -> None:
    kept, gone = "train-00001-of-00008.parquet", "train-00003-of-00004.parquet"
    folders = commit_all(tmp_path, 3, "_SUCCESS", "dataset.json", kept, gone)
    assert folders.files() == at_once
    assert {path.name for path in folders.output.iterdir() if path.is_dir()} == {"rejects"}


def test_a_run_whose_folder_another_one_took_moves_no_group(tmp_path: Path) -> None:
    folders = Folders(tmp_path, SHARDS)
    place = replace(folders.options.place, limits=stage_limits(fan_in=2))
    folders.options = replace(folders.options, place=place)
    take_claim(str(folders.output), Claim("theirs", "", "host", 7, 0.0), over="mine")
    commit(folders, layout=LAYOUT)
    assert not folders.files()
    assert folders.temp.exists()


def test_a_group_that_was_lost_stops_the_commit(tmp_path: Path) -> None:
    planned = PlannedReveal({"a": b"\xff"}, ["first", "second", "third"])
    path = planned.write(str(tmp_path))
    assert PlannedReveal.read(path) == planned
    planned.check_groups([2, 0, 1, 1], "moved")
    with pytest.raises(RuntimeError, match="1 of 3 groups of files were not moved"):
        planned.check_groups([2, 0, 2], "moved")
