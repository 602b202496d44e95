"""What the sheet reckons for a job is what a job of that size is counted to do."""

from pathlib import Path

import pytest

import transforms.shuffle
from benchmarks.scale import model as scale_model
from benchmarks.scale.__main__ import find_breaks, plan_size
from benchmarks.scale.counted_run import Counted, count_run, prepare_build
from benchmarks.scale.model import Scale, occupied, rates_of
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.objectives.bert import BertOptions
from pipeline.options import RunOptions

_TASKS = 6


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "synthetic.txt"
    write_corpus(path, 600_000)
    return path


def run(corpus: Path, tokenizer: Path, output: Path, shards: int) -> Counted:
    of = prepare_build(
        BertOptions(duplicates=4),
        str(tokenizer),
        num_shards=shards,
        run=RunOptions(range_bytes=100_000, workers=1),
    )
    return count_run(of, [str(corpus)], output)


def elements(counted: Counted, name: str) -> int:
    return sum(number for key, number in counted.elements.items() if key.endswith(name))


@pytest.mark.parametrize("shards", [3, 24])
def test_a_job_does_what_is_reckoned(
    corpus: Path, tokenizer_path: Path, tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few groups that 24 shards need two levels of files, and 3 do not.
    monkeypatch.setattr(transforms.shuffle, "SMALLEST_SEGMENT_BYTES", 4 * 2**20)
    # The rates are those of a job of another number of shards.
    rates = rates_of(run(corpus, tokenizer_path, tmp_path / "other", 5))
    counted = run(corpus, tokenizer_path, tmp_path / "out", shards)
    scale = Scale(counted.job, rates)
    two_levels = shards == 24
    assert counted.job.routes.two_levels == two_levels
    assert counted.job.plan.tasks == elements(counted, "ListTasks.None") >= _TASKS
    assert elements(counted, "GatherMerges.None") == (scale.merges if two_levels else 0)
    merged = scale.first_segments if two_levels else scale.first_segments * scale.builders
    assert elements(counted, "_PrepareTask).None") == pytest.approx(merged, rel=0.02)
    assert elements(counted, "JoinSegments.None") == pytest.approx(scale.shard_references, rel=0.02)
    assert elements(counted, ".candidates") == pytest.approx(scale.candidates)
    assert elements(counted, "_BuildShard).None") == shards * scale.files_a_shard
    assert counted.counts["tokenize.documents"] == pytest.approx(scale.documents)
    assert counted.counts["build.examples"] == pytest.approx(scale.examples)
    assert sum(part.length for part in counted.spilled) == pytest.approx(
        scale.file_bytes_written, rel=0.02
    )
    # Beside these a run opens and writes a dozen files, whatever its size.
    joined = scale.segments if two_levels else 0  # of a merge's own spills
    assert -1 <= counted.calls["open"] - scale.opens - joined <= 24
    assert -1 <= counted.calls["create"] - scale.creates - (scale.merges if two_levels else 0) <= 16
    assert 0 <= counted.calls["rename"] - scale.renames <= 6


def test_a_size_is_planned_by_the_code_itself(
    corpus: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    rates = rates_of(run(corpus, tokenizer_path, tmp_path / "out", 3))
    of = prepare_build(BertOptions(), str(tokenizer_path), run=RunOptions(workers=1000))
    small = plan_size(of, rates, 10**10, 10**9)
    large = plan_size(of, rates, 5 * 10**12, 10**11)
    assert small.scale.job.plan.ranges * 2**26 >= 10**10
    assert large.scale.job.layout.shards == 99_999
    assert any("as many as names allow" in sentence for sentence in find_breaks(large))
    # The graph is of one size, and so are a merge and what Flink brings together for a key.
    assert large.graph_bytes == pytest.approx(small.graph_bytes, rel=0.05)
    assert large.scale.merge_bytes < 2 * transforms.shuffle.MERGE_BYTES
    assert not any("Flink bears" in sentence for sentence in find_breaks(large))


def test_buckets_that_get_a_document() -> None:
    assert occupied(1, 7) == 1
    assert occupied(100, 100) == pytest.approx(63.4, abs=0.01)
    assert occupied(10, 10_000) == pytest.approx(10)
    assert scale_model._files(33, 32) == 2
