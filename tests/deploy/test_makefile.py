"""What `make` does and says, without doing it."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT


def make(*arguments: str, path: str = "") -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    )  # fmt: skip
    return done.stdout


def test_an_installation_is_announced() -> None:
    targets = [f".venv/{name}" for name in ("job", "test", "demo", "flink")]
    lines = make("--dry-run", "--always-make", *targets).splitlines()
    ends = [place for place, line in enumerate(lines) if line.startswith("touch ")]
    for name in targets:
        [end] = [end for end in ends if name in lines[end].split()[1:2]]
        announced, install = lines[end - 2 : end]
        assert "Installing packages into .venv" in announced
        assert "pip install" in install
        assert "--editable . --editable ./job" in install


def test_the_doors_have_all_tests() -> None:
    commands = {
        target: make("--dry-run", "--old-file=.venv/test", *target.split())
        for target in ("test", "test-all", "test ONLY=tests/kills")
    }
    doors = [re.findall(r"pytest .*--door (\w+)", shown) for shown in commands.values()]
    assert doors == [["first"], ["second"], []]
    assert "mypy" in commands["test"]
    folders = ("tests/docs", "tests/kills")
    collected = [
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", *door, *folders],
            cwd=CHECKOUT, capture_output=True, text=True, check=True,
        ).stdout.split("\n\n")[0].splitlines()
        for door in ((), ("--door", "first"), ("--door", "second"))
    ]  # fmt: skip
    everything, first, second = map(sorted, collected)
    assert sorted([*first, *second]) == everything
    assert "tests/docs/test_pages.py::test_links_lead_to_files" in first
    assert all(name.startswith(("tests/kills/", "tests/docs/test_pages.py::")) for name in second)


def test_run_shows_the_data_set_once_and_what_to_do_next(tmp_path: Path) -> None:
    """With a program in the place of our command that says what it was told to do."""
    program = tmp_path / "corpusmill"
    program.write_text('#!/bin/sh\necho "DONE $1"\n')
    program.chmod(0o755)
    shown = make("--old-file=.venv/kernels", "run", f"VENV={tmp_path}", f"OUT={tmp_path}")
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


def test_the_newest_python_that_fits_makes_the_environment(tmp_path: Path) -> None:
    names = [*(f"python3.{minor}" for minor in range(11, 15)), "python3", "python"]
    cases: tuple[tuple[str, dict[str, int]], ...] = (
        ("python3.14", {"python3.12": 0, "python3.14": 0}),
        ("python3.13", {"python3.13": 0, "python3": 0}),
        ("python3", {"python3.14": 1, "python3": 0}),  # it lacks venv, as on Debian
        ("python", {"python3": 1, "python": 0}),  # a version that does not fit
    )
    for expected, statuses in cases:
        for name in names:
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\nexit {statuses.get(name, 127)}\n")
            program.chmod(0o755)
        target = (f"ENV={tmp_path}/env", f"{tmp_path}/env/python")
        shown = make("--dry-run", "--always-make", *target, path=str(tmp_path))
        assert f"\n{expected} -m venv {tmp_path}/env\n" in shown


def test_a_machine_without_python_gets_one_line_with_the_cure(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", f"ENV={tmp_path}/env", "PYTHON=", f"{tmp_path}/env/python"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: no Python from 3.11 to 3.14 with venv is found. Install one" in done.stderr
