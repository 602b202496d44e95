"""`plan` as a user runs it: any size, which bounds are exceeded, and mistakes."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.planning.plans import plan
from tests.tools.jobs import read_manifest_json, run_here

_DATAFLOW = ("--runner", "DataflowRunner", "--sample-bytes", "100kB")


@pytest.fixture(scope="module")
def large(tokenizer_path: Path) -> dict[str, Any]:
    flags = ("--corpus-bytes", "50TB", "--workers", "8000", *_DATAFLOW)
    return plan("bert", tokenizer_path, *flags)


def find_bound(numbers: dict[str, Any], name: str) -> dict[str, Any]:
    [bound] = [bound for bound in numbers["bounds"] if bound["name"] == name]
    assert bound["is_exceeded"] == (bound["value"] > bound["most"])
    return dict(bound)


def test_a_large_corpus_is_cut_as_the_job_cuts_it(large: dict[str, Any]) -> None:
    # A file of 1 GB has 15 ranges of at most 64 MiB.
    assert large["corpus"]["files"] == 50_000
    assert large["counts"]["tasks"] == large["counts"]["ranges"] == 750_000
    assert large["counts"]["shards"] == 99_999
    assert large["workers"] == 8000
    assert not large["sample"]["is_of_the_corpus"]
    assert not large["exact"]


def test_sizes_and_times_fit_together(large: dict[str, Any]) -> None:
    sizes, seconds = large["bytes"], large["processor_seconds"]
    assert sizes["most_at_once"] == sizes["output"] + sizes["temporary"]
    assert min(seconds.values()) > 0
    assert large["seconds"] >= sum(seconds.values()) / large["workers"]
    assert large["longest_seconds"]["shard"] == pytest.approx(seconds["build"] / 99_999)
    # All files are equally large, and so are their ranges but the last.
    mean = seconds["prepare"] / 750_000
    assert mean <= large["longest_seconds"]["task"] < 1.1 * mean


def test_fatal_bounds_come_first(large: dict[str, Any]) -> None:
    fatal = [bound["is_fatal"] for bound in large["bounds"]]
    assert fatal == sorted(fatal, reverse=True)
    assert find_bound(large, "a shard")["is_exceeded"]
    assert not any(bound["is_exceeded"] for bound in large["bounds"] if bound["is_fatal"])


@pytest.mark.parametrize(
    ("name", "within", "beyond", "cure"),
    [
        ("text built into a shard", "--num-shards 30", "--num-shards 2", "Give --num-shards 3,"),
        ("largest input file", "--file-bytes 1TB", "--file-bytes 2TB", "Split it"),
        ("workers, a task each", "--workers 75", "--workers 76", "Give --workers 75,"),
        ("workers, a shard each", "--num-shards 9 --workers 9", "--num-shards 9 --workers 10",
         "Give --num-shards 10"),
        ("time of a shard", "--num-shards 9999", "--num-shards 3", "more --num-shards"),
    ],
)  # fmt: skip
def test_bounds_of_a_job_elsewhere_have_a_cure(
    name: str, within: str, beyond: str, cure: str, tokenizer_path: Path
) -> None:
    size = "2TB" if name == "largest input file" else "5GB"
    flags = ("--corpus-bytes", size, "--max-seq-length", "64", *_DATAFLOW)
    inside, outside = (
        find_bound(plan("bert", tokenizer_path, *flags, *words.split()), name)
        for words in (within, beyond)
    )
    assert not inside["is_exceeded"]
    assert outside["is_exceeded"]
    assert cure in outside["cure"]


def test_bounds_of_this_machine_have_a_cure(
    tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.planning.planned_build.most_workers", lambda: 3)
    size = ("--sample-bytes", "100kB", "--file-bytes", "1TB")
    files = (*size, "--output", tmp_path / "new" / "out")
    within, beyond = (
        plan("bert", tokenizer_path, "--corpus-bytes", corpus, "--workers", workers, *files)
        for corpus, workers in (("1MB", "3"), ("3PB", "4"))
    )
    free = shutil.disk_usage(tmp_path).free
    for numbers in (within, beyond):
        disk = find_bound(numbers, "files on disk at once")
        assert disk["value"] == numbers["bytes"]["most_at_once"]
        assert disk["most"] == pytest.approx(free, rel=0.2)
        assert f"{tmp_path} has no room" in disk["cure"]
        workers = find_bound(numbers, "workers of this machine")
        assert disk["is_exceeded"] == workers["is_exceeded"] == (numbers is beyond)
        assert "Give --workers 3" in workers["cure"]
    bucket = ("--output", "gs://b/out")
    elsewhere = plan("bert", tokenizer_path, "--corpus-bytes", "3PB", *size, *bucket)
    assert "files on disk at once" not in {bound["name"] for bound in elsewhere["bounds"]}


def test_the_number_of_input_files_is_bounded(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.planning.planned_build.MAX_FILES", 10)
    for number, is_exceeded in ((10, False), (11, True)):
        flags = ("--corpus-bytes", f"{number}GB", *_DATAFLOW)
        bound = find_bound(plan("bert", tokenizer_path, *flags), "input files")
        assert (bound["value"], bound["is_exceeded"]) == (number, is_exceeded)
        assert bound["cure"] == "Join them, or split the corpus into builds"


def test_the_graph_of_a_job_elsewhere_is_bounded(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--corpus-bytes", "1TB", *_DATAFLOW)
    bound = find_bound(plan("bert", tokenizer_path, *flags), "graph of the job")
    assert not bound["is_exceeded"]
    monkeypatch.setattr("pipeline.planning.planned_build.LARGEST_PIPELINE", bound["value"] // 2)
    monkeypatch.setattr("pipeline.runners.proto_checks.LARGEST_PAYLOAD", 10)
    numbers = plan("bert", tokenizer_path, *flags)
    assert find_bound(numbers, "graph of the job")["is_exceeded"]
    refused = [one for one in numbers["bounds"] if one["name"] == "faults for DataflowRunner"]
    assert "the DoFn has" in refused[0]["cure"]


def test_the_table_says_what_would_break(any_tokenizer: Path, sample: Path) -> None:
    flags = ("--tokenizer", any_tokenizer, "--input", sample, "--corpus-bytes", "3PB")
    lines = run_here("plan", "gpt", *flags, "--file-bytes", "100GB").output.splitlines()
    assert lines[0] == "gpt examples of 3.00 PB, 30,000 files"
    assert any(line.startswith("breaks  files on disk at once: ") for line in lines)
    assert any(line.split()[:2] == ["processor", "hours"] for line in lines)
    few = run_here("plan", "gpt", *flags[:4]).output
    assert "No bound is exceeded." in few
    assert "1 file" in few


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
    bound = find_bound(numbers, "time of a task")
    assert bound["is_exceeded"]
    assert "not compressed" in bound["cure"]
    # As much text as there is in the file: its rates are those of a byte as it is stored.
    tokens = plan("gpt", any_tokenizer, "--input", sample)["counts"]["tokens"]
    expected = tokens * 4 * 10**12 / path.stat().st_size
    assert numbers["counts"]["tokens"] == pytest.approx(expected, rel=0.1)


def test_without_an_input_the_text_of_compressed_formats_is_larger_than_their_files(
    any_tokenizer: Path,
) -> None:
    flags = ("--corpus-bytes", "1TB", "--sample-bytes", "100kB")
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
        (("--corpus-bytes", "1TB", "--sample-bytes", "1.1GB"), ("too large", "default")),
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
    run_here("config", "plan", refused=("config plan", "bert, chat, electra"))
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
