"""A removal of documents is killed at any moment: the data set stays whole."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import transforms.commit.contents
from corpusmill.console.process import FAILURE
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import Growing
from tests.tools.jobs import run_here
from tests.tools.killed import Snapshots
from tests.tools.killed_commands import find_damage
from tests.tools.origins import list_documents
from tests.tools.versions import digests_by_version

# At so many moments, spread evenly over a run, it is killed.
_MOMENTS = 9


@pytest.fixture(scope="module")
def whole(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """A data set."""
    growing = Growing(tmp_path_factory.mktemp("whole") / "out", tokenizer_path)
    growing.build(sample)
    return growing


@pytest.fixture
def copied(whole: Growing, tmp_path: Path) -> Growing:
    """A copy of it, which may be changed."""
    shutil.copytree(whole.output, tmp_path / "out")
    return Growing(tmp_path / "out", whole.tokenizer)


@dataclass(frozen=True)
class Removal:
    """A removal of documents that may be killed.

    Attributes:
        growing: the data set.
        command: the command.
        files: the files that are left if nothing stops it.
        changes: how often it changes a file.
        snapshots: what it leaves if it is killed.
    """

    growing: Growing
    command: list[str]
    files: dict[str, str]
    changes: int
    snapshots: Snapshots

    def removals(self) -> int:
        """Return the number of removals that readers see."""
        return len(self.growing.manifest().removals)


@pytest.fixture(scope="module")
def removal(whole: Growing, tmp_path_factory: pytest.TempPathFactory) -> Removal:
    """A removal, with what it leaves if it is killed before any of its changes."""
    folder = tmp_path_factory.mktemp("removal")
    growing = Growing(folder / "out", whole.tokenizer)
    shutil.copytree(whole.output, growing.output)
    command = command_for(growing, whole)
    with pytest.MonkeyPatch.context() as patch:
        snapshots = Snapshots(patch, growing.output, folder, range(10**9))
        run_here(*command)
    return Removal(
        growing, command, digests_by_version(growing.output), snapshots.changes, snapshots
    )


def command_for(growing: Growing, whole: Growing) -> list[str]:
    documents = [str(record.document) for record in list_documents(whole.output)][::5]
    return ["drop", str(growing.output), "--document", *documents]


@pytest.mark.parametrize("moment", range(_MOMENTS))
def test_a_removal_that_is_killed(moment: int, removal: Removal) -> None:
    output = removal.growing.output
    removal.snapshots.restore(removal.changes * (2 * moment + 1) // (2 * _MOMENTS))
    # Readers see the data set as it was, or as it becomes.
    assert find_damage(locate(str(output))) == []
    removals = removal.removals()
    assert removals in {0, 1}
    outcome = run_here(*removal.command)
    assert ("no document matches" in outcome.output) == bool(removals)
    assert digests_by_version(output) == removal.files


def test_an_append_that_was_stopped_is_not_overtaken(
    whole: Growing, copied: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "more.txt"
    text.write_text(" = More = \n\nA letter came for the keeper of the lamp .\n" * 9)

    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        copied.append(text, status=FAILURE)
    stopped = str(copied.output / "v2")
    refused = ("a run was stopped that adds to the data set", "--resume", stopped)
    run_here(*command_for(copied, whole), refused=refused)
    # As the message says.
    shutil.rmtree(stopped)
    run_here(*command_for(copied, whole))
    assert verify(copied.output) == []
    assert not [*copied.output.rglob("_run.json")]


def test_text_is_added_after_a_removal_that_was_killed(removal: Removal, sample: Path) -> None:
    seen = set()
    growing = removal.growing
    for number in range(0, removal.changes, 3):
        removal.snapshots.restore(number)
        state = removal.removals(), (growing.output / "v2").exists()
        if state in seen:
            continue
        seen.add(state)
        growing.append(sample, flags=("--existing", "allow"))
        assert verify(growing.output) == []
    assert {removals for removals, _ in seen} == {0, 1}
