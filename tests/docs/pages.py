"""The code on pages of the documentation, run as a reader would run it.

What a fence says after its language decides what happens to it:

    sh, python                  runs, in the order of the page, in a folder with the sample text
    toml, json, yaml            is parsed, and written to a file if the title names one
    ... title="install"         is checked, but not run; likewise title="needs a bucket"
    ... title="my_filters.py"   is written to a file of this name
    text title="output"         is what the block before it prints, but for times
    text title="part of the output"    has lines that the block before it prints, in this order,
                                with "..." for what is left out
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from corpusmill.commands.command_line import parse
from pipeline.command_line import JOB
from tests.conftest import CHECKOUT
from tests.tools.jobs import run_here

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]+)(?: title=\"(?P<title>[^\"]*)\")?\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"`([\w./-]+)`")
_OPENING = re.compile(r"^ *```\S", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|\d+(\.\d+)? s\b")
_OPERATORS = "|<>&;"
_EXPANDED = set("$`")


@dataclass(frozen=True)
class Block:
    """One fence.

    Attributes:
        language: the first word after the fence.
        title: what readers see above it; empty for nothing.
        code: what is in it.
    """

    language: str
    title: str
    code: str

    @property
    def is_only_checked(self) -> bool:
        """Whether it needs what the tests do not have."""
        return self.title == "install" or self.title.startswith("needs ")


def read_blocks(page: Path) -> list[Block]:
    """Return the fences of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = [
        Block(match["language"], match["title"] or "", match["code"])
        for match in _FENCE.finditer(text)
    ]
    assert len(blocks) == len(_OPENING.findall(text)), f"{page}: a fence is not understood"
    return blocks


def list_files(page: Path) -> set[str]:
    """Return the files and folders that a page says to have, and its parts: all names in its text.

    How-to guides say the usual ones together, on the page that lists the guides.
    """
    text = page.read_text(encoding="utf-8")
    if page.parent.name == "how-to":
        text += page.with_name("index.md").read_text(encoding="utf-8")
    parts = {part for name in _CODE.findall(_FENCE.sub("", text)) for part in name.split("/")}
    return parts - {"", ".", ".."}


class Session:
    """A reader at work: a folder, a shell and an interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self.printed = ""

    def follow(self, block: Block) -> None:
        """Do with a block what it is for."""
        if block.language == "text":
            self._compare(block)
        elif block.language in _PARSERS or (block.title and not block.is_only_checked):
            _PARSERS.get(block.language, str)(block.code)
            if block.title:
                (self.folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            self._run_python(block)
        elif block.language == "sh":
            commands = list(split_commands(block.code))
            self.printed = "".join(self._run_command(each, block) for each in commands)
        else:
            raise AssertionError(f"a fence of unknown kind: {block.language}")

    def _run_python(self, block: Block) -> None:
        code = compile(block.code, block.title or "block", "exec")
        if block.is_only_checked:
            return
        with redirect_stdout(StringIO()) as printed:
            exec(code, self.names)  # noqa: S102  the code of our pages
        self.printed = printed.getvalue()

    def _run_command(self, command: str, block: Block) -> str:
        """Run one command, the job's in this process, and return what it prints."""
        name, *arguments = split_words(command)
        output = arguments[-1] if arguments[-2:-1] == [">"] else ""
        if output:
            del arguments[-2:]
        is_plain = not any(set(word) <= set(_OPERATORS) for word in arguments)
        if name == "corpusmill" and is_plain and not _EXPANDED & set(command):
            if block.is_only_checked:
                parse(arguments, JOB)
                return ""
            with patch.object(sys, "path", [path for path in sys.path if path != str(self.folder)]):
                printed = run_here(*arguments).output
            if output:
                (self.folder / output).write_text(printed, encoding="utf-8")
            return "" if output else printed
        check = ["-n"] if block.is_only_checked else ["-e", "-o", "pipefail"]
        done = subprocess.run(
            ["bash", *check, "-c", command],
            cwd=self.folder, env=_environment(self.folder), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _compare(self, block: Block) -> None:
        if block.title == "output":
            assert _normalize(self.printed) == _normalize(block.code), self.printed
        elif block.title == "part of the output":
            lines = iter(_normalize(self.printed))
            shown = (line for line in _normalize(block.code) if line != "...")
            missing = [line for line in shown if not _find(line, lines)]
            assert not missing, f"{missing} are not printed, in this order:\n{self.printed}"


def _find(shown: str, lines: Iterator[str]) -> bool:
    """Whether a line is among these, up to its end if that is left out ("...")."""
    if shown.endswith(" ..."):
        return any(line.startswith(shown.removesuffix("...")) for line in lines)
    return shown in lines


def split_commands(script: str) -> Iterator[str]:
    """Yield the commands of a script, which may go on over several lines."""
    command = ""
    for line in script.splitlines():
        command += f"{line}\n"
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # a quotation goes on
            continue
        if words:
            yield command.replace("\\\n", "").strip()
        command = ""
    assert not command, f"a command does not end: {command}"


def split_words(command: str) -> list[str]:
    """Return the words of a command, among which operators outside of quotes are words, too."""
    words = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    words.whitespace_split = True
    return list(words)


def _normalize(printed: str) -> list[str]:
    return [_TIME.sub("TIME", line.rstrip()) for line in printed.strip().splitlines()]


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with the command `corpusmill` of this checkout."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    program = programs / "corpusmill"
    # As an installed command, which does not find modules in the folder that it is started in.
    start = f'exec "{sys.executable}" -P -m corpusmill "$@"'
    # And with the packages that a test has installed.
    packages = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" {start}\n')
    program.chmod(0o755)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": packages}


_PARSERS = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load}
