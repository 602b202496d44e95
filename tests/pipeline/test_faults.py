"""Bad records, files and folders: one message, a status, and nothing half-written."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import digests_by_version
from tests.tools.jobs import build, digests, leftovers, read_manifest_json
from tests.tools.table_rows import for_rows


def rows(output: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in output.glob("v1/*.parquet"))


def rejects(output: Path) -> list[dict[str, object]]:
    lines = (output / "v1" / "rejects" / "rejects.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


# Records that are bad


def test_undecodable_bytes_become_rejects(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() + b"\n\nThis \xff is not text .\nThis is .\n")
    build([text], tokenizer_path, output, "--range-bytes", "9000")
    [reject] = rejects(output)
    assert (reject["file"], reject["reason"]) == ("text", "invalid-utf-8")
    assert reject["offset"] == sample.stat().st_size + 2
    manifest = read_manifest_json(output)
    assert manifest["counts"]["read.rejects"] == 1
    assert "v1/rejects/rejects.jsonl" in {entry["file"] for entry in manifest["files"]}


def test_a_truncated_file_is_used_up_to_the_damage(
    tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    lines = [f"Line {number} is about {number * number} .\n\n" for number in range(9000)]
    whole = gzip.compress("".join(lines).encode())
    damaged = tmp_path / "text.gz"
    damaged.write_bytes(whole[: len(whole) * 3 // 4])
    build([damaged], tokenizer_path, output)
    [reject] = rejects(output)
    assert (reject["file"], reject["reason"]) == (damaged.name, "damaged-compression")
    assert rows(output) > 4000


def test_a_fault_that_a_stage_finds_shows_no_trace(
    tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    (tmp_path / "text").write_bytes(b"Fine .\n\xff\n")
    # A process of its own, which shows what Beam logs.
    limit = ("--max-rejects", "0")
    outcome = jobs.build_apart([tmp_path / "text"], tokenizer_path, output, *limit)
    jobs.assert_refused(outcome, " ".join(limit))


# Inputs, tokenizers and folders that are none


def test_empty_files_among_others_are_no_fault(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "b").write_bytes(sample.read_bytes())
    (tmp_path / "c").write_text("\n\n")
    build([tmp_path / name for name in "abc"], tokenizer_path, tmp_path / "out")
    assert rows(tmp_path / "out") > 300


@for_rows(
    ("content", "cause"),
    [
        (None, "no such file"),
        (b"", "the file is empty"),
        (b"not json", "it is not JSON"),
        (b'{"a": 1}', "it is JSON, but does not describe a tokenizer"),
        (b'{"model": {"type": "Unheard"}}', "the tokenizers library"),
        (b"\xff\xfe", "it is not"),
    ],
)
def test_a_tokenizer_that_is_none_is_refused(
    content: bytes | None, cause: str, sample: Path, tmp_path: Path, output: Path
) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_bytes(content)
    build([sample], file, output, refused=(f"--tokenizer {file}", cause, "train-tokenizer"))
    assert not output.exists()


@pytest.mark.parametrize("output_format", ["parquet", "avro", "tfrecord"])
def test_a_data_set_is_replaced_only_when_asked_in_a_folder_whose_name_has_wildcards(
    output_format: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output, others = tmp_path / "out[1]*?{a}", tmp_path / "out1xx{a}"
    others.mkdir()
    (others / f"train-00000-of-00003.{output_format}").write_text("mine")
    flags = ("--output-format", output_format)
    build([sample], tokenizer_path, output, *flags, "--num-shards", "5")
    first = digests(output)
    build([sample], tokenizer_path, output, *flags, refused=("it holds a data set", "--replace"))
    assert digests(output) == first
    build([sample], tokenizer_path, output, *flags, "--replace")
    build([sample], tokenizer_path, tmp_path / "fresh", *flags)
    assert digests_by_version(output) == digests_by_version(tmp_path / "fresh")
    assert verify(output) == []
    jobs.run_here("inspect", output)
    data = DataSet(output, cache_folder=tmp_path / "cache[2]*")
    assert len(data.take(np.arange(len(data))).samples) == len(data)
    assert leftovers(others) == [f"train-00000-of-00003.{output_format}"]
    assert (others / f"train-00000-of-00003.{output_format}").read_text() == "mine"


# Files that are not what they seem to be


def test_a_file_of_which_nearly_all_lines_are_rejects_is_a_failure(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    """Among others or alone, small or compressed; a share that is allowed is one."""
    sections = sample.read_text().split("\n = ")
    records = [json.dumps({"text": section}) + "\n" for section in sections[:80]]
    folder = tmp_path / "corpus"
    folder.mkdir()
    for n in range(4):
        (folder / f"{n}.jsonl").write_text("".join(records[n::4]))
    (folder / "few.jsonl").write_text("".join(records[:3]) + "A line of prose.\n" * 40)
    refused = (
        "few.jsonl: nearly all lines and rows of it are rejects; the first is at byte",
        "invalid-json",
        "--input-format text",
        "--max-rejects",
    )
    out = tmp_path / "out"
    build([folder], tokenizer_path, out, refused=refused)
    jobs.assert_nothing_final(out)
    build([folder / "few.jsonl"], tokenizer_path, tmp_path / "alone", refused=refused)
    build([folder], tokenizer_path, out, "--max-rejects", "0.5", "--resume")
    (folder / "few.jsonl").write_text("".join(records[:9]) + "A line of prose.\n")
    assert "rejects" in build([folder], tokenizer_path, tmp_path / "more").output


def test_a_text_that_begins_as_data_do_is_read_with_a_finding(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    text = sample.read_text()
    (folder / "a.txt").write_text(text)
    (folder / "b.txt").write_text(f'{{"text": "A blue river"}}\n\n{text}')
    looks = "1 file looks in part like another format, and became text: b.txt (json-lines)"
    arguments = ("--input", folder, "--tokenizer", tokenizer_path)
    assert looks in jobs.run_here("inspect-corpus", *arguments).output
    built = build([folder], tokenizer_path, tmp_path / "out")
    assert looks in built.output
    assert "Give --input-format text if it is text, and --input-format json-lines" in built.output
    assert looks in jobs.run_here("inspect", tmp_path / "out").output
    # It is in doubt no longer where someone has said what it is.
    chosen = build([folder], tokenizer_path, tmp_path / "text", "--input-format", "text")
    assert "looks in part" not in chosen.output
