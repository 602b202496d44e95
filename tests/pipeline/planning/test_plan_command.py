"""`plan` as a user runs it: any size, what would break, and mistakes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.planning.costs import billed_shuffle_gb
from tests.pipeline.planning.plans import plan
from tests.tools.jobs import read_manifest_json, run_here

_DATAFLOW = ("--runner", "DataflowRunner", "--sample-bytes", "200kB")


@pytest.fixture(scope="module")
def large(tokenizer_path: Path) -> dict[str, Any]:
    flags = ("--corpus-bytes", "50TB", "--workers", "8000", "--memory-per-vcpu", "0.5", *_DATAFLOW)
    return plan("bert", tokenizer_path, *flags)


def test_a_large_corpus_is_cut_as_the_job_cuts_it(large: dict[str, Any]) -> None:
    # A file of 1 GB has 15 ranges of at most 64 MiB.
    assert large["corpus"]["files"] == 50_000
    assert large["counts"]["tasks"] == large["counts"]["ranges"] == 750_000
    assert large["counts"]["shards"] == 99_999
    assert large["workers"] == 8000
    assert not large["sample"]["is_of_the_corpus"]


def test_what_would_break_has_a_cause_and_a_cure(large: dict[str, Any]) -> None:
    problems = {problem["what"]: problem for problem in large["problems"]}

    def find(text: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = [one for what, one in problems.items() if text in what]
        assert len(found) == 1
        return found[0]

    memory = find("memory of a worker: ")
    assert memory["is_fatal"]
    assert memory["what"].endswith("and the limit is 500 MB")
    assert "more memory" in memory["cure"]
    assert "several builds" in find("names allow 99,999 shards")["cure"]
    assert "quota" in find("machines: 2,000, and the limit is 1,000")["cure"]
    exceeded = [limit["name"] for limit in large["limits"] if limit["value"] > limit["most"]]
    assert {"memory of a worker", "machines"} <= {*exceeded}
    # What would break comes first.
    fatal = [problem["is_fatal"] for problem in large["problems"]]
    assert fatal == sorted(fatal, reverse=True)


def test_no_step_is_one_workers_for_long(large: dict[str, Any]) -> None:
    serial = {
        step["name"]: step["longest_seconds"] for step in large["steps"] if step["units"] == 1
    }
    assert serial.keys() == {"list tasks", "write pool", "decide", "finish"}
    assert max(serial.values()) < 120
    joins = {step["name"] for step in large["steps"]} - serial.keys()
    assert {
        "join candidates",
        "join rejects",
        "list shards",
        "move shards",
        "remove temporary files",
    } < joins


def test_the_duration_is_the_sum_of_the_steps(large: dict[str, Any]) -> None:
    steps = large["steps"]
    seconds = large["start_seconds"] + sum(step["seconds"] for step in steps)
    assert large["duration_seconds"] == pytest.approx(seconds)
    assert large["billed_hours"] == pytest.approx(8000 * seconds / 3600)
    longest = max(steps, key=lambda step: step["longest_seconds"])
    assert large["bottleneck"] == longest["name"]
    for step in steps:
        assert step["seconds"] >= step["longest_seconds"]
        if step["units"] == 1:
            assert step["seconds"] == pytest.approx(step["longest_seconds"])


def test_prices_and_speeds_are_options(large: dict[str, Any], any_tokenizer: Path) -> None:
    dollars = large["dollars"]
    assert dollars["processors"] == pytest.approx(large["billed_hours"] * 0.056)
    assert dollars["total"] == pytest.approx(sum(dollars.values()) - dollars["total"])
    free = [
        word
        for name in ("vcpu", "memory", "disk", "shuffle", "write", "read", "storage")
        for word in (f"--{name}-price", "0")
    ]
    numbers = plan("gpt", any_tokenizer, "--corpus-bytes", "1TB", *_DATAFLOW, *free)
    assert numbers["dollars"]["total"] == 0


def test_shuffled_data_are_billed_in_steps() -> None:
    assert billed_shuffle_gb(100) == 25
    assert billed_shuffle_gb(250 + 4870) == pytest.approx(62.5 + 2435)
    assert billed_shuffle_gb(6120) - billed_shuffle_gb(5120) == 1000


def test_a_report_has_at_most_100_columns(any_tokenizer: Path, sample: Path) -> None:
    flags = ("--tokenizer", any_tokenizer, "--input", sample, "--corpus-bytes", "3PB")
    lines = run_here("plan", "gpt", *flags, "--workers", "12345").output.splitlines()
    assert max(map(len, lines)) <= 100
    assert "gpt examples of 3.00 PB" in lines
    assert any(line.startswith("breaks ") for line in lines)
    assert any("list prices in us-central1 of 2025-06-01" in line for line in lines)


def test_compressed_files_are_one_task_each(
    sample: Path, any_tokenizer: Path, tmp_path: Path
) -> None:
    path = tmp_path / "part.txt.gz"
    path.write_bytes(gzip.compress(sample.read_bytes() * 4))
    flags = (
        "--input",
        path,
        "--corpus-bytes",
        "1TB",
        "--sample-bytes",
        "100kB",
        "--file-bytes",
        "50GB",
    )
    numbers = plan("gpt", any_tokenizer, *flags, "--runner", "DataflowRunner")
    assert numbers["counts"]["tasks"] == numbers["corpus"]["files"] == 20
    [problem] = [one for one in numbers["problems"] if "read and tokenize" in one["what"]]
    assert "decompress it" in problem["cure"]
    # As much text as there is in the file: its rates are those of a byte as it is stored.
    tokens = plan("gpt", any_tokenizer, "--input", sample)["counts"]["tokens"]
    expected = tokens * 4 * 10**12 / path.stat().st_size
    assert numbers["counts"]["tokens"] == pytest.approx(expected, rel=0.1)


def test_without_an_input_the_text_of_compressed_formats_is_larger_than_their_files(
    any_tokenizer: Path,
) -> None:
    flags = ("--corpus-bytes", "1TB", "--sample-bytes", "200kB")
    plain, parquet = (
        plan("gpt", any_tokenizer, *flags, *formats)
        for formats in ((), ("--input-format", "parquet"))
    )
    assert parquet["counts"]["tokens"] == pytest.approx(4 * plain["counts"]["tokens"], rel=1e-6)
    assert parquet["corpus"]["input_format"] == "parquet"
    assert "4 times as large" in parquet["sample"]["text"]
    # The topics of the text are documents, also where titles separate them.
    assert plain["counts"]["documents"] > 10**12 / 200_000 * 30


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ((), ("--corpus-bytes", "nothing tells the size", "--input")),
        (("--corpus-bytes", "5 XB"), ("--corpus-bytes 5 XB", "not one of the units", "5TB")),
        (("--corpus-bytes", "1TB", "--file-bytes", "1B"), ("files", "larger --file-bytes")),
        (("--corpus-bytes", "1TB", "--sample-bytes", "9"), ("too small", "default")),
        (("--corpus-bytes", "1TB", "--vcpu-speed", "0"), ("--vcpu-speed 0", "more than 0")),
        (("--corpus-bytes", "1TB", "--document-rule", "whole-file"), ("whole-file", "--input")),
    ],
)
def test_mistakes_are_refused(
    flags: tuple[str, ...], parts: tuple[str, ...], tokenizer_path: Path
) -> None:
    run_here("plan", "bert", "--tokenizer", tokenizer_path, *flags, refused=parts)


def test_the_options_of_a_build_are_those_of_its_plan(
    any_tokenizer: Path, sample: Path, tmp_path: Path
) -> None:
    path = tmp_path / "build.yaml"
    lines = (
        f"input: {sample}", f"tokenizer: {any_tokenizer}", f"output: {tmp_path / 'out'}",
        "preset: roberta", "max_seq_length: 64", "strict: true", "seed: 3",
    )  # fmt: skip
    path.write_text("\n".join(lines))
    output = run_here("plan", "bert", "--config", path, "--num-shards", "7", "--json").output
    numbers = json.loads(output)
    assert numbers["counts"]["shards"] == 7
    assert numbers["objective"]["options"]["segments"] == "full-sentences"
    assert numbers["objective"]["options"]["max_seq_length"] == 64
    assert not (tmp_path / "out").exists()


def test_sources_are_planned_as_they_are_built(
    any_tokenizer: Path, sample: Path, tmp_path: Path
) -> None:
    text = sample.read_text(encoding="utf-8")
    (tmp_path / "web.txt").write_text(text + text, encoding="utf-8")
    sources = (f"books={sample}@3", f"web={tmp_path / 'web.txt'}@0.5")
    flags = ("--source", *sources, "--num-shards", "6", "--duplicates", "1", "--seed", "1")
    planned = plan("bert", any_tokenizer, *flags, "--max-seq-length", "64")
    build = ("--tokenizer", any_tokenizer, "--output", tmp_path / "out", "--max-seq-length", "64")
    run_here("bert", *flags, *build)
    built = read_manifest_json(tmp_path / "out")
    assert planned["counts"]["shards"] == len(built["splits"]["train"]["shards"])
    assert planned["counts"]["tokens"] == pytest.approx(built["counts"]["tokenize.tokens"], rel=0.1)
    assert planned["counts"]["rows"] == pytest.approx(built["counts"]["write.rows"], rel=0.1)
    mistake = (*flags, "--corpus-bytes", "1TB", "--tokenizer", any_tokenizer)
    run_here("plan", "bert", *mistake, refused=("--source --corpus-bytes", "Give one"))


def test_an_objective_is_named() -> None:
    run_here("config", "plan", refused=("config plan", "bert, electra"))
    run_here("plan", "birt", refused=("birt: there is no such command", "Did you mean bert?"))
    assert "electra" in run_here("plan", "--help").output
    text = run_here("plan", "bert", "--help").output
    assert "--duplicates" in text
    assert "--corpus-bytes" in text


def test_a_plan_leaves_no_temporary_folder(
    tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan("bert", tokenizer_path, "--corpus-bytes", "5TB", *_DATAFLOW)
    assert list(tmp_path.iterdir()) == []
