"""Options that cannot be: refused before any work, by one message."""

from pathlib import Path

import pytest

from pipeline.command_line import USER_ERROR
from tests.tools.jobs import assert_refused, build, run_here


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--num-shards", "0"), ("--num-shards", "100000"), ("--seed", "-1"),
        ("--seed", "18446744073709551616"), ("--validation-share", "1"),
        ("--validation-share", "-0.1"), ("--max-rejects", "-1"), ("--workers", "0"),
        ("--range-bytes", "0"),
        ("--min-bytes-per-worker", "-1"), ("--max-seq-length", "4"), ("--duplicates", "0"),
        ("--short-seq-prob", "1.5"), ("--masked-lm-prob", "0"), ("--max-predictions-per-seq", "0"),
        ("--pool-tokens", "0"), ("--max-line-bytes", "0"), ("--max-document-bytes", "0"),
        ("--compression-level", "99"), ("--compression-level", "0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(
    flag: str, value: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, f"{flag}={value}")
    assert_refused(outcome, USER_ERROR, value.rstrip("0") or value)
    name = flag.removeprefix("--")
    assert name in outcome.errors.replace("_", "-")
    assert not output.exists()


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("--max-seq-lenght=5", "--max-seq-lenght"),
        ("--duplicates=many", "many"),
        ("--segments=luck", "luck"),
    ],
)
def test_an_option_that_cannot_be_understood_is_refused(
    flag: str, part: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, flag)
    assert outcome.status == USER_ERROR
    assert part in outcome.errors + outcome.output
    assert "--help" in outcome.errors + outcome.output
    assert "Traceback" not in outcome.errors
    assert not output.exists()


def test_an_unknown_runner_is_refused(sample: Path, tokenizer_path: Path, output: Path) -> None:
    outcome = build([sample], tokenizer_path, output, "--runner", "Nonsense")
    assert_refused(outcome, USER_ERROR, "--runner Nonsense")
    assert not output.exists()


def test_a_missing_command_shows_the_commands() -> None:
    outcome = run_here()
    assert outcome.status == USER_ERROR
    assert "bert" in outcome.errors + outcome.output
