"""A data set is checked by an engine's workers as by the library."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from corpusmill.dataset.file_checks import Problem, list_tasks
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.verification.check_data_set import Listed, compare_list, conclude, verify
from tests.tools.small_datasets import Recipe, write_dataset, write_entries
from transforms.shuffle.trees import CollectResult
from transforms.tally import COUNTS
from transforms.testing import local_pipeline
from transforms.verify import PROBLEMS, CheckFiles, Checking, read_totals


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "intact"
    write_dataset(folder, Recipe(shards=4))
    return folder


@pytest.fixture
def data_set(intact: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(intact, tmp_path / "data_set"))


def shard(number: int) -> str:
    return f"train-{number:05d}-of-00004.parquet"


def check(folder: Path, result: Path) -> list[Problem]:
    listed = compare_list(locate(str(folder)))
    assert isinstance(listed, Listed)
    digest = sha256((folder / MANIFEST).read_bytes()).hexdigest()
    tasks = len(list_tasks(listed.manifest))
    with local_pipeline() as pipeline:
        checking = Checking(listed.folder, digest, tasks, listed.unread)
        checked = pipeline | CheckFiles(checking)
        _ = checked[PROBLEMS] | CollectResult(str(result), checked[COUNTS])
    return conclude(listed, read_totals(str(result), tasks))


def test_a_sound_data_set_has_no_problem(intact: Path, tmp_path: Path) -> None:
    assert check(intact, tmp_path / "result") == []


def test_problems_are_those_of_the_library_in_their_order(data_set: Path, tmp_path: Path) -> None:
    entries = json.loads((data_set / MANIFEST).read_bytes())
    train = entries["splits"]["train"]
    for place in (3, 1):
        train["shards"][place]["rows"] += 1
        train["rows"] += 1
        for counts in train["distributions"].values():
            counts[0] += 1
    validation = entries["splits"]["validation"]["distributions"]["predictions"]
    place = next(value for value, number in enumerate(validation) if number)
    validation[place] -= 1
    validation[place - 1 if place else 1] += 1
    write_entries(data_set, entries)
    (data_set / shard(0)).write_bytes((data_set / shard(0)).read_bytes()[::-1])
    (data_set / shard(2)).unlink()
    (data_set / "README.md").write_bytes(b"x")
    (data_set / "extra").write_bytes(b"")
    problems = check(data_set, tmp_path / "result")
    assert problems == verify(data_set)
    files = [problem.file for problem in problems[:6]]
    assert files == [shard(2), "extra", "README.md", shard(0), shard(1), shard(3)]
    assert "validation: the distribution predictions" in problems[6].what


def test_a_task_that_is_lost_is_noticed(intact: Path, tmp_path: Path) -> None:
    check(intact, tmp_path / "result")
    with pytest.raises(RuntimeError, match="of 99 tasks were checked"):
        read_totals(str(tmp_path / "result"), 99)


def test_a_manifest_that_changes_meanwhile_is_refused(intact: Path) -> None:
    checking = Checking(locate(str(intact)), "0" * 64, 1, frozenset())
    changed = pytest.raises(UserError, match="it has changed since the check began")
    with changed, local_pipeline() as pipeline:
        _ = pipeline | CheckFiles(checking)
