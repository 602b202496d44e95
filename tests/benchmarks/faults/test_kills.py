"""`benchmarks.faults.kills` with two moments; `make test-kills` takes twenty."""

import time
from pathlib import Path

import pytest

from benchmarks.faults.kills import Job, kill_and_resume


def test_a_killed_job_resumes_to_the_same_bytes(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() * 4)
    flags = ["--num-shards", "4", "--max-seq-length", "64", "--duplicates", "2"]
    flags += ["--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "40000"]
    command = ["bert", "--input", str(text), "--tokenizer", str(tokenizer_path), *flags]
    job = Job(command, tmp_path / "out")
    began = time.perf_counter()
    job.run()
    whole = time.perf_counter() - began
    expected = job.digests()
    for victim, share in (("driver", 0.75), ("worker", 0.9)):
        # The machine can be faster now than it was.
        seconds = whole * share
        while not kill_and_resume(job, expected, victim, seconds):
            seconds *= 0.8


def test_a_half_written_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job([], tmp_path / "out")

    def kill(*_: object) -> bool:
        job.output.mkdir()
        (job.output / "train-00000-of-00001.parquet").write_text("ha")
        return True

    monkeypatch.setattr(job, "kill", kill)
    with pytest.raises(AssertionError, match=r"train-00000-of-00001\.parquet.* half-written"):
        kill_and_resume(job, {"train-00000-of-00001.parquet": "whole"}, "driver", 0.0)
