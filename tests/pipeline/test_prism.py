"""The whole job on Prism, Beam's runner in Go: a second engine, with shuffles of its own."""

import multiprocessing
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.utils.subprocess_server import pick_port

from corpusmill.console.process import FAILURE, INTERRUPTED
from corpusmill.tokenization.words.words import Spans, cut_unicode
from pipeline.runners.prism import LOCATION, find_program
from tests.tools import jobs
from tests.tools.growing import Growing, halve
from tests.tools.jobs import (
    RunningJob,
    assert_nothing_final,
    assert_same_bytes,
    build,
    read_manifest_json,
    run_here,
)
from tests.tools.near_duplicates import plant_edits
from tests.tools.real_corpora import paragraphs

PRISM = ("--runner", "PrismRunner")
# A worker of ours is a process, which takes seconds to start; Beam's are threads of this one.
THREADS = ("--", "--environment_type=LOOPBACK")


@pytest.fixture(scope="module")
def prism() -> str:
    """The program; the test is skipped without it, but not in continuous integration."""
    program = find_program()
    if not program:
        missing = "Prism is missing: `make prism` installs it with Go"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return program


@pytest.fixture(scope="module")
def text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the sample with a reject, named so that all data sets can be compared."""
    file = tmp_path_factory.mktemp("text") / "text"
    lines = sample.read_bytes().splitlines(keepends=True)[:200]
    file.write_bytes(b"".join(lines) + b"Not \xff text .\n")
    return file


OBJECTIVES = {
    "bert": (),
    "electra": ("--output-format", "tfrecord"),
    "ernie": ("--mask", "static"),
    "gpt": ("--mode", "pack", "--max-seq-length", "64"),
}


@pytest.fixture
def stranger() -> StopOnExitJobServer:
    """A Prism of another pipeline of this process, which Beam would have downloaded."""
    server: StopOnExitJobServer = PrismRunner.shared_handle.acquire(
        lambda: StopOnExitJobServer(PrismJobServer(PipelineOptions([])))
    )
    return server


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_gives_the_bytes_of_the_local_runner(
    objective: str, text: Path, gpt_tokenizer: Path, tmp_path: Path, prism: str
) -> None:
    # A worker that compiles all kernels takes long enough for a record of progress.
    flags = (*OBJECTIVES[objective], "--validation-share", "0.2", "--log-seconds", "1000")
    where = ("--range-bytes", "3000", *PRISM, *(() if objective == "bert" else THREADS))
    output = tmp_path / "prism"
    elsewhere = build([text], gpt_tokenizer, output, *flags, *where, objective=objective)
    assert_same_bytes(output, [text], gpt_tokenizer, *flags, objective=objective)
    assert f"PrismRunner: --prism_location={prism}" in elsewhere.output
    # Beam logs what Prism says, and what it says of itself.
    assert elsewhere.errors == ""


@pytest.mark.usefixtures("prism")
def test_near_duplicates_are_those_of_the_local_runner(
    sample: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    text, output = tmp_path / "text", tmp_path / "prism"
    text.write_text("\n".join(plant_edits(paragraphs(sample)[:30], 100)))
    flags = ("--input-format", "lines", "--drop-near-duplicates")
    where = ("--range-bytes", "9000", *PRISM, *THREADS)
    build([text], gpt_tokenizer, output, *flags, *where, objective="gpt")
    assert read_manifest_json(output)["counts"]["near.found"] > 20
    assert_same_bytes(output, [text], gpt_tokenizer, *flags, objective="gpt")


@pytest.mark.usefixtures("prism")
def test_text_is_added_with_the_bytes_of_the_local_runner(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    first, second = halve(sample.read_bytes(), tmp_path)
    folders = [Growing(tmp_path / name, tokenizer_path) for name in ("here", "prism")]
    for growing, where in zip(
        folders, ((), ("--range-bytes", "3000", *PRISM, *THREADS)), strict=True
    ):
        growing.build(first)
        growing.append(second, flags=where)
    assert folders[0].files() == folders[1].files()


@pytest.fixture
def job_endpoint(prism: str) -> Iterator[str]:
    """A Prism that is already running."""
    (port,) = pick_port(None)
    server = subprocess.Popen(
        [prism, f"--job_port={port}", "--serve_http=false"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield f"localhost:{port}"
    server.kill()
    server.wait()


def test_as_a_portable_runner_that_is_there(
    job_endpoint: str, text: Path, tokenizer_path: Path, output: Path
) -> None:
    # Beam's threads of a worker complain when Prism ends; those of another process end before it.
    place = ("--runner", "PortableRunner", "--", f"--job_endpoint={job_endpoint}")
    threads = (*place, "--environment_type=LOOPBACK")
    outcome = jobs.build_apart([text], tokenizer_path, output, *threads)
    assert (outcome.status, outcome.errors) == (0, "")
    assert_same_bytes(output, [text], tokenizer_path)


@pytest.mark.usefixtures("prism")
def test_a_mistake_that_the_job_finds_is_one_message(
    text: Path, tokenizer_path: Path, output: Path
) -> None:
    parts = ("--max-rejects 0", "1 of 201 input lines and rows")
    build([text], tokenizer_path, output, "--max-rejects", "0", *PRISM, refused=parts)
    assert_nothing_final(output)


def find_no_words(text: str) -> Spans:
    """A rule of words that works here, where it is tried on a probe, and fails in a worker."""
    if multiprocessing.parent_process():
        raise RuntimeError("an unforeseen thing")
    return cut_unicode(text)


@pytest.mark.usefixtures("prism")
def test_a_fault_in_a_worker_is_one_line_and_a_trace_in_a_file(
    text: Path, tokenizer_path: Path, output: Path
) -> None:
    flags, parts = ("--words", f"{__name__}:find_no_words"), ("an unforeseen thing", "trace is in ")
    failure = {"objective": "ernie", "status": FAILURE, "refused": parts}
    build([text], tokenizer_path, output, *flags, *PRISM, **failure)
    assert_nothing_final(output)


def wait_for_children(job: RunningJob) -> dict[str, psutil.Process]:
    """Prism and the worker, by their names, once the worker has written a file."""
    children = job.wait_for("spill-*")
    # An interpreter may be called by its version.
    return {re.match("[a-z]+", entry.name())[0]: entry for entry in children}  # type: ignore[index]


@pytest.mark.usefixtures("prism")
@pytest.mark.parametrize(
    ("killed", "cause"),
    [("prism", "the connection to the engine was lost"), ("python", "SDK worker")],
)
def test_a_process_that_is_killed_ends_the_job(
    killed: str, cause: str, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output, *PRISM)
    children = wait_for_children(job)
    children[killed].kill()
    outcome = job.end(within_seconds=60)
    jobs.assert_refused(outcome, cause, "The whole trace is in ", status=FAILURE)
    assert_nothing_final(output)
    assert not psutil.wait_procs(children.values(), timeout=10)[1]


@pytest.mark.usefixtures("prism")
def test_an_interrupted_job_ends_at_once(
    long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output, *PRISM)
    children = wait_for_children(job)
    job.process.send_signal(signal.SIGINT)
    outcome = job.end(within_seconds=60)
    assert outcome.status == INTERRUPTED
    [message] = outcome.errors.splitlines()
    assert message.startswith("interrupted: no file of the data set was published")
    assert_nothing_final(output)
    assert not psutil.wait_procs(children.values(), timeout=10)[1]


def test_without_the_program_it_is_refused_with_the_cure(
    text: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.runners.prism.find_program", lambda: "")
    refused = ("PrismRunner", "go install", "cmd/prism@v2", LOCATION)
    build([text], tokenizer_path, output, *PRISM, refused=refused)
    missing = (*PRISM, "--", "--prism_location=/no/prism")
    parts = ("--prism_location /no/prism", "no such file", "go install")
    build([text], tokenizer_path, output, *missing, refused=parts)


def test_a_tokenizer_is_trained_to_the_same_bytes(text: Path, tmp_path: Path, prism: str) -> None:
    flags = ("--input", text, "--model", "bpe", "--vocab-size", "600", "--output")
    run_here("train-tokenizer", *flags, tmp_path / "here.json")
    where = ("--range-bytes", "3000", *PRISM, *THREADS)
    elsewhere = run_here("train-tokenizer", *flags, tmp_path / "prism.json", *where)
    assert f"--prism_location={prism}" in elsewhere.output
    assert (tmp_path / "prism.json").read_bytes() == (tmp_path / "here.json").read_bytes()
