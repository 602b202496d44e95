"""The command that checks a data set: here, and by a job."""

import shutil
from pathlib import Path

import pytest

from corpusmill.commands.command import Call
from corpusmill.commands.verification import verify
from corpusmill.commands.verify import Verify
from corpusmill.console.terminal import Terminal
from corpusmill.errors import UserError
from tests.tools.jobs import run_here
from tests.tools.small_datasets import Recipe, write_dataset


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verification") / "out"
    write_dataset(folder, Recipe(shards=2))
    shard = folder / "train-00001-of-00002.parquet"
    shard.write_bytes(shard.read_bytes()[::-1])
    return folder


def test_a_job_says_what_the_command_says_here(damaged: Path, tmp_path: Path) -> None:
    here = run_here("verify", damaged, "--workers", "2", status=1)
    assert f"{damaged}: 1 problem" in here.output
    before = sorted(damaged.iterdir())
    by_job = run_here("verify", damaged, "--runner", "DirectRunner", status=1)
    assert by_job.output == here.output
    assert sorted(damaged.iterdir()) == before
    copy = Path(shutil.copytree(damaged, tmp_path / "out"))
    flags = ("--runner", "DirectRunner", "--temp-location", tmp_path / "temporary")
    assert str(copy) in run_here("verify", copy, *flags, status=1).output
    assert not (tmp_path / "temporary").exists()


def test_a_runner_needs_the_job(damaged: Path) -> None:
    command = Verify(str(damaged), runner="FlinkRunner")
    with pytest.raises(UserError, match=r"--runner FlinkRunner: .*pip install corpusmill-job"):
        verify(command, Call(Terminal()))


def test_no_workers_are_refused(damaged: Path) -> None:
    run_here("verify", damaged, "--workers", "0", refused=("workers", "1 or more"))
