"""The command line as a user runs it, in this process or in another one."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow.parquet as pq

from corpusmill.console.process import USER_ERROR
from corpusmill.dataset.manifest_entries import base_name
from corpusmill.objectives.registry import OBJECTIVES
from pipeline.command_line import main
from tests.tools.data_files import find_files
from tests.tools.forked_commands import ForkedCommand

# A data set of a few hundred short examples.
SPREAD = ("--num-shards", "3", "--seed", "1")
PAIRS = ("--max-seq-length", "64", "--duplicates", "2")
SMALL = (*PAIRS, *SPREAD)
# A kind of tokenizer with tokens that are parts of characters.
BYTE_LEVEL = (
    "--model", "bpe", "--special-tokens", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
)  # fmt: skip
SMALL_RANGES = ("--range-bytes", "999")
WORKERS = ("--workers", "2", "--min-bytes-per-worker", "0")
TWO_WORKERS = (*WORKERS, *SMALL_RANGES)


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    output: str
    errors: str


def run_here(*arguments: str | Path, status: int = 0, refused: Sequence[str] = ()) -> Outcome:
    """Run a command in this process.

    Args:
        arguments: the command and its flags.
        status: how it must end; by default well, or as a mistake of the user's if it is refused.
        refused: parts of the message if it must be refused.
    """
    outcome = run_any(*arguments)
    if refused:
        assert_refused(outcome, *refused, status=status or USER_ERROR)
    assert refused or outcome.status == status, outcome.errors
    return outcome


def run_any(*arguments: str | Path) -> Outcome:
    """Run a command in this process, however it ends."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            ended = main([str(argument) for argument in arguments])
        except SystemExit as end:  # the parser of the command line ends like this
            ended = int(end.code or 0)
    return Outcome(ended, output.getvalue(), errors.getvalue())


class RunningJob:
    """A small BERT job with ranges of 200 KB.

    Args:
        text: the corpus.
        tokenizer: the tokenizer.json.
        output: the output folder.
        flags: where the job runs.
    """

    def __init__(self, text: Path, tokenizer: Path, output: Path, *flags: str) -> None:
        self.output = output
        ranges = ("--duplicates", "20", "--range-bytes", "200000")
        self.process = ForkedCommand(command_of([text], tokenizer, output, *ranges, *flags))

    def wait_for(self, pattern: str) -> list[psutil.Process]:
        """Wait for a file of that name, and return the processes that the job has started."""
        while self.process.poll() is None and not list(self.output.rglob(pattern)):
            time.sleep(0.02)
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, within_seconds: float) -> Outcome:
        """Return how it ends by itself, or kill it after this time."""
        try:
            output, errors = self.process.communicate(timeout=within_seconds)
        finally:
            self.process.kill()
        return Outcome(self.process.returncode, output, errors)


def list_text_objectives() -> list[str]:
    """Return the objectives that are built of any text; others take records with fields."""
    return [name for name in OBJECTIVES.names if not OBJECTIVES[name].reads_fields(["messages"])]


def wait_for(command: ForkedCommand) -> Outcome:
    """Wait for the end of a command in a process of its own."""
    output, errors = command.communicate()
    return Outcome(command.returncode, output, errors)


def command_of(
    inputs: Iterable[str | Path],
    tokenizer: str | Path,
    output: str | Path,
    *flags: str | Path,
    objective: str = "bert",
) -> list[str | Path]:
    """Return the command that builds a small data set; its last flags win over SMALL."""
    data = ["--input", *inputs, "--tokenizer", tokenizer, "--output", output]
    return [objective, *last_wins(*data, *(SPREAD if objective == "gpt" else SMALL), *flags)]


def last_wins(*arguments: str | Path) -> list[str | Path]:
    """Leave out options that later ones override, which the command line refuses."""
    groups: dict[str, list[str | Path]] = {"": []}
    name = ""
    for argument in arguments:
        option = str(argument)
        if option.startswith("--") and name != "--":
            name = option.partition("=")[0]
            groups.pop(name, None)
        groups.setdefault(name, []).append(argument)
    return [argument for group in groups.values() for argument in group]


