"""Commands that write, each killed just before some of its changes and given again.

Then what its messages advise is done by program, and the result is that of a command that nothing
has disturbed.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from corpusmill.dataset.file_checks import Problem
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.location import Location
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import number_versions
from tests.tools.growing import halve
from tests.tools.jobs import Outcome, run_any
from tests.tools.moments import ALL_MOMENTS, Tree

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
_OTHER = ("bert", "--input", "TEXT/second/text", "--tokenizer", "TOKENIZER", "--output", "OUT/f")
_FIRST = (*_BUILD, *_OPTIONS)
_ELSEWHERE = ("--temp-location", "OUT/temporary")
_AGAIN, _RESUMED, _REPLACED = (), ("--resume",), ("--replace",)

COMMANDS = (
    Command("build", _FIRST, ways=(_AGAIN, _RESUMED, _REPLACED)),
    Command("build elsewhere", (*_FIRST, *_ELSEWHERE), ways=(_AGAIN, _RESUMED, _REPLACED)),
    Command("replace", (*_FIRST, "--seed", "2", "--replace"), [_FIRST], (_AGAIN, _RESUMED)),
    Command(
        "append",
        (*_OTHER, *_OPTIONS, "--append"),
        [_FIRST],
        (_AGAIN, _RESUMED),
    ),
    Command("drop", ("drop", "OUT/f", "--where", "document % 3 = 1"), [_FIRST]),
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


def find_damage(folder: Location) -> list[Problem]:
    """Return what is wrong with a data set, but copies beside its manifest, which come after it."""
    return [problem for problem in verify(folder) if " copy of " not in problem.what]


class Place(ABC):
    """A folder, wherever it is, in which commands work.

    Args:
        location: the folder.
        root: a folder on this machine, for the texts.
        sample: a text.
        tokenizer: a tokenizer.
        last_words: what each command has at its end.
    """

    def __init__(
        self,
        location: Location,
        root: Path,
        sample: Path,
        tokenizer: Path,
        last_words: Sequence[str] = (),
    ) -> None:
        self.location, self._last_words = location, last_words
        self._names = {"OUT": location.url, "TEXT": str(root), "TOKENIZER": str(tokenizer)}
        halve(b"".join(sample.read_bytes().splitlines(keepends=True)[:70]), root)

    @abstractmethod
    def read(self) -> Tree:
        """Return all that is in the folder, by its name there."""

    @abstractmethod
    def write(self, tree: Tree) -> None:
        """Make the folder what `read` has read."""

    @abstractmethod
    def recorded(self) -> AbstractContextManager[list[Tree]]:
        """Record the states before each change of the folder for the length of a block."""

    def run(self, words: Sequence[str]) -> Outcome:
        """Run a command, however it ends."""
        named = (re.sub("OUT|TEXT|TOKENIZER", lambda name: self._names[name[0]], w) for w in words)
        return run_any(*named, *self._last_words)

    def assert_survives(self, command: Command, taken: int, shift: float = 0.0) -> None:
        """Assert that a command which is killed at any moment ends as if it had not been.

        Args:
            command: the command.
            taken: how many moments are taken where not all are.
            shift: which ones: from 0 to 1.
        """
        for words in command.before:
            outcome = self.run(words)
            assert outcome.status == 0, outcome.errors
        old = self.read()
        with self.recorded() as states:
            outcome = self.run(command.words)
        assert outcome.status == 0, outcome.errors
        expected, number = self.read(), len(states)
        pointers = {tree.get(f"f/{MANIFEST}") for tree in (old, expected)}
        some = sorted({int(number * (k + shift) / taken) for k in range(taken)})
        for moment in range(number) if ALL_MOMENTS else some:
            self.write(states[moment])
            pointer = states[moment].get(f"f/{MANIFEST}")
            assert pointer in pointers, f"moment {moment} of {number}"
            damage = find_damage(self.location / "f") if pointer is not None else []
            assert damage == [], f"moment {moment} of {number}: {damage}"
            self._follow(command.words, command.ways[moment % len(command.ways)], expected)
            left, whole = number_versions(self.read()), number_versions(expected)
            different = [n for n in left.keys() | whole if left.get(n) != whole.get(n)]
            assert different == [], f"moment {moment} of {number}: {different}"

    def _follow(self, words: Sequence[str], way: Sequence[str], expected: Tree) -> None:
        """Give a command again, and do what its messages advise until all is as it should be."""
        for _ in range(_MOST_TRIES):
            # --resume and --replace exclude each other.
            given = [*(word for word in words if not way or word != "--replace"), *way]
            outcome = self.run(given)
            if outcome.status == 0 or number_versions(self.read()) == number_versions(expected):
                return
            way = self._advise(outcome.errors)
        raise AssertionError(outcome.errors)

    def _advise(self, message: str) -> list[str]:
        """Do what a message advises, and return the options that it names."""
        cure = message.rpartition(". ")[2] if message.startswith("error: --resume") else message
        if "--resume" in cure and "Leave --resume out" not in cure:
            return ["--resume"]
        if "--replace" in cure:
            return ["--replace"]
        if found := re.search(rf"[Rr]emove {self.location.url}/(\S+?)[,.]?( |\n|$)", message):
            removed = found[1]
            left = {name: content for name, content in self.read().items() if name != removed}
            begin = f"{removed}/"
            self.write({name: left[name] for name in left if not name.startswith(begin)})
            return []
        raise AssertionError(message)
