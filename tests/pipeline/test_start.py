"""Help and messages about mistakes do without Beam, which takes a second to import."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from corpusmill.commands.table import list_commands
from corpusmill.console.process import USER_ERROR
from tests.conftest import CHECKOUT
from tests.tools import jobs

# Runs commands one after the other in one process.
_PROGRAM = """
import json, sys
from pipeline.command_line import main

outcomes = []
for arguments in json.load(sys.stdin):
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code or 0
    loaded = sorted({"apache_beam", "numba", "torch", "grpc"} & sys.modules.keys())
    outcomes.append([status, loaded])
print(json.dumps(outcomes))
"""


def run_all(command_lines: list[list[str]]) -> list[tuple[int, list[str]]]:
    """The status of each command, and the slow modules that were imported until its end."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=json.dumps(command_lines), text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HF_HUB_OFFLINE": "1"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    outcomes: list[Any] = json.loads(ended.stdout.splitlines()[-1])
    return [(status, loaded) for status, loaded in outcomes]


def test_the_help_of_each_command_is_there_without_beam_and_numba() -> None:
    lines = [[entry.name, "--help"] for entry in list_commands()]
    lines += [["bert", "--nonsense"], ["nonsense"], ["config", "bert"]]
    statuses = [0] * (len(lines) - 3) + [USER_ERROR, USER_ERROR, 0]
    assert run_all(lines) == [(status, []) for status in statuses]


def test_mistakes_are_found_before_beam_is_imported(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_text("text")
    (tmp_path / "empty.txt").write_text("")
    options = tmp_path / "options.yaml"
    options.write_text("sed: 1")
    out = ["--output", str(tmp_path / "out")]
    text, tokenizer = ["--input", str(sample)], ["--tokenizer", str(tokenizer_path)]
    bert = ["bert", *text, *tokenizer, *out]
    lines = [
        ["bert", "--input", str(tmp_path / "no"), *tokenizer, *out],
        ["bert", "--input", str(tmp_path / "empty.txt"), *tokenizer, *out],
        ["bert", *text, "--tokenizer", str(tmp_path / "no.json"), *out],
        ["bert", *text, "--tokenizer", str(sample), *out],
        ["bert", *text, *tokenizer, "--output", str(tmp_path / "used")],
        ["bert", *text, *tokenizer, "--output", str(sample)],
        ["gpt", *text, *tokenizer, *out],  # the tokenizer has no token that ends texts
        [*bert, "--config", str(options)],
        [*bert, "--seed", "-1"],
        [*bert, "--preset", "nonsense"],
        [*bert, "--output-format", "megatron"],
        [*bert, "--input-format", "parquet"],
        [*bert, "--no-wait"],
        [*bert, "--replace", "--resume"],
        [*bert, "--temp-location", str(sample)],
        ["inspect-corpus", *text, *tokenizer, "--html", str(tmp_path / "no" / "page.html")],
        ["inspect-corpus", "--input", str(tmp_path / "no"), *tokenizer],
        ["train-tokenizer", "--input", str(tmp_path / "no"), "--output", str(tmp_path / "t.json")],
        ["train-tokenizer", *text, "--output", str(sample)],
        ["verify", str(tmp_path / "no")],
        ["inspect", str(tmp_path / "used")],
    ]
    for line, (status, loaded) in zip(lines, run_all(lines), strict=True):
        assert (status, {*loaded} - {"numba"}) == (USER_ERROR, set()), line


def test_data_sets_on_this_machine_are_read_without_beam() -> None:
    data_set = str(CHECKOUT / "tests" / "data" / "small_data_set")
    for status, loaded in run_all([["inspect", data_set], ["verify", data_set]]):
        assert (status, {*loaded} - {"numba"}) == (0, set())


# What a small build does without, though it or Beam imports some of it elsewhere.
_SLOW = (
    "google.cloud.", "apitools.", "boto3.", "pandas.", "apache_beam.runners.worker.sdk_worker.",
    "pyparsing.", "cffi.", "warcio.", "pyarrow.compute.", "rich.progress.",
    "numba.core.typing.cffi_utils.", "numba.np.arraymath.", "scipy.linalg.",
    "corpusmill.tokenization.training.",
)  # fmt: skip


def test_a_small_build_imports_only_what_it_needs(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    program = """
import sys
from corpusmill.commands import command_line
from corpusmill.console.process import quick_imports
from pipeline.command_line import JOB

assert command_line.main(sys.argv[1:], JOB, quick_imports) == 0

from corpusmill.settings.options import document_fields
from corpusmill.tokenization.sentence_tokenizer import load_sentence_tokenizer

print(load_sentence_tokenizer.cache_info().misses, document_fields.cache_info().misses)
print(*sys.modules)
"""
    # Whoever compiles a kernel needs much more.
    jobs.build([sample], tokenizer_path, tmp_path / "compiled")
    output = tmp_path / "out"
    arguments = ["bert", "--input", sample, "--tokenizer", tokenizer_path, "--output", output]
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    # A file of google.cloud puts its empty package into `sys.modules` when Python starts.
    *_, loaded, modules = ended.stdout.splitlines()
    imported = {*modules.split()} - {"google.cloud"}
    assert "apache_beam" in imported
    assert not [name for name in imported if f"{name}.".startswith(_SLOW)]
    assert "not found" not in ended.stderr
    # The tokenizer that was tried on the corpus is that of the job, and no help was read.
    assert loaded == "1 0"


def test_the_client_of_the_web_is_imported_when_it_is_used() -> None:
    program = """
import sys
from corpusmill.console.process import quick_imports

with quick_imports(("google.cloud",)):
    import httplib2
print("pyparsing" in sys.modules)
print(httplib2.Http.__name__, httplib2.auth.pp.Word("a"))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=False,
    )  # fmt: skip
    assert ended.stdout.splitlines() == ["False", "Http W:(a)"], ended.stderr
