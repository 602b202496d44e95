"""Bad records, files and folders: one message, a status, and nothing half-written."""

import bz2
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


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_truncated_file_is_used_up_to_the_damage(
    suffix: str, compress: object, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    lines = [f"Line {number} is about {number * number} .\n\n" for number in range(9000)]
    whole = compress("".join(lines).encode())  # type: ignore[operator]
    damaged = tmp_path / f"text{suffix}"
    damaged.write_bytes(whole[: len(whole) * 3 // 4])
    build([damaged], tokenizer_path, output)
    [reject] = rejects(output)
    assert (reject["file"], reject["reason"]) == (damaged.name, "damaged-compression")
    assert rows(output) > 4000


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [("3", True), ("2", False), ("0.5", True), ("0.01", False), ("0", False)],
)
def test_more_rejects_than_allowed_are_an_error(
    allowed: str, is_allowed: bool, sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    lines = sample.read_bytes().splitlines(keepends=True)[:100]
    text.write_bytes(b"".join(lines) + b"\xff\n" * 3)
    parts = () if is_allowed else (f"--max-rejects {allowed}", "3 of 103 input lines", "Repair")
    build([text], tokenizer_path, output, "--max-rejects", allowed, refused=parts)
    if not is_allowed:
        jobs.assert_nothing_final(output)


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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"\n = Title = \n\n", ("3 lines", "0 documents", "only blank lines and titles")),
        (b"\n", ("1 lines", "only blank lines and titles")),
        (b"\xff\n\xfe\n", ("2 are rejects", "the reasons invalid-utf-8")),
        ("\u200b\n".encode(), ("1 document with 0 tokens", "a tokenizer for the language")),
    ],
)
def test_a_corpus_of_which_no_example_is_built_is_an_error(
    text: bytes, parts: tuple[str, ...], tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    (tmp_path / "text").write_bytes(text)
    refused = (f"--output {output}", "no example was built", *parts)
    build([tmp_path / "text"], tokenizer_path, output, refused=refused)
    assert not (output / "_SUCCESS").exists()


@for_rows(
    ("make", "cause"),
    [
        ("nothing", "no such file"),
        ("empty file", "all files are empty"),
        ("empty folder", "the folder has no files"),
        ("dangling link", "it cannot be read (No such file or directory)"),
        ("folder with a dangling link", "it cannot be read (No such file or directory)"),
        ("device", "it is not a regular file"),
    ],
)
def test_an_input_that_is_none_is_refused(
    make: str, cause: str, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    path = tmp_path / make
    if make == "empty file":
        path.write_text("")
    elif make == "empty folder":
        path.mkdir()
    elif make == "dangling link":
        path.symlink_to("nowhere")
    elif make == "folder with a dangling link":
        path.mkdir()
        (path / "text").write_text("Text .")
        (path / "link").symlink_to("nowhere")
    elif make == "device":
        path = Path("/dev/null")
    build([path], tokenizer_path, output, refused=(f"--input {path}", cause))
    assert not output.exists()


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


def test_a_tokenizer_without_a_mask_is_refused(sample: Path, tmp_path: Path, output: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n")
    build([sample], tmp_path / "vocab.txt", output, refused=(str(tmp_path / "vocab.txt"), "[MASK]"))
    assert not output.exists()


def test_an_output_in_use_is_refused_and_left_alone(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    output.mkdir(parents=True)
    (output / "thesis.txt").write_text("precious")
    for flags in ((), ("--replace",)):
        parts = (f"--output {output}", "thesis.txt", "Move that file away")
        build([sample], tokenizer_path, output, *flags, refused=parts)
    assert (output / "thesis.txt").read_text() == "precious"
    assert leftovers(output) == ["thesis.txt"]


def test_a_data_set_is_replaced_only_when_asked(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    build([sample], tokenizer_path, output, "--num-shards", "5")
    first = digests(output)
    build([sample], tokenizer_path, output, refused=("--output", "--replace"))
    assert digests(output) == first
    build([sample], tokenizer_path, output, "--replace")
    build([sample], tokenizer_path, tmp_path / "fresh")
    assert digests_by_version(output) == digests_by_version(tmp_path / "fresh")


@pytest.mark.parametrize("output_format", ["parquet", "avro", "tfrecord"])
def test_a_folder_whose_name_has_wildcards_holds_a_data_set_like_any_other(
    output_format: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output, others = tmp_path / "out[1]*?{a}", tmp_path / "out1xx{a}"
    others.mkdir()
    (others / f"train-00000-of-00003.{output_format}").write_text("mine")
    flags = ("--output-format", output_format)
    build([sample], tokenizer_path, output, *flags)
    first = digests_by_version(output)
    build([sample], tokenizer_path, output, *flags, refused=("it holds a data set", "--replace"))
    build([sample], tokenizer_path, output, *flags, "--replace")
    assert digests_by_version(output) == first
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
