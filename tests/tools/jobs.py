"""The command line as a user runs it: in this process, or as a process of its own."""

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
        except SystemExit as end:  # the command line itself is refused in this way
            status = int(end.code or 0)
    return Outcome(status, output.getvalue(), errors.getvalue())


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    """Start a command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def build(
    inputs: list[Path] | list[str], tokenizer: Path, output: Path, *flags: str | Path
) -> Outcome:
    """Build a small BERT data set in this process; later flags win over those of SMALL."""
    given = ("--input", *inputs, "--tokenizer", tokenizer, "--output", output)
    return run_here("bert", *given, *SMALL, *flags)


def read_manifest_json(folder: Path) -> dict[str, Any]:
    """The manifest of a data set, as it is in its file."""
    manifest: dict[str, Any] = json.loads((folder / "dataset.json").read_text())
    return manifest


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a data set, by its name in the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def leftovers(folder: Path) -> list[str]:
    """All that stands in a folder, or would, were it there."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def assert_refused(outcome: Outcome, status: int, *parts: str) -> None:
    """One line that names the value, the cause and the cure, and nothing else."""
    assert outcome.status == status, outcome.errors
    assert "Traceback" not in outcome.errors
    [message] = [line for line in outcome.errors.splitlines() if line.strip()]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message


def assert_nothing_final(output: Path) -> None:
    """A run that failed has left nothing but what it could go on from."""
    names = {path.name.partition("-")[0] for path in output.iterdir()} if output.exists() else set()
    assert names <= {"_RUNNING", "_temporary"}
