"""What a job on Dataflow moves, beside the counters of real local runs, and its price."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale.counted_run import Build, Counted, count_run, prepare_build
from benchmarks.scale.dataflow_cost import (
    Pace,
    Prices,
    Volumes,
    billed_shuffle_gb,
    estimate,
    price,
)
from benchmarks.scale.model import Rates, Scale, compute_rates
from benchmarks.scale.planning import Planned, plan_size
from corpusmill.objectives.bert import BertOptions
from pipeline.options import RunOptions

_OPTIONS = BertOptions(duplicates=4, max_seq_length=64)
_VOLUMES = Volumes(
    text=1e12, elements=1e8, shuffled=1e10, temporary=1e12, fetched=3e12, small_reads=1e8,
    puts=1e6, gets=1e8,
)  # fmt: skip


@pytest.fixture(scope="module")
def build(tokenizer_path: Path) -> Build:
    return prepare_build(_OPTIONS, str(tokenizer_path), run=RunOptions(range_bytes=10_000))


@pytest.fixture(scope="module")
def counted(build: Build, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    return count_run(build, [str(sample)], tmp_path_factory.mktemp("rates") / "out")


@pytest.fixture(scope="module")
def rates(counted: Counted) -> Rates:
    return compute_rates(counted)


@pytest.mark.parametrize("shards", [3, 200])
def test_volumes_are_those_of_a_real_run(
    shards: int, build: Build, rates: Rates, sample: Path, tmp_path: Path
) -> None:
    counted = count_run(replace(build, num_shards=shards), [str(sample)], tmp_path / "out")
    scale = Scale(counted.job, rates)
    volumes = estimate(Planned(scale, 1, 0, 0, 0))
    assert scale.builders == min(4, shards)
    assert counted.job.layout.shards == shards
    written = volumes.temporary - scale.output_bytes - 2 * scale.pool_bytes
    spilled = sum(segment.length for segment in counted.spilled)
    assert written == pytest.approx(spilled, rel=0.1)
    to_shards = counted.count_elements("JoinSegments.None")
    to_merges = counted.count_elements("_PrepareTask).None") if scale.merges else 0
    references, units = to_shards + to_merges, counted.job.plan.tasks + shards
    assert volumes.elements == pytest.approx(references + units, rel=0.2)
    candidates = 2 * counted.count_elements(".candidates")
    assert volumes.small_reads == pytest.approx(references - shards + candidates, rel=0.2)


def test_output_grows_with_the_text(
    build: Build, counted: Counted, rates: Rates, sample: Path
) -> None:
    size = sample.stat().st_size
    assert round(rates.tokens * size) == 17489
    splits = counted.manifest["splits"].values()
    written = sum(shard["bytes"] for split in splits for shard in split["shards"])
    larger = plan_size(build, rates, 10 * size, size)
    assert larger.scale.output_bytes == pytest.approx(10 * written)


def test_shuffled_data_are_billed_in_steps() -> None:
    assert billed_shuffle_gb(100) == 25
    assert billed_shuffle_gb(250 + 4870) == pytest.approx(62.5 + 2435)
    assert billed_shuffle_gb(6120) - billed_shuffle_gb(5120) == 1000


def test_prices_multiply_volumes() -> None:
    pace = Pace(cpu_seconds=1e-7, request_seconds=0, element_seconds=0)
    sheet = price(_VOLUMES, pace, Prices(vcpu_hour=1.0))
    assert sheet.vcpu_hours == pytest.approx(1e5 / 3600)
    assert sheet.dollars["vCPU"] == sheet.vcpu_hours
    more = price(_VOLUMES, pace, Prices(put_thousand=0.01, get_thousand=0.0008))
    assert more.dollars["requests"] == pytest.approx(2 * sheet.dollars["requests"])
