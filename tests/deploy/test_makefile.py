"""What `make` does and says, without doing it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


def make(*arguments: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("name", ["job", "test", "demo", "flink"])
def test_an_installation_is_announced(name: str) -> None:
    lines = make("--dry-run", "--always-make", f".venv/{name}").splitlines()
    [*_, announced, install, _] = lines
    assert "Installing packages into .venv" in announced
    assert "pip install" in install
    assert "--editable . --editable ./job" in install


def test_run_shows_the_data_set_once_and_what_to_do_next(tmp_path: Path) -> None:
    """With a program in the place of our command that says what it was told to do."""
    program = tmp_path / "corpusmill"
    program.write_text('#!/bin/sh\necho "DONE $1"\n')
    program.chmod(0o755)
    shown = make("--old-file=.venv/job", "run", f"VENV={tmp_path}", f"OUT={tmp_path}")
    done = [line.removeprefix("DONE ") for line in shown.splitlines() if line.startswith("DONE ")]
    assert done == ["train-tokenizer", "verify", "inspect"]
    *_, after = shown.partition("\nNext:\n")
    for part in (f"open {tmp_path}/report.html", "make train-demo", "inspect-corpus"):
        assert part in after


def test_the_demo_continues_where_there_is_a_checkpoint(tmp_path: Path) -> None:
    arguments = ("--dry-run", "--old-file=.venv/demo", "train-demo", f"OUT={tmp_path}")
    results = tmp_path / "train-demo"
    results.mkdir()
    assert "--resume" not in make(*arguments)
    (results / "checkpoint.pt").touch()
    assert make(*arguments).strip().endswith(f"--results {results} --resume")
    other = make(*arguments, "INPUT=folder/books.txt")
    assert other.strip().endswith(f"--results {results}/books.txt")


def test_a_missing_environment_is_one_line_with_the_cure() -> None:
    """Without the packages that are installed for this Python."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pipeline", "bert"],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sys.executable}: the package ")
    assert done.stderr.endswith("Run `pip install corpusmill-job`.\n")
    assert done.stderr.count("\n") == 1