def build(
    inputs: Iterable[str | Path], tokenizer: Path, output: Path, *flags: str | Path, **end: Any
) -> Outcome:
    """Build a small data set in this process, of BERT or what `objective` names, as `run_here`."""
    objective = end.pop("objective", "bert")
    return run_here(*command_of(inputs, tokenizer, output, *flags, objective=objective), **end)


def build_again(
    data_set: Path,
    tokenizer: Path,
    output: Path,
    *flags: str | Path,
    objective: str = "bert",
    paths: Mapping[str, str] | None = None,
) -> Outcome:
    """Build a data set again with the options that `config` prints, and with flags of its own.

    Args:
        data_set: the folder, or the manifest in it.
        tokenizer: its tokenizer.
        output: the new folder.
        flags: such as `--input`, which win over the printed options.
        objective: the command.
        paths: what is written over texts of the printed options, as a user fills in sources.
    """
    printed = run_here("config", data_set).output
    for text, path in (paths or {}).items():
        assert text in printed
        printed = printed.replace(text, path)
    file = output.with_suffix(".yaml")
    file.write_text(printed)
    placed = ("--tokenizer", tokenizer, "--output", output)
    return run_here(objective, "--config", file, *placed, *flags)


def build_apart(
    inputs: Iterable[str | Path], tokenizer: str | Path, output: str | Path, *flags: str
) -> Outcome:
    """Build a small data set of BERT in a process of its own, however that ends."""
    return wait_for(ForkedCommand(command_of(inputs, tokenizer, output, *flags)))


def assert_same_bytes(
    folder: Path, inputs: Iterable[str | Path], tokenizer: Path, *flags: str | Path, **end: Any
) -> None:
    """Assert that a data set is the same if it is built with other flags."""
    with TemporaryDirectory() as again:
        build(inputs, tokenizer, Path(again), *flags, **end)
        assert digests(Path(again)) == digests(folder)


def train(corpus: Path, output: Path, *flags: str | Path) -> str:
    """Train a small tokenizer, and return the content of its file."""
    arguments = ("--input", corpus, "--output", output, "--vocab-size", "500")
    run_here("train-tokenizer", *last_wins(*arguments, *flags))
    return output.read_text()


def read_manifest_json(folder: Path) -> dict[str, Any]:
    """Return the manifest of a data set as JSON."""
    manifest: dict[str, Any] = json.loads((folder / "dataset.json").read_text())
    return manifest


def rows_of(folder: Path, pattern: str = "*") -> list[dict[str, Any]]:
    """Return the rows of the Parquet shards whose names fit a pattern, in their order."""
    shards = find_files(folder, f"{pattern}.parquet")
    return [row for shard in shards for row in pq.read_table(shard).to_pylist()]


def unmask(row: Mapping[str, Any]) -> list[int]:
    """Return the ids of a row with those that were masked put back."""
    ids = list(row["input_ids"])
    for place, token in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
        ids[place] = token
    return ids


def digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a data set, by its name in the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shards_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what describes the Parquet shards, of what describes all files of a data set."""
    return {
        name: value
        for name, value in described.items()
        if name.endswith(".parquet") and not base_name(name).startswith("provenance/")
    }


def leftovers(folder: Path) -> list[str]:
    """Return the names of everything in a folder, if it exists."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def assert_refused(outcome: Outcome, *parts: str, status: int = USER_ERROR) -> None:
    """Assert that a command ended with one line with the value, the cause and the cure."""
    assert outcome.status == status, outcome.errors
    assert "Traceback" not in outcome.errors
    lines = [line for line in outcome.errors.splitlines() if line.strip()]
    [message] = [line for line in lines if " INFO pipeline: " not in line]  # of a slow machine
    assert message.startswith("error: ")
    for part in parts:
        assert part in message


def assert_nothing_final(output: Path) -> None:
    """Assert that a failed run has left only what it could resume from."""
    names = {path.name for path in output.iterdir()} if output.exists() else set()
    assert names <= {"v1"}
