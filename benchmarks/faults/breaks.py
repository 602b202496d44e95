"""Thirty faults that the tests must find: `python -m benchmarks.faults.breaks`.

Each fault of `breaks.toml` is put by itself into a copy of what is committed, and the tests run
until one fails: those that lie nearest by what `make test` runs, then all that it runs, and so on
through the doors. The table says which door finds it, by which test.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.builds import CHECKOUT
from benchmarks.console import CONSOLE, make_parser

# What pytest gets for each target of `make`.
DOORS = {
    "test": ["--door", "first"],
    "test-all": ["--door", "second"],
    "test-long": ["tests/kills", "tests/stores"],
}
_FAILED, _NOTHING = 1, 5


class Break(NamedTuple):
    """A fault.

    Attributes:
        fault: what is wrong with it.
        file: where it is, from the root of the checkout.
        old: what the file has there, once.
        new: what takes its place.
        near: files and folders of the tests that lie nearest.
    """

    fault: str
    file: str
    old: str
    new: str
    near: list[str]

    def change(self, folder: Path) -> str:
        """Return the file's text with the fault.

        Raises:
            ValueError: the file does not have the old text exactly once.
        """
        text = (folder / self.file).read_text()
        if text.count(self.old) != 1:
            times = text.count(self.old)
            raise ValueError(f"{self.file} has this text {times} times, not once: {self.old}")
        return text.replace(self.old, self.new)


def read_breaks() -> list[Break]:
    """Return all faults."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return [Break(**entry) for entry in table["break"]]


def find_failure(folder: Path, arguments: list[str]) -> str:
    """Run tests of a copy until one fails, and return its name; "" if none does.

    Raises:
        RuntimeError: pytest could not run them.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode in {0, _NOTHING}:
        return ""
    if result.returncode != _FAILED:
        raise RuntimeError(f"{' '.join(command)}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    summary = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return summary[1] if summary else "?"


def find_door(fault: Break, folder: Path, doors: list[str], only_near: bool) -> tuple[str, str]:
    """Return the first door that finds a fault, and the test; "none" if none of them does."""
    sound = (folder / fault.file).read_text()
    _write(folder / fault.file, fault.change(folder))
    try:
        for door in doors:
            near = [] if door == "test-long" else [[path] for path in fault.near]
            selections = near + ([] if only_near else [[]])
            for paths in selections:
                if test := find_failure(folder, [*DOORS[door], *paths]):
                    return door, test
    finally:
        _write(folder / fault.file, sound)
    return "none", ""


def _write(source: Path, text: str) -> None:
    """Write a file of Python; its bytecode may be of the same second, and so look like its own."""
    source.write_text(text)
    Path(cache_from_source(str(source))).unlink(missing_ok=True)


def survey(breaks: list[Break], doors: list[str], only_near: bool) -> Iterator[str]:
    """Yield the door that finds each fault, and print it."""
    with TemporaryDirectory() as parent:
        folder = Path(parent, "copy")
        subprocess.run(["git", "clone", "--quiet", CHECKOUT, folder], check=True)
        for fault in breaks:  # all of them, before the first takes its time
            fault.change(folder)
        for fault in breaks:
            door, test = find_door(fault, folder, doors, only_near)
            CONSOLE.print(f"{door:9}  {fault.fault}  [dim]{test}[/dim]")
            yield door


def main() -> int:
    """Print the door of each fault, and return 1 if one goes through all of them."""
    parser = make_parser(__doc__, only="")
    parser.add_argument("--doors", nargs="+", choices=DOORS, default=[*DOORS])
    parser.add_argument("--near", action="store_true", help="run the nearest tests alone")
    arguments = parser.parse_args()
    breaks = [fault for fault in read_breaks() if arguments.only in fault.file + fault.fault]
    found = Counter(survey(breaks, arguments.doors, arguments.near))
    CONSOLE.print(", ".join(f"{door}: {number} of {len(breaks)}" for door, number in found.items()))
    return int(found["none"] > 0)


if __name__ == "__main__":
    sys.exit(main())
