"""Named pipes where files are expected: one message, and nobody waits for them.

Those in the place of an input or a tokenizer are in tests/pipeline/recipe/test_inputs.py,
those of a data set's files in tests/corpusmill.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.jobs import build, run_here
from tests.tools.table_rows import for_rows


@pytest.fixture(autouse=True)
def bounded_wait() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@for_rows(
    ("name", "flags"),
    [
        ("v1/_run.json", ()),
        ("v1/_run.json", ("--resume",)),
        ("v1/_run.json", ("--replace",)),
        ("_SUCCESS", ("--replace",)),
        ("dataset.json", ("--replace",)),
        ("tokenizer.json", ("--replace",)),
        ("v1/train-00000-of-00003.parquet", ("--replace",)),
        (f"v1/_temporary-{'0' * 32}/run.json", ("--resume",)),
    ],
)
def test_a_pipe_in_the_output_folder_is_refused_before_any_work(
    name: str, flags: tuple[str, ...], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "out" / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    message = f"error: {pipe}: it is not a regular file. Remove it"
    build([sample], tokenizer_path, tmp_path / "out", *flags, refused=[message])
    pipe.unlink()


@for_rows("flags", [("--output",), ("--output", "--resume"), ("--temp-location",), ("--log-file",)])
def test_a_pipe_in_place_of_a_folder_or_a_log_is_refused(
    flags: tuple[str, ...], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    pipe, output = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    given: list[str | Path] = [flags[0], pipe, *flags[1:]]
    build([sample], tokenizer_path, output, *given, refused=[f"error: {flags[0]} {pipe}: "])
    pipe.unlink()
    assert not output.exists()


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_pipe_in_place_of_a_data_set_is_refused(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run_here(command, tmp_path / "pipe", refused=["not a data set"])
