"""A loss of power at any moment of a run: what is left is the old data set or the new one."""

from pathlib import Path

import pytest

from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.shards import open_data_set
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import Growing, halve
from tests.tools.jobs import run_any
from tests.tools.killed_commands import find_damage
from tests.tools.moments import ALL_MOMENTS, Tree, read_tree, write_tree
from tests.tools.power import Disk

# So many of the states are looked at, and followed by the same command, which ends well in each.
_LOOKED_AT, _AGAIN = (10**6, 10**6) if ALL_MOMENTS else (30, 3)


def _choose(states: list[Tree], number: int) -> list[Tree]:
    return states[:: -(-len(states) // number)]


@pytest.mark.parametrize("kind", ["build", "replace", "append", "drop"])
def test_a_loss_of_power_leaves_the_old_or_the_new_data_set(
    kind: str, sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = halve(b"".join(sample.read_bytes().splitlines(keepends=True)[:70]), tmp_path)
    growing = Growing(tmp_path / "around" / "out", tokenizer_path)
    growing.output.parent.mkdir()
    command = ["bert", "--tokenizer", str(tokenizer_path), "--output", str(growing.output)]
    command += ["--max-seq-length", "64", "--duplicates", "1", "--num-shards", "2"]
    command += ["--workers", "1", "--input"]
    build = [*command, str(first)]
    words, again = {
        "build": (build, [*build, "--replace"]),
        "replace": ([*build, "--seed", "2", "--replace"],) * 2,
        "append": ([*command, str(second), "--append", "--existing", "allow"],) * 2,
        "drop": (["drop", str(growing.output), "--where", "document % 3 = 1"],) * 2,
    }[kind]
    if kind != "build":
        assert run_any(*build).status == 0
    around = growing.output.parent
    pointers = [read_tree(around).get(f"out/{MANIFEST}")]
    with monkeypatch.context() as patch:
        disk = Disk(patch, around)
        with disk.recorded():
            outcome = run_any(*words)
    assert outcome.status == 0, outcome.errors
    pointers.append(read_tree(around).get(f"out/{MANIFEST}"))
    rows = growing.manifest().counts
    # In the end nothing can be lost any more.
    assert disk.states[-1].get(f"out/{MANIFEST}") == pointers[1]
    for number, state in enumerate(disk.states):
        assert state.get(f"out/{MANIFEST}") in pointers, number
    for number, state in enumerate(_choose(disk.states, _LOOKED_AT)):
        write_tree(around, state)
        if f"out/{MANIFEST}" in state:
            assert find_damage(locate(str(growing.output))) == [], number
    for state in _choose(disk.states, _AGAIN):
        write_tree(around, state)
        outcome = run_any(*again)
        assert outcome.status == 0, outcome.errors
        if kind in {"build", "replace", "drop"}:
            assert open_data_set(locate(str(growing.output)))[1].counts == rows
        assert verify(growing.output) == []
