"""Objectives and formats of other packages: those of docs/how-to, installed, not patched."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from corpusmill import plugins
from corpusmill.console.process import USER_ERROR
from pipeline.runners.prism import find_program
from tests.conftest import CHECKOUT
from tests.docs.pages import read_blocks, split_commands
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import SMALL_RANGES, WORKERS, Outcome, digests, wait_for
from tests.tools.packages import environment, install

_FLAGS = ("--max-seq-length", "48", "--num-shards", "2", "--seed", "1", *SMALL_RANGES)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment with the packages of all pages."""
    folder = tmp_path_factory.mktemp("packages") / "site"
    install(folder, "write-an-objective.md")
    return install(folder, "write-a-format.md")


@pytest.fixture(scope="module")
def subtitles(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lines of the sample as subtitles, in three files, one of which has a bad byte."""
    folder = tmp_path_factory.mktemp("subtitles")
    lines = [line for line in sample.read_text().splitlines() if line.strip()]
    for number in range(3):
        cues = [f"00:01.000 --> 00:02.000\n{line}\n" for line in lines[number::3]]
        (folder / f"{number}.vtt").write_text("WEBVTT\n\n" + "\n".join(cues))
    (folder / "3.vtt").write_bytes(b"WEBVTT\n\n00:01.000 --> 00:02.000\nNot \xff text .\n")
    return folder


def run(
    environment: Mapping[str, str], *arguments: str | Path, module: str = "pipeline"
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=dict(environment), cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def find_packages(folders: str) -> None:
    """Let this process find the packages of some folders, as a new one would."""
    sys.path[:0] = folders.split(os.pathsep)
    plugins.installed_entries.cache_clear()


def run_forked(environment: Mapping[str, str], *arguments: str | Path) -> Outcome:
    """Run a command in a process that finds the packages when it has imported Beam.

    It offers no formats of theirs, whose names its options have had before.
    """
    folders = environment["PYTHONPATH"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", folders)
        return wait_for(ForkedCommand(arguments, prepare=partial(find_packages, folders)))


def build(
    environment: Mapping[str, str], subtitles: Path, tokenizer_path: Path, output: Path, *flags: str
) -> None:
    done = run(
        environment, "prefix-lm", "--input", subtitles, "--tokenizer", tokenizer_path, "--output",
        output, *_FLAGS, "--output-format", "rows-as-json", *flags,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def data_set(
    found: Mapping[str, str],
    subtitles: Path,
    tokenizer_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """What two workers make."""
    output = tmp_path_factory.mktemp("data") / "out"
    build(found, subtitles, tokenizer_path, output, *WORKERS)
    return output


def test_packages_have_commands_and_choices(found: Mapping[str, str]) -> None:
    listed = run(found, "--help").stdout
    assert "prefix-lm" in listed
    assert "text, and how it goes on" in listed
    help_text = run(found, "prefix-lm", "--help").stdout
    for word in ("--duplicates", "vtt", "rows-as-json"):
        assert word in help_text


def test_the_same_bytes_for_any_workers_and_on_prism(
    data_set: Path, found: Mapping[str, str], subtitles: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--runner", "PrismRunner") if find_program() else ("--workers", "1")
    build(found, subtitles, tokenizer_path, tmp_path / "again", *flags)
    assert digests(tmp_path / "again") == digests(data_set)


def test_all_commands_work(
    data_set: Path, found: Mapping[str, str], subtitles: Path, tokenizer_path: Path
) -> None:
    assert "were written" in run(found, "verify", data_set).stdout
    assert "prefix-lm" in run(found, "inspect", data_set, "--examples", "1").stdout
    measured = run(
        found, "inspect-corpus", "--input", subtitles, "--tokenizer", tokenizer_path, "prefix-lm",
        "--max-seq-length", "48",
    )  # fmt: skip
    assert measured.returncode == 0, measured.stderr
    manifest = json.loads((data_set / "dataset.json").read_text())
    assert manifest["objective"]["package"] == "prefix-lm 1.0"
    assert manifest["output"]["package"] == "rows-as-json 1.0"
    assert manifest["corpus"]["package"] == "vtt-format 1.0"
    assert manifest["columns"][0]["name"] == "prefix"
    assert manifest["counts"]["read.rejects"] == 1


_READ = """
import sys
from corpusmill import DataSet, Loader, make_batches
data = DataSet(sys.argv[1], cache_folder=sys.argv[2])
batches = list(Loader(make_batches(data, 8, seed=1)))
assert sum(len(batch["input_ids"]) for batch in batches) == len(data)
assert {*batches[0]} == {"input_ids", "attention_mask", "labels"}
print(len(data), "examples are read")
"""


def test_trainers_read_what_a_package_wrote(
    data_set: Path, found: Mapping[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _READ, str(data_set), str(tmp_path / "cache")]
    done = subprocess.run(command, env=dict(found), capture_output=True, text=True, check=False)
    assert "examples are read" in done.stdout, done.stderr


def test_a_package_that_is_missing_is_named(data_set: Path, tmp_path: Path) -> None:
    without = environment()
    verified = run(without, "verify", data_set)
    assert verified.returncode == USER_ERROR
    assert "output format rows-as-json" in verified.stderr
    assert "part of rows-as-json 1.0, which is not installed" in verified.stderr
    command = [sys.executable, "-c", _READ, str(data_set), str(tmp_path / "cache")]
    done = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert "rows-as-json 1.0, which is not installed" in done.stderr


def test_an_objective_that_is_missing_is_named(
    found: Mapping[str, str], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    words = ("--tokenizer", tokenizer_path, "--output", output, *_FLAGS)
    done = run_forked(found, "prefix-lm", "--input", sample, *words)
    assert done.status == 0, done.errors
    without = environment()
    verified = run(without, "verify", output)
    assert verified.returncode == 0
    assert "prefix-lm 1.0" in verified.stdout
    command = [sys.executable, "-c", _READ, str(output), str(tmp_path / "cache")]
    read = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert "objective prefix-lm: it is part of prefix-lm 1.0, which is not installed" in read.stderr


def test_the_tests_of_the_pages_pass(found: Mapping[str, str]) -> None:
    site = Path(found["PYTHONPATH"].partition(os.pathsep)[0])
    done = run(found, site, "-q", "-p", "no:cacheprovider", module="pytest")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_commands_of_the_page_work(
    found: Mapping[str, str], sample: Path, tokenizer_path: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shutil.copy(sample, tmp_path / "wiki.sample.tokens")
    shutil.copy(tokenizer_path, tmp_path / "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    for block in read_blocks(CHECKOUT / "docs" / "how-to" / "write-an-objective.md"):
        for command in split_commands(block.code if block.language == "sh" else ""):
            done = run_forked(found, *shlex.split(command)[1:])
            assert done.status == 0, done.errors
    assert "goes on" in done.output  # the name that the page gives to a value of the labels


def test_a_package_that_is_broken_spoils_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "write-an-objective.md")
    (site / "prefix_lm.py").write_text("import nothing_of_this_name\n")
    broken = environment(site)
    assert run(broken, "--help").returncode == 0
    refused = run(broken, "prefix-lm", "--help")
    assert refused.returncode == USER_ERROR
    assert (
        "objective prefix-lm: prefix_lm:PrefixLmOptions of prefix-lm cannot be imported"
        in refused.stderr
    )
    assert "Traceback" not in refused.stderr
