"""Each command that writes is killed just before each of its changes of files, and given again.

Then what its messages advise is done by program, and the result is that of a command that nothing
has disturbed. `make test-kills` takes every moment, and `make test` some of each command.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import halve
from tests.tools.jobs import Outcome, run_any
from tests.tools.moments import Moments, Tree, read_tree, write_tree

_ALL = bool(os.environ.get("CORPUSMILL_ALL_MOMENTS"))
_SOME = 7
_MOST_TRIES = 5
_OPTIONS = ("--max-seq-length", "64", "--duplicates", "1", "--num-shards", "2", "--workers", "1")


@dataclass(frozen=True)
class Command:
    """A command that is killed.

    Attributes:
        name: of the command.
        words: the command, with "OUT" for the folder in which all is, and "TEXT" for the texts.
        before: the commands that prepare the folder.
        ways: options with which a user may give the command again at first.
    """

    name: str
    words: Sequence[str]
    before: Sequence[Sequence[str]] = ()
    ways: Sequence[Sequence[str]] = field(default=((),))


_BUILD = ("bert", "--input", "TEXT/first/text", "--tokenizer", "TOKENIZER", "--output", "OUT/f")
_OTHER = ("bert", "--input", "TEXT/second/text", "--tokenizer", "TOKENIZER", "--output", "OUT/g")
_FIRST, _SECOND = (*_BUILD, *_OPTIONS), (*_OTHER, *_OPTIONS)
_ELSEWHERE = ("--temp-location", "OUT/temporary")
_AGAIN, _RESUMED, _REPLACED = (), ("--resume",), ("--replace",)
_CHOSEN = ("--where", "document % 3 = 1")

COMMANDS = (
    Command("build", _FIRST, ways=(_AGAIN, _RESUMED, _REPLACED)),
    Command("build elsewhere", (*_FIRST, *_ELSEWHERE), ways=(_AGAIN, _RESUMED, _REPLACED)),
    Command("replace", (*_FIRST, "--seed", "2", "--replace"), [_FIRST], (_AGAIN, _RESUMED)),
    Command(
        "append",
        (*_OTHER[:-1], "OUT/f", *_OPTIONS, "--append"),
        [_FIRST],
        (_AGAIN, _RESUMED),
    ),
    Command("drop", ("drop", "OUT/f", *_CHOSEN), [_FIRST]),
    Command(
        "subset", ("subset", "OUT/f", *_CHOSEN, "--output", "OUT/part"),
        [_FIRST], (_AGAIN, _REPLACED),
    ),
    Command(
        "merge", ("merge", "OUT/f", "OUT/g", "--output", "OUT/all"),
        [_FIRST, _SECOND], (_AGAIN, _REPLACED),
    ),
    Command(
        "rebuild", ("rebuild", "OUT/f", "--input", "TEXT/first/text", "--output", "OUT/again"),
        [_FIRST], (_AGAIN, _RESUMED),
    ),
    Command(
        "train-tokenizer",
        ("train-tokenizer", "--input", "TEXT/first/text", "--output", "OUT/t.json",
         "--vocab-size", "300", "--save-model", "OUT/model"),
        ways=(_AGAIN, _REPLACED),
    ),
    Command(
        "train-tokenizer in place of one",
        ("train-tokenizer", "--input", "TEXT/first/text", "--output", "OUT/t.json",
         "--vocab-size", "300", "--replace"),
        [("train-tokenizer", "--input", "TEXT/second/text", "--output", "OUT/t.json",
          "--vocab-size", "300")],
    ),
)  # fmt: skip


class Place:
    """A folder in which commands work.

    Args:
        root: the folder around it.
        sample: a text.
        tokenizer: a tokenizer.
    """

    def __init__(self, root: Path, sample: Path, tokenizer: Path) -> None:
        self.folder, self._text, self._tokenizer = root / "out", root / "text", tokenizer
        self.folder.mkdir()
        self._text.mkdir()
        text = b"".join(sample.read_bytes().splitlines(keepends=True)[:70])
        halve(text, self._text)

    def run(self, words: Sequence[str]) -> Outcome:
        """Run a command, however it ends."""
        places = {"OUT": self.folder, "TEXT": self._text, "TOKENIZER": self._tokenizer}
        return run_any(
            *(
                re.sub("OUT|TEXT|TOKENIZER", lambda name: str(places[name[0]]), word)
                for word in words
            )
        )

    def follow(self, words: Sequence[str], way: Sequence[str], expected: Tree) -> None:
        """Give a command again, and do what its messages advise until all is as it should be."""
        given = _last_wins(words, way)
        for _ in range(_MOST_TRIES):
            outcome = self.run(given)
            if outcome.status == 0 or read_tree(self.folder) == expected:
                return
            given = _last_wins(words, self._advise(outcome.errors))
        raise AssertionError(outcome.errors)

    def _advise(self, message: str) -> list[str]:
        """Do what a message advises, and return the options that it names."""
        if "--resume" in message and "Leave --resume out" not in message:
            return ["--resume"]
        if "--replace" in message:
            return ["--replace"]
        if found := re.search(r"[Rr]emove (/\S+?)[,.]?( |\n|$)", message):
            path = Path(found[1])
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            return []
        raise AssertionError(message)


def _last_wins(words: Sequence[str], way: Sequence[str]) -> list[str]:
    """Add options, of which --resume and --replace exclude each other."""
    return [*(word for word in words if not way or word != "--replace"), *way]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_that_is_killed_at_any_moment_ends_as_if_it_had_not_been(
    command: Command, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    place = Place(tmp_path, sample, tokenizer_path)
    for words in command.before:
        assert place.run(words).status == 0
    moments = Moments(place.folder)
    with moments.recorded():
        outcome = place.run(command.words)
    assert outcome.status == 0, outcome.errors
    expected = read_tree(place.folder)
    number = len(moments.trees)
    chosen = range(number) if _ALL else sorted({number * k // _SOME for k in range(_SOME)})
    for moment in chosen:
        write_tree(place.folder, moments.trees[moment])
        for name in ("f", "part", "all", "again"):
            if f"{name}/{SUCCESS}" in moments.trees[moment]:
                problems = verify(locate(str(place.folder / name)))
                assert problems == [], f"moment {moment} of {number}"
        place.follow(command.words, command.ways[moment % len(command.ways)], expected)
        left = read_tree(place.folder)
        different = [
            name for name in left.keys() | expected if left.get(name) != expected.get(name)
        ]
        assert different == [], f"moment {moment} of {number}"
