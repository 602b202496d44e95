"""The command `corpusmill`: its list of commands, and what it offers without the job."""

import os
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from corpusmill.commands.command_line import main
from corpusmill.commands.table import list_commands
from corpusmill.console.process import USER_ERROR
from corpusmill.objectives.registry import OBJECTIVES
from tests.conftest import CHECKOUT
from tests.tools.packages import install

DATA_SET = CHECKOUT / "tests" / "data" / "small_data_set"
# What the job alone needs, and how the job and the library are found where they are installed.
_OF_JOB = ("apache_beam", "psutil", "pythonjsonlogger", "corpusmill", "pipeline", "transforms")
# Neither the packages that are installed for this Python nor those in the working directory.
_ALONE = ("-S", "-P")
# Every module that is imported is listed on standard error.
_TIMES = ("-X", "importtime")
_SLOW = {"apache_beam", "torch", "transformers"}


def run(
    environment: Mapping[str, str], *arguments: str | Path, flags: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *flags, "-m", "corpusmill", *map(str, arguments)],
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip


def list_imports(times: str) -> set[str]:
    imported = {line.rpartition("|")[2].strip() for line in times.splitlines()}
    assert "corpusmill.commands.table" in imported
    return imported


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the library and what it depends on, but without the job."""
    folder = tmp_path_factory.mktemp("site")
    for package in Path(site.getsitepackages()[0]).iterdir():
        if not package.name.startswith((*_OF_JOB, "_")) and package.suffix != ".pth":
            (folder / package.name).symlink_to(package)
    (folder / "corpusmill").symlink_to(CHECKOUT / "corpusmill")
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_the_list_of_commands_is_there_before_anything_slow_is_imported(tmp_path: Path) -> None:
    found = install(tmp_path / "site", "write-an-objective.md")
    shown = run(found, "--help", flags=_TIMES)
    listed = " ".join(shown.stdout.split())
    assert shown.returncode == 0
    for entry in list_commands():
        assert f" {entry.name} {entry.summary}" in listed
    assert {*OBJECTIVES.names} < {entry.name for entry in list_commands()}
    assert " prefix-lm Build a prefix-LM data set: text, and how it goes on." in listed
    assert not list_imports(shown.stderr) & {*_SLOW, "numba", "numpy", "pyarrow", "tokenizers"}


def test_options_are_explained_before_beam_is_imported() -> None:
    for command in ("bert", "train-tokenizer"):
        shown = run({**os.environ, "PYTHONPATH": str(CHECKOUT)}, command, "--help", flags=_TIMES)
        assert "--output STR" in shown.stdout
        assert not list_imports(shown.stderr) & _SLOW


def test_the_library_alone_inspects_and_verifies(alone: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = run(alone, "inspect", DATA_SET, "--examples", "1", "--html", page, flags=_ALONE)
    assert shown.stderr == ""
    assert "example 1: " in shown.stdout
    assert "built by  corpusmill bert --input INPUT" in shown.stdout
    assert 'class="bar' in page.read_text()
    verified = run(alone, "verify", DATA_SET, flags=_ALONE)
    assert "were written" in verified.stdout, verified.stderr


def test_the_library_alone_says_how_to_get_the_job(alone: dict[str, str]) -> None:
    for message, arguments in {
        "bert: the command needs the job, which is not installed.": ("bert", "--help"),
        "train-tokenizer: the command needs the job, which is not": ("train-tokenizer",),
        "-- --region=x: these are options of Beam": ("verify", DATA_SET, "--", "--region=x"),
    }.items():
        refused = run(alone, *arguments, flags=_ALONE)
        assert refused.returncode == USER_ERROR
        assert refused.stderr.startswith(f"error: {message}")
        assert refused.stderr.endswith("Run `pip install corpusmill-job`.\n")
        assert refused.stderr.count("\n") == 1
    listed = " ".join(run(alone, "--help", flags=_ALONE).stdout.split())
    assert "of a data set. verify" in listed
    assert "Train a tokenizer on a corpus of any size. (needs corpusmill-job)" in listed


def test_a_closed_standard_output_is_no_fault() -> None:
    command = f"exec {sys.executable} -m corpusmill --help >&-"
    ended = subprocess.run(["bash", "-c", command], cwd=CHECKOUT, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_versions_are_those_of_the_installed_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    packages = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert packages == ["corpusmill", "corpusmill-job"]
