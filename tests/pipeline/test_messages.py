"""Odd names, places and inputs: one message, which shows them as they are."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from corpusmill.console.process import INTERRUPTED
from corpusmill.tokenization.training.models import MODELS
from tests.conftest import CHECKOUT
from tests.tools.data_files import find_file
from tests.tools.jobs import build, command_of, leftovers, read_manifest_json, run_any, run_here
from tests.tools.table_rows import for_rows


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("foo://bar", "no installed file system knows URLs that begin with foo://"),
        ("hdfs://host/x", "the package hdfs is not installed"),
        ("azfs://account/x", "the package azure.storage.blob is not installed"),
        ("~nobody-here/x", "there is no such home"),
    ],
)
def test_a_place_that_nothing_knows_is_refused_wherever_it_is_given(
    url: str, part: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    build([url], tokenizer_path, output, refused=[part])
    run_here("bert", "--input", sample, "--tokenizer", url, "--output", output, refused=[part])
    run_here(
        "bert", "--input", sample, "--tokenizer", tokenizer_path, "--output", url, refused=[part]
    )
    build([sample], tokenizer_path, output, "--temp-location", url, refused=[part])
    run_here("train-tokenizer", "--input", sample, "--output", url, refused=[part])
    cause = part if url.startswith("~") else "it cannot be read (No such file"
    run_here("bert", "--config", f"{url}/x.yaml", refused=[f"--config {url}/x.yaml: ", cause])
    for command in ("inspect", "verify"):
        shown = "fsspec does not know this URL" if url == "foo://bar" else part
        run_here(command, url, refused=[shown])
    assert leftovers(tmp_path) == []


def test_names_are_not_taken_for_markup_or_codes(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    odd = "x[red]y[/] :smile: \x1b[31m"
    shown = r"x[red]y[/] :smile: \u001b[31m"
    for command in ("inspect", "verify"):
        run_here(command, tmp_path / odd, refused=[f"{tmp_path}/{shown}: "])
    build(
        [tmp_path / odd], tokenizer_path, tmp_path / "out", refused=[f"--input {tmp_path}/{shown}"]
    )
    outcome = run_here("train-tokenizer", "--input", sample, "--output", tmp_path / odd)
    assert f"{tmp_path}/{shown}: wordpiece tokenizer" in outcome.output


def test_names_that_are_not_utf_8(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    folder, tokenizer, output = tmp_path / "in", tmp_path / "t\udce9.json", tmp_path / "out"
    folder.mkdir()
    (folder / "caf\udce9.txt").write_bytes(sample.read_bytes()[:20_000] + b"\n\xff\n")
    (folder / "b.txt").write_bytes(b"More text .\n")
    tokenizer.write_bytes(tokenizer_path.read_bytes())
    for flag in ("--output", "--temp-location"):
        parts = (rf"{flag} {tmp_path}/o\udcff", "the name is not UTF-8")
        build([sample], tokenizer_path, output, flag, tmp_path / "o\udcff", refused=parts)
    outcome = build([folder], tokenizer, output)
    assert r"tokenizer t\udce9.json" in outcome.output
    names = {file["path"] for file in read_manifest_json(output)["corpus"]["files"]}
    assert names == {"b.txt", r"caf\udce9.txt"}
    assert r"caf\\udce9.txt" in find_file(output, "rejects/rejects.jsonl").read_text()
    run_here("inspect", output, "--html", tmp_path / "page\udce9.html")
    run_here("verify", output)


def test_training_on_rejects_alone_says_so(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\xff\n\xfe\n\n")
    arguments = ("train-tokenizer", "--input", text, "--output", tmp_path / "t.json")
    run_here(*arguments, refused=["3 lines", "cannot be read: 2 invalid-utf-8", "Repair the input"])
    text.write_bytes(b"\n\n = Title = \n")
    run_here(*arguments, refused=["3 lines", "only blank lines and titles"])


def test_a_reader_that_has_seen_enough_ends_a_command_in_silence(tmp_path: Path) -> None:
    command = f"cd {tmp_path}; {sys.executable} -m pipeline train-tokenizer --help | head -1"
    piped = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "/bin:/usr/bin"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert piped.stderr == ""


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    command = f"mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m pipeline verify x"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env={"PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr.startswith("error: the working directory does not exist any more")
    assert len(ended.stderr.splitlines()) == 1


@for_rows(
    ("arguments", "parts"),
    [
        (["--output", ""], ["--output: its value is empty"]),
        (["--output="], ["--output: its value is empty"]),
        (["--output", "//"], ["--output //: it is the folder that holds everything"]),
        (["--log-seconds", "inf"], ["--log-seconds inf"]),
        (["--pool-tokens", "9" * 23], ["--pool-tokens 999"]),
        (["--", "--direct_num_workers=x"], ["-- --direct_num_workers=x: ", "invalid int"]),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(
    arguments: list[str], parts: list[str], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build([sample], tokenizer_path, tmp_path / "out", *arguments, refused=parts)
    assert leftovers(tmp_path) == []


def test_a_disk_that_is_full_at_the_end_leaves_the_earlier_file(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "t.json"
    output.write_text("before")

    def fill(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill)
    arguments = ("--input", sample, "--output", output, "--replace")
    run_here("train-tokenizer", *arguments, refused=["No space left on device"])
    assert output.read_text() == "before"
    assert leftovers(tmp_path) == ["t.json"]


@pytest.mark.parametrize(
    "first_file",
    [
        "corpusmill.location.write_whole", "pipeline.folders.run_folder.begin_run",
        "pipeline.folders.run_folder.write_record", "pipeline.folders.run_folder.write_file",
    ],
)  # fmt: skip
def test_a_disk_that_is_full_at_the_first_file_leaves_nothing(
    first_file: str, sample: Path, tokenizer_path: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(first_file, fill)
    output = tmp_path / "new" / "out"
    outcome = run_any(*command_of([sample], tokenizer_path, output))
    assert outcome.status != 0
    assert "No space left on device" in outcome.errors
    assert "Traceback" not in outcome.errors
    assert leftovers(tmp_path) == []


def test_ctrl_c_is_heard_while_a_library_trains(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = threading.Event()

    def train(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        ctypes.CDLL(None).usleep(1_000_000)  # it does not look for signals
        finished.set()
        return ""

    monkeypatch.setattr(MODELS["wordpiece"], "train", train)
    arguments = ("--input", sample, "--output", tmp_path / "t.json")
    outcome = run_here("train-tokenizer", *arguments, status=INTERRUPTED)
    assert not finished.is_set()
    assert outcome.errors == "interrupted: the command did not finish\n"
    assert leftovers(tmp_path) == []
