"""A plan of a corpus says what its build then does, writes and leaves."""

import csv
import gzip
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from io import BytesIO, StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from corpusmill.formats.shard_formats import FORMATS
from tests.pipeline.planning.plans import plan
from tests.tools.jobs import build, list_text_objectives, read_manifest_json, run_here
from tests.tools.knobs import knobs
from transforms.build import ShardDoFn
from transforms.recovery import Journal
from transforms.shuffle.segments import MergeDoFn


def read_counts(folder: Path) -> dict[str, float]:
    """Return what was built, under the names of a plan."""
    manifest = read_manifest_json(folder)
    counts, splits = manifest["counts"], manifest["splits"].values()
    return {
        "shards": sum(len(split["shards"]) for split in splits),
        "documents": counts["tokenize.documents"],
        "tokens": counts["tokenize.tokens"],
        "rows": counts["write.rows"],
    }


def output_bytes(folder: Path) -> int:
    splits = read_manifest_json(folder)["splits"].values()
    return sum(shard["bytes"] for split in splits for shard in split["shards"])


@pytest.mark.parametrize("objective", list_text_objectives())
def test_what_is_planned_of_a_small_corpus_is_built(
    objective: str, sample: Path, any_tokenizer: Path, tmp_path: Path
) -> None:
    flags = (
        "--input", sample, "--num-shards", "3", "--max-seq-length", "64", "--range-bytes", "20000",
    )  # fmt: skip
    planned = plan(objective, any_tokenizer, *flags)
    run_here(objective, "--tokenizer", any_tokenizer, "--output", tmp_path / "out", *flags)
    built = read_counts(tmp_path / "out")
    # The sample is the whole corpus.
    assert planned["exact"]
    assert {name: planned["counts"][name] for name in built} == built
    assert planned["bytes"]["output"] == output_bytes(tmp_path / "out")
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
    flags = ("--num-shards", str(shards), "--range-bytes", "10000", "--duplicates", "4")
    with knobs(smallest_segment_bytes=4 * 2**20):
        planned = plan("bert", tokenizer_path, "--input", sample, *flags, "--max-seq-length", "64")
    units, once = Counter[str](), Journal.once
    references = Counter[str]()
    process: dict[Any, Any] = {MergeDoFn: MergeDoFn.process, ShardDoFn: ShardDoFn.process}

    def count_once(journal: Journal, name: str, *rest: Any) -> Any:
        units[name.partition("-")[0]] += 1
        return once(journal, name, *rest)

    def count_references(stage: Any, element: Any, *rest: Any) -> Any:
        kind, (key, given) = type(stage), element
        segments = [segment for segment in given if segment.path]
        references[kind.__name__] = max(references[kind.__name__], len(segments))
        return process[kind](stage, (key, segments), *rest)

    monkeypatch.setattr(Journal, "once", count_once)
    for kind in process:
        monkeypatch.setattr(kind, "process", count_references)
    with knobs(smallest_segment_bytes=4 * 2**20):
        build([sample], tokenizer_path, tmp_path / "out", *flags)
    stages = {stage["name"].partition(",")[0]: stage for stage in planned["stages"]}
    for name, unit in {"prepare": "task", "draw pool": "pool", "build shards": "shard"}.items():
        assert stages[name]["calls"] == units[unit]
    assert references["ShardDoFn"] <= stages["build shards"]["references"]
    if shards == 24:
        assert stages["merge documents"]["calls"] == units["merge"]
        assert references["MergeDoFn"] == stages["merge documents"]["references"]
    counts = planned["counts"]
    assert (counts["tasks"], counts["merges"], counts["shards"]) == (
        units["task"], units["merge"], units["shard"],
    )  # fmt: skip
    assert (counts["merges"] > 0) == (shards == 24)


