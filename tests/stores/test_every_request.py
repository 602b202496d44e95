"""Each command that writes is killed just before requests that change a bucket, and given again.

Each store takes some moments of each command, S3 those in the middle between Google's. All are
taken where `CORPUSMILL_ALL_MOMENTS` is set.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools.killed_commands import COMMANDS, Command, Place
from tests.tools.moments import Tree
from tests.tools.object_stores import Bucket
from tests.tools.stored_objects import read_objects, write_objects
from transforms.storage.files import locate


class Objects(Place):
    """A bucket, in which somebody else has objects, too."""

    def __init__(self, bucket: Bucket, root: Path, sample: Path, tokenizer: Path) -> None:
        words = ("--", *bucket.beam_arguments)
        super().__init__(locate(bucket.url), root, sample, tokenizer, words)
        self._bucket = bucket
        self.write({"other/x": b"somebody's"})

    def read(self) -> Tree:
        return dict(read_objects(self._bucket))

    def write(self, tree: Tree) -> None:
        write_objects(self._bucket, {name: content or b"" for name, content in tree.items()})

    @contextmanager
    def recorded(self) -> Iterator[list[Tree]]:
        states: list[Tree] = []
        self._bucket.proxy.on_change = lambda _: states.append(self.read())
        yield states
        self._bucket.proxy.clear()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_that_is_killed_at_any_request_ends_as_if_it_had_not_been(
    bucket: Bucket, command: Command, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    place = Objects(bucket, tmp_path, sample, tokenizer_path)
    place.assert_survives(command, 7, shift=0.5 if bucket.scheme == "s3" else 0.0)
