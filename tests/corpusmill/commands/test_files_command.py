"""The command files as a user runs it."""

import io
import subprocess
from pathlib import Path

import fsspec
import pyarrow.dataset as pads
import pytest

from corpusmill.commands.command import Call
from corpusmill.commands.files import Files, print_files
from corpusmill.console.terminal import Terminal
from tests.tools.jobs import build, read_manifest_json, run_here

SHARE = ("--validation-share", "0.2")


@pytest.fixture(scope="module")
def data(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "out"
    build([sample], tokenizer_path, folder, *SHARE)
    return folder


def test_the_shards_of_a_split_are_printed_in_their_order(data: Path) -> None:
    splits = read_manifest_json(data)["splits"]
    for split, flags in (("train", ()), ("validation", ("--split", "validation"))):
        for folder in (data, data / "dataset.json", f"{data}/"):
            lines = run_here("files", folder, *flags).output.splitlines()
            assert lines == [f"{data}/{shard['file']}" for shard in splits[split]["shards"]]
        assert pads.dataset(lines).count_rows() == splits[split]["rows"]


def test_paths_are_as_the_folder_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    names = run_here("files", "out").output.split()
    assert names[0] == "out/v1/train-00000-of-00003.parquet"
    assert subprocess.run(["ls", *names], check=False, capture_output=True).returncode == 0
    files = fsspec.filesystem("memory")
    files.pipe("/out/dataset.json", (data / "dataset.json").read_bytes())
    printed = io.StringIO()
    assert print_files(Files("memory://out"), Call(Terminal(file=printed))) == 0
    assert printed.getvalue().split() == [f"memory://{name}" for name in names]


def test_a_mistake_gives_one_message(data: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for flags, parts in (
        ((data, "--split", "validaton"), ("has train, validation", "Did you mean validation?")),
        ((tmp_path / "none",), ("it is not a data set",)),
    ):
        run_here("files", *flags, refused=parts)