def test_a_part_of_a_corpus_tells_what_all_of_it_makes(
    sample: Path, any_tokenizer: Path, tmp_path: Path
) -> None:
    text = sample.read_text(encoding="utf-8")
    large = tmp_path / "large.txt"
    large.write_text(text * 20, encoding="utf-8")
    flags = (
        "--input", str(large), "--num-shards", "4", "--validation-share", "0.2", "--max-seq-length",
        "64", "--duplicates", "4",
    )  # fmt: skip
    planned = plan("bert", any_tokenizer, *flags, "--sample-bytes", "200kB")
    run_here("bert", "--tokenizer", any_tokenizer, "--output", tmp_path / "out", *flags)
    built = read_counts(tmp_path / "out")
    assert not planned["exact"]
    assert planned["counts"]["shards"] == built["shards"]
    for name in ("documents", "tokens", "rows"):
        assert planned["counts"][name] == pytest.approx(built[name], rel=0.1)
    # Dictionaries of values take more of a sample's few rows, and copies of a text compress well.
    output = output_bytes(tmp_path / "out")
    assert output <= planned["bytes"]["output"] == pytest.approx(output, rel=0.35)


def _write_json(texts: list[str]) -> bytes:
    return json.dumps([{"text": text, "id": "9" * len(text)} for text in texts]).encode()


def _write_json_lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def _write_csv(texts: list[str]) -> bytes:
    sink = StringIO()
    csv.writer(sink).writerows([["text"], *([text] for text in texts)])
    return sink.getvalue().encode()


def _write_tar(texts: list[str]) -> bytes:
    sink = BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = len(text)
            archive.addfile(member, BytesIO(text.encode()))
    return sink.getvalue()


def _write_wet(texts: list[str]) -> bytes:
    header = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: "
    pages = (f"{header}{len(text)}\r\n\r\n{text}\r\n\r\n" for text in texts)
    return "".join(pages).encode()


@pytest.mark.parametrize(
    ("size", "compress"),
    [(3 * 10**2, bytes), (3 * 10**5, gzip.compress)],
    ids=["pages", "compressed books"],
)
@pytest.mark.parametrize(
    ("write", "input_format"),
    [
        (_write_json, "json"), (_write_json_lines, "json-lines"), (_write_csv, "csv"),
        (_write_tar, "tar"), (_write_wet, "wet"),
    ],
)  # fmt: skip
def test_a_part_of_a_file_of_records_tells_what_all_of_it_makes(
    write: Callable[[list[str]], bytes],
    input_format: str,
    compress: Callable[[bytes], bytes],
    size: int,
    any_tokenizer: Path,
    tmp_path: Path,
) -> None:
    number = 3 * 10**6 // size
    draw = Random(1)  # noqa: S311  not for secrets
    texts = [
        "\n".join(f"{draw.getrandbits(180):x}" for _ in range(size // 45)) for _ in range(number)
    ]
    path = tmp_path / "corpus"
    path.write_bytes(compress(write(texts)))
    flags = ("--input", str(path), "--input-format", input_format, "--duplicates", "1")
    planned = plan("bert", any_tokenizer, *flags, "--sample-bytes", "200kB")
    assert not planned["exact"]
    assert planned["counts"]["documents"] == pytest.approx(number, rel=0.2)


@pytest.mark.parametrize("flags", [(), ("--drop-duplicates",), ("--validation-share", "0.2")])
def test_inspect_corpus_says_the_same(
    flags: tuple[str, ...], sample: Path, any_tokenizer: Path, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.json"
    corpus = ("--input", str(sample), "--num-shards", "3", *flags)
    planned = plan("bert", any_tokenizer, *corpus)
    tokenizer = ("--tokenizer", any_tokenizer)
    run_here("inspect-corpus", *corpus, *tokenizer, "--json", path, "bert")
    inspected = json.loads(path.read_text())["build"]
    splits = inspected["splits"].values()
    near = 0.0 if planned["exact"] else 0.1
    for name, value in (("rows", planned["counts"]["rows"]), ("bytes", planned["bytes"]["output"])):
        assert value == pytest.approx(sum(split[name]["value"] for split in splits), rel=near)
    assert planned["counts"]["shards"] == sum(split["shards"] for split in splits)
    temporary = inspected["temporary_bytes"]
    assert planned["bytes"]["temporary"] == pytest.approx(temporary, rel=0.05)
    assert inspected["processor_seconds"].keys() == planned["processor_seconds"].keys()
    assert planned["exact"] == ("--validation-share" not in flags)
