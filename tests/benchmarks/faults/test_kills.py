"""`benchmarks.faults.kills` with one moment; `make test-kills` takes twenty."""

import time
from pathlib import Path

import pytest

from benchmarks.faults.kills import Job, kill_and_resume


def test_a_killed_job_resumes_to_the_same_bytes(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ["--num-shards", "4", "--max-seq-length", "64", "--duplicates", "2"]
    flags += ["--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "20000"]
    command = ["bert", "--input", str(sample), "--tokenizer", str(tokenizer_path), *flags]
    job = Job(command, tmp_path / "out")
    began = time.perf_counter()
    job.run()
    seconds, expected = 0.8 * (time.perf_counter() - began), job.digests()
    # The machine can be faster now than it was.
    while not kill_and_resume(job, expected, "worker", seconds):
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
