"""What a build takes, of a corpus and of one whose size alone is named."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from corpusmill.objectives.bert import BertOptions
from pipeline.assembly import cut_tasks
from pipeline.job_options import BuildOptions, CorpusOptions
from pipeline.jobs import build_work
from pipeline.jobs.build_work import Timing, _count_tasks
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.preparation import prepare
from pipeline.recipe.recipe import Recipe
from tests.tools.jobs import build, run_here


def measure(corpus: Path, tokenizer: Path, *flags: str) -> dict[str, Any]:
    """Return the numbers of a corpus."""
    path = corpus.parent / "numbers.json"
    words = ("--input", corpus, "--tokenizer", tokenizer, "--json", path, "--max-seq-length", "64")
    run_here("inspect-corpus", *words, *flags)
    numbers: dict[str, Any] = json.loads(path.read_text())
    return numbers


@pytest.fixture
def corpus(sample: Path, tmp_path: Path) -> Path:
    """A folder with the sample."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "text.txt").write_bytes(sample.read_bytes())
    return folder


def test_a_named_corpus_is_cut_as_the_job_cuts_it(corpus: Path, tokenizer_path: Path) -> None:
    numbers = measure(corpus, tokenizer_path, "--scale-to", "50TB", "--workers", "8000")
    work, [split] = numbers["work"], numbers["build"]["splits"].values()
    # A file of 1 GB has 15 ranges of at most 64 MiB.
    assert work["tasks"] == 750_000
    assert work["shards"] == 99_999
    assert work["workers"] == 8000
    times = 50 * 10**12 / numbers["corpus"]["bytes"]
    assert work["bytes"] == pytest.approx(times * split["bytes"]["value"])
    seconds = work["processor_seconds"]
    assert min(seconds.values()) > 0
    assert work["seconds"] == pytest.approx(sum(seconds.values()) / 8000, rel=0.05)


def test_a_compressed_file_is_one_task(corpus: Path, tokenizer_path: Path) -> None:
    path = corpus / "text.txt"
    path.with_suffix(".txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    work = measure(corpus, tokenizer_path, "--scale-to", "1.5TB")["work"]
    assert work["tasks"] == 1500


def test_a_part_of_a_corpus_tells_what_all_of_it_takes(
    corpus: Path, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large" / "text.txt"
    large.parent.mkdir()
    lines, draw = [line.split(" ") for line in sample.read_text().split("\n")], Random(0)  # noqa: S311
    with large.open("w") as file:
        # Copies with the same order of words would compress far better than a corpus does.
        for _ in range(20):
            shuffled = [line if "=" in line else draw.sample(line, len(line)) for line in lines]
            file.write("\n".join(map(" ".join, shuffled)))
    flags = ("--num-shards", "4", "--validation-share", "0.2", "--duplicates", "4")
    scaled = measure(corpus, tokenizer_path, *flags, "--scale-to", str(large.stat().st_size))
    whole = measure(large, tokenizer_path, *flags)
    build([large], tokenizer_path, tmp_path / "out", *flags, "--max-seq-length", "64")
    work, built = whole["work"], tmp_path / "out"
    for name in ("corpus_bytes", "tasks", "shards", "workers"):
        assert scaled["work"][name] == work[name]
    assert scaled["work"]["temporary_bytes"] == pytest.approx(work["temporary_bytes"], rel=0.1)
    # Dictionaries of values take more of a sample's few rows.
    assert work["bytes"] <= scaled["work"]["bytes"] == pytest.approx(work["bytes"], rel=0.35)
    sizes = [path.stat().st_size for path in built.glob("v1/*.parquet")]
    assert work["shards"] == len(sizes)
    assert work["bytes"] == pytest.approx(sum(sizes), rel=0.01)


@pytest.mark.parametrize("flags", [(), ("--drop-near-duplicates", "--drop-duplicates")])
def test_documents_that_are_dropped_are_read_in_the_time_that_is_told(
    flags: tuple[str, ...], sample: Path, tokenizer_path: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    corpus = tmp_path / "copies.txt"
    corpus.write_bytes(sample.read_bytes() * 3)
    time_preparation = build_work.time_preparation

    def take_long(*job: Any) -> Timing:
        return time_preparation(*job)._replace(read=100.0, spill=0.0)

    monkeypatch.setattr(build_work, "time_preparation", take_long)
    work = measure(corpus, tokenizer_path, *flags)["work"]
    assert work["processor_seconds"]["prepare"] == pytest.approx(100)


def test_the_report_ends_with_the_work(corpus: Path, tokenizer_path: Path) -> None:
    flags = ("--input", corpus, "--tokenizer", tokenizer_path, "--scale-to", "5TB")
    lines = run_here("inspect-corpus", *flags, "--workers", "200").output.splitlines()
    last = lines[lines.index("what a build takes") + 1 :]
    assert [line.split("  ")[1] for line in last] == [
        "corpus bytes", "tasks", "shards", "bytes", "temporary bytes", "processor time", "duration",
    ]  # fmt: skip
    assert "with 200 workers" in last[-1]
    assert " h  about" in last[-1]


@pytest.fixture(scope="module")
def recipe(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    dataset = CorpusOptions(input=(str(sample),), tokenizer=str(tokenizer_path))
    options = BuildOptions(dataset=dataset, objective=BertOptions())
    return prepare(options, str(tmp_path_factory.mktemp("recipe")), Console(quiet=True))


@settings(deadline=None)
@given(
    size=st.integers(1, 10**6),
    number=st.integers(1, 30),
    range_bytes=st.integers(10_000, 300_000),
    name=st.sampled_from(["part.txt", "part.txt.gz"]),
)
def test_tasks_of_equal_files_are_counted_as_if_all_were_cut(
    recipe: Recipe, size: int, number: int, range_bytes: int, name: str
) -> None:
    corpus = replace(recipe, files=[InputFile(name, size, name)] * number)
    tasks = list(cut_tasks(corpus, range_bytes))
    assert _count_tasks(corpus, range_bytes) == (len(tasks), sum(map(len, tasks)))
