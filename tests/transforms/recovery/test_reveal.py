"""The steps that reveal a data set, overtaken between two calls by an attempt that finishes it."""

from pathlib import Path

import pytest

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Split
from corpusmill.dataset.manifest_json import encode, seal
from corpusmill.dataset.shards import current_folder, refer_to
from corpusmill.location import locate
from tests.tools.manifests import small_manifest, small_shard
from transforms.commit.rename import Move
from transforms.commit.replace import Reveal, reveal

ADDED = small_shard("shard-more1", rows=0, tokens=0)
CONTENT = encode(
    small_manifest(
        splits={"train": Split.from_shards([small_shard("shard", rows=0, tokens=0), ADDED], {})}
    )
)
SEAL = seal(CONTENT)
CONTENTS = {MANIFEST: CONTENT, SUCCESS: SEAL}
STALE = [SUCCESS, MANIFEST, "shard"]


@pytest.fixture
def moves(tmp_path: Path) -> list[Move]:
    """A finished file, in place of one of an earlier data set."""
    for name, content in {SUCCESS: b"old", MANIFEST: b"older", "shard": b"old"}.items():
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_bytes(content)
    (tmp_path / "temp").mkdir()
    (tmp_path / "temp" / "new").write_bytes(b"new")
    return [Move(str(tmp_path / "temp" / "new"), str(tmp_path / "out" / "shard"), 3)]


class _Slow(Reveal):
    """Lets another attempt reveal the data set at some moment, once."""

    def finish_elsewhere(self) -> None:
        root = Path(self.output).parent
        move = Move(str(root / "temp" / "new"), str(root / "out" / "shard"), 3)
        reveal(self.output, self.temp_folder, [move], CONTENTS, STALE)


class _SlowToWrite(_Slow):
    def _write(self, path: str, content: bytes) -> None:
        if content == refer_to(SEAL):
            self.finish_elsewhere()
        super()._write(path, content)


class _SlowToCopy(_Slow):
    def _is_replacing(self) -> bool:
        is_replacing = super()._is_replacing()
        self.finish_elsewhere()
        return is_replacing


def check(output: Path) -> None:
    contents = {str(path.relative_to(output)): path.read_bytes() for path in output.iterdir()}
    assert contents == {**CONTENTS, "shard": b"new"}


def test_readers_are_not_passed_on_to_a_generation_that_is_gone(
    moves: list[Move], tmp_path: Path
) -> None:
    steps = _SlowToWrite(str(tmp_path / "out"), str(tmp_path / "temp"), SEAL)
    steps.record(moves, CONTENTS, STALE)
    steps.copy(moves)
    steps.pass_on(CONTENTS)
    # The engine has lost sight of this attempt: nobody takes the steps after this one.
    check(tmp_path / "out")


def test_no_generation_is_left_by_an_attempt_that_comes_too_late(
    moves: list[Move], tmp_path: Path
) -> None:
    steps = _SlowToCopy(str(tmp_path / "out"), str(tmp_path / "temp"), SEAL)
    steps.copy(moves)
    check(tmp_path / "out")


def test_readers_see_what_is_added_before_the_small_files_are_replaced(
    moves: list[Move], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    [move] = moves
    added = move._replace(destination=str(output / "shard-more1"))
    steps = Reveal(str(output), str(tmp_path / "temp"), SEAL, appends=True)
    steps.record([added], CONTENTS, STALE)
    steps.copy([added])
    assert current_folder(locate(str(output))).read(MANIFEST) == b"older"
    steps.pass_on(CONTENTS)
    folder = current_folder(locate(str(output)))
    assert folder.read(MANIFEST) == CONTENTS[MANIFEST]
    assert (folder.read("shard"), folder.read("shard-more1")) == (b"old", b"new")
    # The generation has no copies of shards.
    assert {path.name for path in output.glob("_generation-*/*")} == {*CONTENTS}
    steps.move([added], [])
    steps.finish(CONTENTS)
    names = {path.name for path in output.iterdir()}
    assert names == {SUCCESS, MANIFEST, "shard", "shard-more1"}
    assert (output / "shard").read_bytes() == b"old"
