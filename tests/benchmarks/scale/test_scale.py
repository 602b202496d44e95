"""The estimated work of a job is the counted work of a job of that size."""

from pathlib import Path

import pytest

import transforms.shuffle
from benchmarks.scale import model
from benchmarks.scale.__main__ import find_problems
from benchmarks.scale.counted_run import Counted, count_run, prepare_build
from benchmarks.scale.model import Scale, compute_rates, occupied
from benchmarks.scale.planning import plan_size
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
    build = prepare_build(
        BertOptions(duplicates=4),
        str(tokenizer),
        num_shards=shards,
        run=RunOptions(range_bytes=100_000, workers=1),
    )
    return count_run(build, [str(corpus)], output)


@pytest.mark.parametrize("shards", [3, 24])
def test_a_job_does_what_was_estimated(
    corpus: Path, tokenizer_path: Path, tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 24 shards then need two levels of files, and 3 do not.
    monkeypatch.setattr(transforms.shuffle, "SMALLEST_SEGMENT_BYTES", 4 * 2**20)
    # The rates come from a job with another number of shards.
    rates = compute_rates(run(corpus, tokenizer_path, tmp_path / "other", 5))
    counted = run(corpus, tokenizer_path, tmp_path / "out", shards)
    scale = Scale(counted.job, rates)
    two_levels = shards == 24
    assert counted.job.routes.two_levels == two_levels
    assert counted.job.plan.tasks == counted.count_elements("ListTasks.None") >= _TASKS
    assert counted.count_elements("GatherMerges.None") == scale.merges
    merged = scale.first_segments if two_levels else scale.first_segments * scale.builders
    assert counted.count_elements("_PrepareTask).None") == pytest.approx(merged, rel=0.02)
    assert counted.count_elements("JoinSegments.None") == pytest.approx(
        scale.shard_references, rel=0.02
    )
    assert counted.count_elements(".candidates") == pytest.approx(scale.candidates)
    assert counted.count_elements("_BuildShard).None") == shards * scale.files_a_shard
    assert counted.counts["tokenize.documents"] == pytest.approx(scale.documents)
    assert counted.counts["build.examples"] == pytest.approx(scale.examples)
    assert sum(part.length for part in counted.spilled) == pytest.approx(
        scale.file_bytes_written, rel=0.02
    )
    # Besides these a run opens and writes a dozen files, whatever its size.
    joined = scale.segments if two_levels else 0  # of a merge's own spills
    assert -1 <= counted.calls["open"] - scale.opens - joined <= 24
    assert -1 <= counted.calls["create"] - scale.creates - scale.merges <= 16
    assert 0 <= counted.calls["rename"] - scale.shard_files <= 6


def test_a_size_is_planned_by_the_code_itself(
    corpus: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    rates = compute_rates(run(corpus, tokenizer_path, tmp_path / "out", 3))
    build = prepare_build(BertOptions(), str(tokenizer_path), run=RunOptions(workers=1000))
    small = plan_size(build, rates, 10**10, 10**9)
    large = plan_size(build, rates, 5 * 10**12, 10**11)
    assert small.scale.job.plan.ranges * 2**26 >= 10**10
    assert large.scale.job.layout.shards == 99_999
    assert any("names allow no more shards" in sentence for sentence in find_problems(large))
    # The graph does not grow, and neither do a merge and the values of a key.
    assert large.graph_bytes == pytest.approx(small.graph_bytes, rel=0.05)
    assert large.scale.merge_bytes < 2 * transforms.shuffle.MERGE_BYTES
    assert not any("Flink carries" in sentence for sentence in find_problems(large))


def test_buckets_that_get_a_document() -> None:
    assert occupied(1, 7) == 1
    assert occupied(100, 100) == pytest.approx(63.4, abs=0.01)
    assert occupied(10, 10_000) == pytest.approx(10)
    assert model._files(33, 32) == 2
