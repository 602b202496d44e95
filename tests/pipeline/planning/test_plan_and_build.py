"""A plan of a corpus says what its build then does, writes and leaves."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import transforms.shuffle
import transforms.spill
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.objectives.registry import OBJECTIVES
from tests.pipeline.planning.plans import plan
from tests.tools.jobs import build, read_manifest_json, run_here
from transforms.elements import Segment
from transforms.recovery.journal import Journal


def read_counts(folder: Path) -> dict[str, float]:
    """Return what was built, under the names of a plan."""
    manifest = read_manifest_json(folder)
    counts, splits = manifest["counts"], manifest["splits"].values()
    return {
        "shards": sum(len(split["shards"]) for split in splits),
        "documents": counts["tokenize.documents"],
        "tokens": counts["tokenize.tokens"],
        "examples": counts["build.examples"],
        "rows": counts["write.rows"],
    }


def output_bytes(folder: Path) -> int:
    splits = read_manifest_json(folder)["splits"].values()
    return sum(shard["bytes"] for split in splits for shard in split["shards"])


@pytest.mark.parametrize("objective", OBJECTIVES.names)
def test_what_is_planned_of_a_small_corpus_is_built(
    objective: str, sample: Path, any_tokenizer: Path, tmp_path: Path
) -> None:
    # As many shards as the sample has, since each file has a header and a footer.
    shards = str(getattr(OBJECTIVES[objective](), "duplicates", 1))
    flags = (
        "--input", sample, "--num-shards", shards, "--max-seq-length", "64",
        "--range-bytes", "20000",
    )  # fmt: skip
    planned = plan(objective, any_tokenizer, *flags)
    run_here(objective, "--tokenizer", any_tokenizer, "--output", tmp_path / "out", *flags)
    built = read_counts(tmp_path / "out")
    # The sample is the whole corpus. Documents are cut between shards, streams in other places.
    assert {name: planned["counts"][name] for name in ("shards", "documents", "tokens")} == {
        name: built[name] for name in ("shards", "documents", "tokens")
    }
    assert planned["counts"]["examples"] == pytest.approx(built["examples"], rel=0.02)
    assert planned["counts"]["rows"] == pytest.approx(built["rows"], rel=0.1)
    assert planned["bytes"]["output"] == pytest.approx(output_bytes(tmp_path / "out"), rel=0.05)
    assert planned["counts"]["tasks"] == 3
    assert planned["sample"]["is_of_the_corpus"]


@pytest.mark.parametrize("output_format", FORMATS.names)
def test_every_format_can_be_planned(output_format: str, sample: Path, any_tokenizer: Path) -> None:
    objective = {"ernie-text": "ernie", "megatron": "gpt", "nanogpt": "gpt"}.get(
        output_format, "bert"
    )
    flags = ("--input", sample, "--max-seq-length", "64", "--output-format", output_format)
    numbers = plan(objective, any_tokenizer, *flags)
    assert numbers["bytes"]["output"] > 0
    assert numbers["counts"]["shard_files"] >= numbers["counts"]["shards"]


@pytest.mark.parametrize("shards", [3, 24])
def test_the_work_is_that_of_the_job(
    shards: int, sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 24 shards then need two levels of files, and 3 do not.
    monkeypatch.setattr(transforms.shuffle, "SMALLEST_SEGMENT_BYTES", 4 * 2**20)
    flags = ("--num-shards", str(shards), "--range-bytes", "10000", "--duplicates", "4")
    planned = plan("bert", tokenizer_path, "--input", sample, *flags, "--max-seq-length", "64")
    units, written = Counter[str](), [0]
    once, write = Journal.once, transforms.spill.write_segments

    def count_once(journal: Journal, name: str, *rest: Any) -> Any:
        units[name.partition("-")[0]] += 1
        return once(journal, name, *rest)

    def count_written(ordered: Iterable[Any], folder: str) -> list[Segment]:
        segments = write(ordered, folder)
        written[0] += sum(segment.length for segment in segments)
        return segments

    monkeypatch.setattr(Journal, "once", count_once)
    monkeypatch.setattr(transforms.spill, "write_segments", count_written)
    build([sample], tokenizer_path, tmp_path / "out", *flags)
    counts = planned["counts"]
    assert (counts["tasks"], counts["merges"], counts["shards"]) == (
        units["task"], units["merge"], units["shard"],
    )  # fmt: skip
    assert (counts["merges"] > 0) == (shards == 24)
    # A merge writes its documents to two files, one after the other.
    documents = planned["bytes"]["temporary"] - planned["bytes"]["pool"]
    twice = 1.5 if counts["merges"] else 1.0
    assert documents == pytest.approx(written[0] / twice + planned["bytes"]["pool"], rel=0.25)
