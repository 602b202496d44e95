"""An engine that is lost, or reports a failure, before and after the job has done its work."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corpusmill.console.process import CANCELLED, FAILURE
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.shards import RUN
from pipeline.runners.engine import Engine, Run, Submitted
from pipeline.runners.failures import JobCancelledError, JobFailedError, WorkerDiedError
from pipeline.runners.flink.job import FlinkJobError
from tests.tools.jobs import PAIRS, SPREAD, build, digests, run_here
from tests.tools.table_rows import for_rows
from transforms.recovery import Workplace

EMBEDDED = (
    "--runner", "PortableRunner", "--", "--job_endpoint=embed", "--environment_type=LOOPBACK",
)  # fmt: skip
AFTER_ALL = "reports a failure after the job had finished its work"
FAULTS = [
    JobFailedError("the connection to the engine was lost (UNAVAILABLE)"),
    FlinkJobError("Flink no longer knows the job"),
    RuntimeError("the job ended as UNKNOWN"),
    WorkerDiedError("killed by signal 9"),
    JobCancelledError("job-1"),
]


@contextmanager
def engines_that_fail(error: Exception, works: bool = True) -> Iterator[None]:
    """All engines report an error, after the job's work or in place of it, while the block runs."""
    run_job = Engine.run

    def run(engine: Engine, job: Run) -> Submitted:
        if works:
            assert run_job(engine, job).done
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "run", run)
        yield


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_data_set_that_is_whole_is_no_failure(
    error: Exception, built: Path, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    with engines_that_fail(error):
        outcome = build([sample], tokenizer_path, output)
    assert AFTER_ALL in " ".join(outcome.output.split())
    assert digests(output) == digests(built)
    assert not (output / "v1" / RUN).exists()


@for_rows("error", FAULTS)
def test_the_data_set_of_an_earlier_run_is_no_success(
    error: Exception, built: Path, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    shutil.copytree(built, output, dirs_exist_ok=True)
    status = CANCELLED if isinstance(error, JobCancelledError) else FAILURE
    with engines_that_fail(error, works=False):
        build([sample], tokenizer_path, output, "--replace", "--seed", "7", status=status)
    assert digests(output) == digests(built)


def test_a_worker_that_ends_before_it_notes_the_end_has_still_finished(
    built: Path, sample: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has written the manifest, which no other run could write meanwhile."""
    monkeypatch.setattr(Workplace, "give_up", lambda *_: None)
    monkeypatch.setattr("transforms.commit.commit.end_run", lambda *_: None)
    with engines_that_fail(FAULTS[0]):
        build([sample], tokenizer_path, output)
    assert digests(output) == digests(built)


def test_a_command_that_changes_a_data_set_is_no_failure_either(
    sample: Path, gpt_tokenizer: Path, output: Path
) -> None:
    build([sample], gpt_tokenizer, output, "--mode", "pack", objective="gpt")
    before = (output / MANIFEST).read_bytes()
    with engines_that_fail(FAULTS[0]):
        outcome = run_here("drop", output, "--where", "length < 1000", *EMBEDDED)
    assert AFTER_ALL in " ".join(outcome.output.split())
    assert "removed" in outcome.output
    assert (output / MANIFEST).read_bytes() != before
    with engines_that_fail(FAULTS[0], works=False):
        run_here(
            "drop", output, "--where", "length < 2000", *EMBEDDED, refused=("",), status=FAILURE
        )


def test_what_a_job_has_found_is_no_failure(
    built: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    corpus = ("--input", sample)
    vocabulary = tmp_path / "tokenizer.json"
    measured = ("--tokenizer", tokenizer_path, "--temp-location", tmp_path)
    where, service = EMBEDDED[:2], EMBEDDED[2:]
    for command in (
        ("verify", built, *where),
        ("inspect-corpus", *corpus, *measured, *SPREAD, *where, "bert", *PAIRS),
        ("train-tokenizer", *corpus, "--output", vocabulary, "--vocab-size", "300", *where),
    ):
        with engines_that_fail(FAULTS[0], works=False):
            refused = ("the connection to the engine was lost",)
            run_here(*command, *service, refused=refused, status=FAILURE)
        with engines_that_fail(FAULTS[0]):
            outcome = run_here(*command, *service)
        assert AFTER_ALL in " ".join(outcome.output.split()), command
