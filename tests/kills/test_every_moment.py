"""Each command that writes is killed just before each of its changes of files, and given again.

`make test-kills` takes every moment, and `make test-all` some of each command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corpusmill.location import locate
from tests.tools.killed_commands import COMMANDS, Command, Place
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.moments import ALL_MOMENTS, Moments, Tree, read_tree, write_tree


class Folder(Place):
    """A folder on this machine."""

    def read(self) -> Tree:
        return read_tree(Path(self.location.url))

    def write(self, tree: Tree) -> None:
        write_tree(Path(self.location.url), tree)

    @contextmanager
    def recorded(self) -> Iterator[list[Tree]]:
        moments = Moments(Path(self.location.url))
        with moments.recorded():
            yield moments.trees


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_that_is_killed_at_any_moment_ends_as_if_it_had_not_been(
    command: Command, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder, texts = tmp_path / "out", tmp_path / "text"
    folder.mkdir()
    texts.mkdir()
    # Files are moved in groups; and in many more files and levels if all moments are taken.
    sizes = SMALL_SIZES if ALL_MOMENTS else ("--fan-in", "3")
    with knobs(small=ALL_MOMENTS):
        place = Folder(locate(str(folder)), texts, sample, tokenizer_path, sizes)
        # Each command at other moments: most of them write as the others do.
        place.assert_survives(command, 3, shift=COMMANDS.index(command) / len(COMMANDS))
