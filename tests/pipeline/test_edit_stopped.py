"""A removal of documents is killed at any moment: the data set stays whole."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpusmill.dataset.storage import UrlFolder
from corpusmill.dataset.verify import verify
from tests.conftest import CHECKOUT
from tests.tools.growing import SHARE, Growing
from tests.tools.jobs import command_of, digests, run_here
from tests.tools.killed import KILLED
from tests.tools.origins import list_documents

# At so many moments, spread evenly over a run, it is killed.
_MOMENTS = 9


@pytest.fixture(scope="module")
def whole(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """A data set."""
    growing = Growing(tmp_path_factory.mktemp("whole") / "out", tokenizer_path)
    growing.build(sample)
    return growing


def command(output: Path, whole: Growing) -> list[str]:
    documents = [str(record.document) for record in list_documents(whole.output)][::5]
    return ["drop", str(output), "--document", *documents]


def kill_at(number: int, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command that is killed before it changes a file for the nth time."""
    program = [sys.executable, "-m", "tests.tools.killed", str(number), *arguments]
    return subprocess.run(program, cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def undisturbed(
    whole: Growing, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], int]:
    """The files of a run that nothing stops, and how often it changes a file."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    shutil.copytree(whole.output, output)
    printed = kill_at(10**9, command(output, whole)).stdout
    return digests(output), int(printed.splitlines()[-1].split()[0])


@pytest.mark.parametrize("moment", range(_MOMENTS))
def test_a_removal_that_is_killed(
    moment: int, whole: Growing, undisturbed: tuple[dict[str, str], int], tmp_path: Path
) -> None:
    expected, changes = undisturbed
    output = tmp_path / "out"
    shutil.copytree(whole.output, output)
    arguments = command(output, whole)
    ended = kill_at(changes * (2 * moment + 1) // (2 * _MOMENTS), arguments)
    assert ended.returncode == KILLED, ended.stderr
    # Readers see the data set as it was, or as it becomes.
    assert verify(UrlFolder(str(output))) == []
    removals = len(Growing(output, whole.tokenizer).manifest().removals)
    assert removals in {0, 1}
    outcome = run_here(*arguments)
    assert ("no document matches" in outcome.output) == bool(removals)
    assert digests(output) == expected
    assert not [*output.glob("_generation*"), *output.glob("_RUNNING*")]


def test_a_build_that_was_stopped_is_not_overtaken(whole: Growing, tmp_path: Path) -> None:
    output, text = tmp_path / "out", tmp_path / "more.txt"
    shutil.copytree(whole.output, output)
    text.write_text(" = More = \n\nA letter came for the keeper of the lamp .\n" * 9)
    append = command_of([text], whole.tokenizer, output, *SHARE, "--append")
    assert kill_at(20, [str(word) for word in append]).returncode == KILLED
    arguments = command(output, whole)
    run_here(*arguments, refused=("a build was stopped that wrote into this folder", "--resume"))


def test_text_is_added_after_a_removal_that_was_killed(
    whole: Growing, undisturbed: tuple[dict[str, str], int], sample: Path, tmp_path: Path
) -> None:
    _, changes = undisturbed
    seen = set()
    for number in range(changes * 4 // 9, changes, 6):
        output = tmp_path / str(number)
        shutil.copytree(whole.output, output)
        kill_at(number, command(output, whole))
        removals = len(Growing(output, whole.tokenizer).manifest().removals)
        if removals in seen:
            continue
        seen.add(removals)
        growing = Growing(output, whole.tokenizer)
        if (output / "_SUCCESS").read_text().strip().count(" "):
            growing.append(sample, flags=("--existing", "allow"), refused=("a run was stopped",))
            run_here(*command(output, whole))
        growing.append(sample, flags=("--existing", "allow"))
        assert verify(UrlFolder(str(output))) == []
    assert seen == {0, 1}
