"""What engines report of a failed job, and what we tell the user."""

import errno
import re
import traceback
from unittest.mock import Mock

import pytest
from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

from corpusmill.errors import UserError
from pipeline.runners.failures import JobFailedError, explain_failure, raise_explained
from tests.tools.table_rows import for_rows

# As Python ends the traceback of a mistake that a worker found.
TRACE = """Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1512, in apache_beam.runners.common.DoFnRunner.process
  File "/job/transforms/commit/commit.py", line 76, in process
    check_rejects(sums, self._options.max_rejects)
""" + "".join(
    traceback.format_exception_only(
        UserError("--max-rejects 0{where}", "1 of 5 lines are rejects", "Mend the input")
    )
)
WHERE = " [while running 'CommitDataset/Commit']"
JAVA = """org.apache.beam.sdk.util.UserCodeException: java.util.concurrent.ExecutionException:
 java.lang.RuntimeException: Error received from SDK harness for instruction 7: {}
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
"""


@for_rows(
    "text",
    [
        TRACE.format(where=""),
        TRACE.format(where=WHERE),
        JAVA.format(TRACE.format(where=WHERE)),
        # Go and JSON quote what they pass on.
        "job failed: " + TRACE.format(where=WHERE).replace("\n", "\\n"),
    ],
)
def test_a_mistake_that_a_worker_found_is_told_as_the_user_made_it(text: str) -> None:
    error = explain_failure(text)
    assert isinstance(error, UserError)
    assert error.value == "--max-rejects 0"
    assert str(error) == "--max-rejects 0: 1 of 5 lines are rejects. Mend the input."


@for_rows(
    ("text", "value", "cause"),
    [
        ("OSError: [Errno 28] No space left on device: '/t/x' [while running 'Spill']", "--output",
         "the disk is full (No space left on device: '/t/x')"),
        ("ModuleNotFoundError: No module named 'transforms'\n", "--runner", "lack code of the job"),
        ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/x' [while running 'S']",
         "--input", "cannot be read or written (Transport endpoint is not connected: '/mnt/x')"),
        ("IsADirectoryError: [Errno 21] Is a directory: '/o/v1/a'", "--output",
         "cannot be read or written (Is a directory: '/o/v1/a')"),
        ("corpusmill.location.NotAFileError: [Errno 40] it is a link: '/o/v1'", "--output",
         "something else is in the place of a file (it is a link: '/o/v1')"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/o/_temporary-1/tokenizer.json'",
         "--temp-location", "cannot reach the temporary folder"),
    ],
)  # fmt: skip
def test_what_the_user_can_mend_is_a_mistake(text: str, value: str, cause: str) -> None:
    error = explain_failure(JAVA.format(text))
    assert isinstance(error, UserError)
    assert value in error.value
    assert cause in error.cause


@for_rows(
    ("text", "cause"),
    [
        ("MemoryError: [while running 'BuildShards/BuildShard-ptransform-5']", "memory ran out"),
        ("java.lang.OutOfMemoryError: Java heap space", "memory ran out"),
        # The kernel's words, and those that engines have for what comes of it.
        ("Out of memory: Killed process 1882 (python) total-vm:6041764kB", "memory ran out"),
        ("SDK harness sdk-0-0 disconnected.\nThe worker VM had to shut down due to lack of memory.",
         "memory ran out"),
        ("Container exited with exit code 137", "memory ran out"),
        ("generic::aborted: SDK harness sdk-0-0 disconnected.", "a worker was lost"),
        ("bundle inst004 stage-007 failed:SDK worker disconnected: worker[job-001[job]]",
         "a worker was lost"),
        ("Root cause: The worker lost contact with the service.", "a worker was lost"),
        ("java.util.TimeoutException: Heartbeat of TaskManager with id c_1(h:1) timed out.",
         "a worker was lost"),
        ("prism worker[job-001] didn't get control connection to localhost:1 after 1m0s",
         "no worker began to work"),
    ],
)  # fmt: skip
def test_faults_of_machines_are_told_with_what_to_do(text: str, cause: str) -> None:
    failure = explain_failure(text)
    assert isinstance(failure, JobFailedError)
    assert re.fullmatch(rf"{cause}.* \(.+\)\. \w.+", str(failure))


def test_nothing_is_made_up_of_what_is_not_known() -> None:
    assert explain_failure("ZeroDivisionError: division by zero") is None


def ask_for_a_failed_bundle(failure: Exception) -> str:
    """Return what Beam's worker answers whoever asks for a bundle that has failed."""
    bundles = BundleProcessorCache(frozenset(), None, Mock(), {})
    bundles.discard("bundle", failure)
    try:
        bundles.lookup("bundle")
    except RuntimeError:
        return traceback.format_exc()
    finally:
        bundles.shutdown()
    raise AssertionError("the worker knows nothing of the failure")


@pytest.mark.parametrize("length", [10, 20_000], ids=["whole", "cut short"])
def test_an_engine_that_hears_of_a_failure_by_asking_for_its_bundle_says_why(length: int) -> None:
    answer = ask_for_a_failed_bundle(ValueError("-" * length, "an unforeseen thing"))
    assert "an unforeseen thing" not in answer.splitlines()[-1]
    with pytest.raises(RuntimeError) as caught:
        raise_explained(RuntimeError(f"job failed: {answer}"))
    assert "an unforeseen thing" in str(caught.value).splitlines()[-1]


def test_an_error_that_names_its_own_cause_is_left_as_it_is() -> None:
    try:
        raise ValueError("told to the user") from KeyError("a detail")
    except ValueError:
        raise_explained(RuntimeError(traceback.format_exc()))


def test_a_known_fault_may_be_the_cause_of_an_error() -> None:
    error = RuntimeError("the job failed")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", "shard")
    with pytest.raises(UserError, match="the disk is full"):
        raise_explained(error)
