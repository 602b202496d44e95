"""The command line as a user runs it, in this process or in a new one."""

import hashlib
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pipeline.command_line import main
from tests.conftest import CHECKOUT

# A data set of a few hundred short examples.
SMALL = ("--max-seq-length", "64", "--duplicates", "2", "--num-shards", "3", "--seed", "1")
SMALL_RANGES = ("--range-bytes", "999")
TWO_WORKERS = ("--workers", "2", "--min-bytes-per-worker", "0", *SMALL_RANGES)


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    output: str
    errors: str


def run_here(*arguments: str | Path) -> Outcome:
    """Run a command in this process."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # the parser of the command line ends like this
            status = int(end.code or 0)
    return Outcome(status, output.getvalue(), errors.getvalue())


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    """Start a command in a new process."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def build(
    inputs: list[Path] | list[str], tokenizer: Path, output: Path, *flags: str | Path
) -> Outcome:
    """Build a small BERT data set in this process; later flags win over those of SMALL."""
    arguments = ("--input", *inputs, "--tokenizer", tokenizer, "--output", output)
    return run_here("bert", *arguments, *SMALL, *flags)


def read_manifest_json(folder: Path) -> dict[str, Any]:
    """Return the manifest of a data set as JSON."""
    manifest: dict[str, Any] = json.loads((folder / "dataset.json").read_text())
    return manifest


def digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a data set, by its name in the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def leftovers(folder: Path) -> list[str]:
    """Return the names of everything in a folder, if it exists."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def assert_refused(outcome: Outcome, status: int, *parts: str) -> None:
    """Assert that a command ended with one line with the value, the cause and the cure."""
    assert outcome.status == status, outcome.errors
    assert "Traceback" not in outcome.errors
    [message] = [line for line in outcome.errors.splitlines() if line.strip()]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message


def assert_nothing_final(output: Path) -> None:
    """Assert that a failed run has left only what it could resume from."""
    names = {path.name.partition("-")[0] for path in output.iterdir()} if output.exists() else set()
    assert names <= {"_RUNNING", "_temporary"}
