"""The cost sheet beside the counters of real local runs."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.dataflow_cost import Pace, Prices, billed_shuffle_gb, price
from benchmarks.scale.dataflow_volumes import Ratios, estimate, read_ratios
from tests.tools.jobs import run_here
from transforms import commit

RANGE_BYTES = 10_000


@dataclass
class Counted:
    """What a run did."""

    manifest: dict[str, Any]
    spilled: int
    segments: dict[str, int]
    units: dict[str, int]

    def reads(self, copies: int) -> int:
        """Reads of segments: once by merges, as often as there are copies by shards."""
        merged = self.segments.get("merge", 0)
        tasks = self.segments["task"]
        return tasks + merged * copies if merged else tasks * copies


def run(
    sample: Path, tokenizer: Path, folder: Path, patch: pytest.MonkeyPatch, *flags: str
) -> Counted:
    """A real run whose temporary files are kept."""
    patch.setattr(commit, "remove_folder", lambda _: None)
    patch.setattr("pipeline.preparation.run_folder.remove_folder", lambda _: None)
    outcome = run_here(
        "bert", "--input", sample, "--tokenizer", tokenizer, "--output", folder / "out",
        "--temp-location", folder / "temp", "--duplicates", "4", "--max-seq-length", "64",
        "--range-bytes", str(RANGE_BYTES), *flags,
    )  # fmt: skip
    assert outcome.status == 0, outcome.errors
    segments: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for entry in (folder / "temp").rglob("done-*.json"):
        kind = entry.name.split("-")[1]
        units[kind] += 1
        outputs = json.loads(entry.read_text())["outputs"]
        segments[kind] += sum(name == "Segment" for _, name, _ in outputs)
    manifest = json.loads((folder / "out" / "dataset.json").read_text())
    spilled = sum(path.stat().st_size for path in (folder / "temp").rglob("spill-*"))
    return Counted(manifest, spilled, segments, units)


@pytest.fixture(scope="module")
def ratios(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Ratios:
    """Of another run than those that are compared."""
    with pytest.MonkeyPatch.context() as patch:
        counted = run(sample, tokenizer_path, tmp_path_factory.mktemp("ratios"), patch)
    return read_ratios(counted.manifest)


@pytest.mark.parametrize("shards", [3, 200])
def test_the_sheet_says_what_files_take(
    shards: int, ratios: Ratios, sample: Path, tokenizer_path: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    counted = run(sample, tokenizer_path, tmp_path, monkeypatch, "--num-shards", str(shards))
    size = sample.stat().st_size
    said = estimate(ratios, size, shards=shards, tasks=counted.units["task"])
    assert said.copies == min(4, shards)
    assert said.shards == counted.units["shard"]
    written = said.temporary - said.written - 2 * ratios.token_bytes * ratios.tokens * size
    assert written == pytest.approx(counted.spilled, rel=0.1)
    assert said.small_reads == pytest.approx(counted.reads(said.copies) + said.tasks, rel=0.2)


def test_what_is_written_is_what_was_measured(ratios: Ratios, sample: Path) -> None:
    size = sample.stat().st_size
    tokens = ratios.tokens * size
    assert round(tokens) == 17489
    assert estimate(ratios, 10 * size).written == round(10 * ratios.output * size)


def test_shuffled_data_are_billed_in_steps() -> None:
    assert billed_shuffle_gb(100) == 25
    assert billed_shuffle_gb(250 + 4870) == pytest.approx(62.5 + 2435)
    assert billed_shuffle_gb(6120) - billed_shuffle_gb(5120) == 1000


def test_prices_are_what_they_are_multiplied_with(ratios: Ratios) -> None:
    volumes = estimate(ratios, 10**12)
    pace = Pace(cpu_seconds=1e-7, request_seconds=0, element_seconds=0)
    sheet = price(volumes, pace, Prices(vcpu_hour=1.0))
    assert sheet.vcpu_hours == pytest.approx(1e5 / 3600)
    assert sheet.dollars["vCPU"] == sheet.vcpu_hours
    twice = price(volumes, pace, Prices(put_thousand=0.01, get_thousand=0.0008))
    assert twice.dollars["requests"] == pytest.approx(2 * sheet.dollars["requests"])
