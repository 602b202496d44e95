"""A job on an engine that is another process: its messages, and how the command ends."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_job_api_pb2

from corpusmill.console.process import CANCELLED, FAILURE, INTERRUPTED
from pipeline.console.progress import Counters
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Run
from pipeline.runners.portable import JobInterrupt, PortableEngine, job_id_of
from tests.tools.engine import RUNNING, Engine, count_seconds, start_engine
from tests.tools.jobs import assert_same_bytes, build
from tests.tools.table_rows import for_rows

_DEADLINE_SECONDS = 5


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with start_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def long_text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that takes the engine some seconds."""
    file = tmp_path_factory.mktemp("long") / "text"
    file.write_bytes(sample.read_bytes() * 60)
    return file


def test_a_job_elsewhere_has_an_id_and_gives_the_same_bytes(
    engine: Engine, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, *engine.flags)
    [job_id] = re.findall(r"^PortableRunner: job (\S+)$", outcome.output, re.MULTILINE)
    assert engine.jobs()[job_id] == beam_job_api_pb2.JobState.DONE
    assert_same_bytes(output, [sample], tokenizer_path)


def test_a_job_may_take_longer_than_the_job_server_may_to_answer(engine: Engine) -> None:
    counters = Counters()

    def add(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | beam.Create([_DEADLINE_SECONDS + 1])
            | beam.Map(count_seconds).with_output_types(int)
        )

    arguments = (*engine.flags[3:], f"--job_server_timeout={_DEADLINE_SECONDS}")
    portable = PortableEngine(RunOptions(runner="PortableRunner"), arguments)
    assert portable.submit(Run(add, counters)).done
    assert counters.totals() == {"read.seconds": _DEADLINE_SECONDS + 1}


def test_what_a_worker_refuses_is_one_message(
    engine: Engine, sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xfe\n" + sample.read_bytes())
    parts = ("--max-rejects 0", "1 of", "Repair the input")
    build([bad], tokenizer_path, output, "--max-rejects", "0", *engine.flags, refused=parts)
    assert not (output / "dataset.json").exists()


def test_a_job_that_somebody_cancels_has_an_exit_status_of_its_own(
    engine: Engine, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    engine.once_it_runs(engine.cancel)
    outcome = build([long_text], tokenizer_path, output, *engine.flags, status=CANCELLED)
    assert re.fullmatch(r"cancelled: somebody cancelled job \S+; .*\n", outcome.errors)
    assert not (output / "dataset.json").exists()


def assert_interrupted(engine: Engine, text: Path, tokenizer: Path, output: Path) -> None:
    outcome = build([text], tokenizer, output, *engine.flags, status=INTERRUPTED)
    found = re.search(r"^interrupted: job (\S+) was cancelled", outcome.errors, re.MULTILINE)
    assert found, outcome.errors
    [job_id] = found.groups()
    assert engine.jobs()[job_id] == beam_job_api_pb2.JobState.CANCELLED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_interrupted_cancels_its_job(
    number: signal.Signals, engine: Engine, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    engine.once_it_runs(lambda _: os.kill(os.getpid(), number))
    assert_interrupted(engine, long_text, tokenizer_path, output)


def test_an_interrupt_right_after_the_submission_cancels_the_job(
    engine: Engine, long_text: Path, tokenizer_path: Path, output: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def ask(result: Any) -> str:
        # The thread that asks for the counters of an earlier job may still wait for its answer.
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
        return job_id_of(result)

    monkeypatch.setattr("pipeline.runners.portable.job_id_of", ask)
    assert_interrupted(engine, long_text, tokenizer_path, output)


def test_an_engine_that_dies_ends_the_command(
    long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    with start_engine() as mortal:
        mortal.once_it_runs(lambda _: mortal.process.kill())
        parts = ("the connection to the engine was lost", "UNAVAILABLE")
        build([long_text], tokenizer_path, output, *mortal.flags, status=FAILURE, refused=parts)


def test_a_job_that_nobody_waits_for_ends_as_any_other(
    engine: Engine, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, "--no-wait", *engine.flags)
    assert f"complete once {output / 'dataset.json'} exists" in outcome.output
    [job_id] = re.findall(r"^PortableRunner: job (\S+)$", outcome.output, re.MULTILINE)
    while engine.jobs()[job_id] == RUNNING:
        time.sleep(0.05)
    assert_same_bytes(output, [sample], tokenizer_path)


def test_what_interrupts_a_submission_ends_the_job(engine: Engine) -> None:
    known = engine.jobs()

    def add(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([1]) | beam.Map(count_seconds).with_output_types(int)
        os.kill(os.getpid(), signal.SIGINT)

    portable = PortableEngine(RunOptions(runner="PortableRunner"), engine.flags[3:])
    with pytest.raises(JobInterrupt, match="was cancelled"):
        portable.submit(Run(add, Counters()))
    [state] = [state for job_id, state in engine.jobs().items() if job_id not in known]
    assert state == beam_job_api_pb2.JobState.CANCELLED


@for_rows(
    ("flags", "value", "cause"),
    [
        (["PortableRunner"], "--runner PortableRunner", "no job server is named"),
        (
            ["PortableRunner", "--", "--job_endpoint=localhost:1", "--environment_type=LOOPBACK"],
            "--job_endpoint=localhost:1",
            "there is no answer from that address",
        ),
        (["DaskRunner"], "--runner DaskRunner", "silently loses elements"),
        (["NoRunner"], "--runner NoRunner", "Beam has no runner of this name"),
    ],
)
def test_an_engine_that_cannot_run_the_job_is_refused(
    flags: list[str], value: str, cause: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    build([sample], tokenizer_path, output, "--runner", *flags, refused=(value, cause))
    assert not output.exists()


@for_rows(
    ("flags", "cause"),
    [
        ([], "it runs in this process"),
        (["--runner", "PrismRunner"], "Prism ends with this process"),
        (["--runner", "FlinkRunner"], "embedded Flink ends with this command"),
        (["--runner", "SparkRunner"], "Spark's driver"),
        (["--runner", "PortableRunner", "--", "--job_endpoint=embed"], "--job_endpoint=embed"),
        (["--runner", "PortableRunner", "--", "--job_endpoint=x:1", "--environment_type=LOOPBACK"],
         "--environment_type=LOOPBACK"),
    ],
)  # fmt: skip
def test_a_job_that_ends_with_the_command_must_be_waited_for(
    flags: list[str], cause: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    parts = ("--no-wait", cause, "Leave --no-wait out")
    build([sample], tokenizer_path, output, "--no-wait", *flags, refused=parts)
    assert not output.exists()
