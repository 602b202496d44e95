"""Two commands on one folder, of which one sleeps at a drawn moment while the other one ends.

`make test-kills` draws two hundred pairs, and `make test-all` a few.
"""

import random
from pathlib import Path

import pytest

from corpusmill import synced_files
from corpusmill.location import locate
from pipeline.folders.standing import UnfinishedRun
from tests.tools.growing import halve
from tests.tools.jobs import Outcome, run_any
from tests.tools.killed_commands import find_damage
from tests.tools.moments import ALL_MOMENTS, Disturbance, Tree, read_tree, write_tree
from tests.tools.sleepers import Sleeper

_PAIRS = 200 if ALL_MOMENTS else 8
# A command makes so many changes of files at least.
_MOMENTS = 70


def list_commands(texts: tuple[Path, Path], tokenizer: Path, output: Path) -> dict[str, list[str]]:
    """Return commands that write into a folder, by name."""
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
    texts = halve(b"".join(sample.read_bytes().splitlines(keepends=True)[:70]), tmp_path)
    output = tmp_path / "out"
    commands = list_commands(texts, tokenizer_path, output)
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


def _stop(words: list[str], output: Path, built: Tree) -> Tree:
    """Return what is left of a command that is killed after some of its work."""
    trees: list[Tree] = []
    write_tree(output, built)
    with Disturbance(output, 150, lambda: trees.append(read_tree(output))).awaited():
        assert run_any(*words).status == 0
    return trees[0]
