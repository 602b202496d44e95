"""Two commands on one folder, of which one sleeps at a drawn moment while the other one ends.

`make test-kills` draws two hundred pairs, and `make test-all` a few.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import psutil
import pytest

from corpusmill import synced_files
from corpusmill.dataset import ownership
from corpusmill.location import locate
from pipeline.folders import run_folder
from pipeline.folders.standing import UnfinishedRun
from tests.tools.forked_commands import ForkedCommand
from tests.tools.growing import halve
from tests.tools.jobs import Outcome, run_any, wait_for
from tests.tools.killed_commands import find_damage
from tests.tools.moments import (
    ALL_MOMENTS,
    Tree,
    call_before_changes,
    listen_to_changes,
    read_tree,
    write_tree,
)

# Commands in processes of their own that fall asleep just before one of their changes of files.


class Sleeper:
    """A command that sleeps, and knows nothing of it.

    Args:
        words: the command.
        folder: where its changes are counted.
        moment: the number of the change before which it falls asleep, from 0; or a pattern, for the
            first change once there is such a file.
    """

    def __init__(self, words: Sequence[str], folder: Path, moment: int | str) -> None:
        self._command = ForkedCommand(words, prepare=partial(_fall_asleep, folder, moment))
        while self._command.poll() is None and not self.is_asleep:
            time.sleep(0.005)

    @property
    def is_asleep(self) -> bool:
        """Whether it sleeps; False once it has ended."""
        try:
            return psutil.Process(self._command.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def wake(self) -> Outcome:
        """Let it go on, and return how it ends."""
        self._command.send_signal(signal.SIGCONT)
        return wait_for(self._command)


def _fall_asleep(folder: Path, moment: int | str) -> None:
    """Let this process stop itself before a change."""
    numbers, slept = count(), list[bool]()

    def sleep() -> None:
        number = next(numbers)
        is_time = any(folder.glob(moment)) if isinstance(moment, str) else number == moment
        if is_time and not slept:
            slept.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)

    listen_to_changes(folder, sleep)


_PAIRS = 200 if ALL_MOMENTS else 8
# A command makes so many changes of files at least.
_MOMENTS = 70


def list_commands(sample: Path, tokenizer: Path, output: Path) -> dict[str, list[str]]:
    """Return commands that write into a folder, by name; their texts lie beside it."""
    texts = halve(b"".join(sample.read_bytes().splitlines(keepends=True)[:70]), output.parent)
    options = ["--tokenizer", str(tokenizer), "--output", str(output), "--max-seq-length", "64"]
    options += ("--duplicates", "1", "--num-shards", "2", "--workers", "1", "--input")
    first, second = (["bert", *options, str(text)] for text in texts)
    drop = ["drop", str(output), "--where"]
    return {
        "build": first,
        "replace": [*first, "--seed", "2", "--replace"],
        "resume": [*first, "--seed", "2", "--resume"],
        "append": [*second, "--append", "--existing", "allow"],
        "resume an append": [*second, "--append", "--existing", "allow", "--resume"],
        "drop": [*drop, "document % 3 = 1"],
        "drop others": [*drop, "document % 3 = 2"],
    }


def assert_one_has_won(sleeper: Outcome, other: Outcome, output: Path, old: Tree) -> None:
    """Assert that the folder is whole, and that no more has ended well than has been done."""
    for outcome in (sleeper, other):
        assert outcome.status in {0, 1, 2}, outcome.errors
        assert "Traceback" not in outcome.errors
        assert "unforeseen" not in outcome.errors
    assert find_damage(locate(str(output))) == []
    changed = (output / "dataset.json").read_bytes() != old["dataset.json"]
    assert changed == (0 in {sleeper.status, other.status})


def test_of_two_commands_of_which_one_sleeps_one_wins_or_both_in_a_row(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    commands = list_commands(sample, tokenizer_path, output)
    assert run_any(*commands["build"]).status == 0
    # The wait for a sleeper that is in the middle of its exchange.
    monkeypatch.setattr(synced_files, "_PATIENCE", 0.1)
    built, stopped = read_tree(output), {}
    for name in ("append", "replace"):
        stopped[name] = _stop(commands[name], output, built)
    drawn = random.Random(1)  # noqa: S311  it only draws what is tried
    for number in range(_PAIRS):
        names = drawn.choices([name for name in commands if name != "build"], k=2)
        moment, is_wrong = drawn.randrange(_MOMENTS), drawn.random() < 0.7
        start = {"resume": stopped["replace"], "resume an append": stopped["append"]}
        old = start.get(names[0]) or start.get(names[1]) or built
        write_tree(output, old)
        sleeper = Sleeper(commands[names[0]], output, moment)
        with monkeypatch.context() as patch:
            if is_wrong:  # as on another machine, or with a clock that was put forward
                patch.setattr(UnfinishedRun, "is_alive", False)
            other = run_any(*commands[names[1]])
        slept = sleeper.wake()
        message = f"{number}: {names} at {moment}, {is_wrong}\n{slept}\n{other}"
        try:
            assert_one_has_won(slept, other, output, old)
        except AssertionError as error:
            raise AssertionError(message) from error


def test_a_run_that_is_taken_for_dead_loses_its_work_and_never_what_it_has_committed(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    commands = list_commands(sample, tokenizer_path, output)
    # It has written all, and what is left is the exchange of the manifest.
    sleeper = Sleeper(commands["build"], output, "v1/root/README.md")
    ended: list[Outcome] = []

    def wake_before(remove: Callable[..., None], *arguments: object) -> None:
        if not ended:
            ended.append(sleeper.wake())
        remove(*arguments)

    monkeypatch.setattr(UnfinishedRun, "is_alive", False)
    removal = partial(wake_before, ownership.remove_version)
    for module in (run_folder, ownership):
        monkeypatch.setattr(module, "remove_version", removal)
    other = run_any(*commands["replace"])
    assert find_damage(locate(str(output))) == []
    assert [outcome.status for outcome in (other, *ended)] == [0, 1], (other, ended)


def _stop(words: list[str], output: Path, built: Tree) -> Tree:
    """Return what is left of a command that is killed when its first task is finished."""
    trees: list[Tree] = []

    def keep() -> None:
        if not trees and any(output.glob("v*/*/done-task-*")):
            trees.append(read_tree(output))

    write_tree(output, built)
    with call_before_changes(output, keep):
        assert run_any(*words).status == 0
    assert trees[0]["dataset.json"] == built["dataset.json"]
    return trees[0]
