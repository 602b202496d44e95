"""Whole jobs on each format of input: the same records give the same data set."""

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools import corpus_files, jobs
from tests.tools.containers import CONTAINERS
from tests.tools.corpus_files import Documents
from tests.tools.data_files import find_file
from tests.tools.jobs import build, digests, read_manifest_json, run_here, train
from tests.tools.lazily import LazyModule
from tests.tools.loopback_hub import COMMIT, DataSet, serve

datasets = LazyModule("datasets")

FIELD = ("--text-field", "body")
SAME_COUNTS = ("read.documents", "read.sentences", "tokenize.tokens")
Records = list[dict[str, Any]]


def write_container(kind: str, records: Records, path: Path) -> Path:
    """The records in one file."""
    end, _, write = CONTAINERS[kind]
    (path / f"corpus.{end}").write_bytes(write(records))
    return path / f"corpus.{end}"


def write_saved(records: Records, path: Path) -> Path:
    """As users of Hugging Face's datasets do, with a cache that holds the text once more."""
    dataset = datasets.Dataset.from_list(records)
    datasets.DatasetDict({"train": dataset}).save_to_disk(path / "saved", num_shards={"train": 2})
    (path / "saved/train/cache-1.arrow").write_bytes(
        (path / "saved/train/data-00000-of-00002.arrow").read_bytes()
    )
    return path / "saved"


def write_csv(records: Records, path: Path) -> Path:
    with (path / "corpus.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "body"])
        writer.writeheader()
        writer.writerows(records)
    return path / "corpus.csv"


def write_json_lines(records: Records, path: Path) -> Path:
    lines = [json.dumps(record) for record in records]
    (path / "corpus.jsonl").write_text("\n".join(["{", *lines]) + "\n")
    return path / "corpus.jsonl"


def write_parts(kind: str, records: Records, path: Path) -> Path:
    """The documents in three files of a folder."""
    folder = path / "parts"
    folder.mkdir()
    texts = [record["body"].split("\n") for record in records if (record["body"] or "").strip()]
    for number in range(3):
        content = corpus_files.KINDS[kind](texts[number * 40 : (number + 1) * 40])
        (folder / f"part-{number}.{kind}").write_bytes(content)
    return folder


TABLES: dict[str, Callable[[Records, Path], Path]] = {
    **{kind: partial(write_container, kind) for kind in ("Parquet", "Feather", "Avro")},
    "saved": write_saved,
}
WRITERS: dict[str, Callable[[Records, Path], Path]] = {
    **TABLES,
    **{kind: partial(write_parts, kind) for kind in ("csv", "tar.zst", "warc.wet.gz")},
}


@pytest.fixture(scope="module")
def documents(sample: Path) -> Documents:
    return list(corpus_files.split_documents(sample))


@pytest.fixture(scope="module")
def records(documents: Documents) -> Records:
    """The sample a record a document, with two that hold no text."""
    texts: list[str | None] = ["\n".join(sentences) for sentences in documents]
    texts[5:5] = [None, "  \n"]
    return [{"id": number, "body": text} for number, text in enumerate(texts)]


@pytest.fixture(scope="module")
def counts_of_lines(
    records: Records, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, int]:
    """What a data set of the same records as JSON lines counts."""
    folder = tmp_path_factory.mktemp("lines")
    build([write_json_lines(records, folder)], tokenizer_path, folder / "out", *FIELD)
    return counts_of(folder / "out")


def counts_of(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = read_manifest_json(folder)["counts"]
    return counts


def rejects_of(folder: Path) -> list[dict[str, Any]]:
    lines = find_file(folder, "rejects/rejects.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_json_lines_hold_what_the_text_holds_however_they_are_read(
    records: Records, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    lines, flags = write_json_lines(records, tmp_path), (*FIELD, "--validation-share", "0.2")
    outcome = build([lines], tokenizer_path, tmp_path / "out", *flags)
    assert "input format: json-lines, by what the files are" in outcome.output
    assert not verify(tmp_path / "out")
    build([sample], tokenizer_path, tmp_path / "text")
    counts, of_text = counts_of(tmp_path / "out"), counts_of(tmp_path / "text")
    assert [counts[name] for name in SAME_COUNTS] == [of_text[name] for name in SAME_COUNTS]
    assert counts["read.records"] == counts["read.documents"] + 1  # that of white space
    assert [reject["reason"] for reject in rejects_of(tmp_path / "out")] == [
        "invalid-json", "not-text",
    ]  # fmt: skip
    assert read_manifest_json(tmp_path / "out")["corpus"]["options"]["input_format"] == "json-lines"
    jobs.assert_same_bytes(tmp_path / "out", [lines], tokenizer_path, *flags, *jobs.TWO_WORKERS)
    compressed = tmp_path / "packed" / "corpus.jsonl.gz"
    compressed.parent.mkdir()
    compressed.write_bytes(gzip.compress(lines.read_bytes()))
    build([compressed], tokenizer_path, tmp_path / "gz", *flags)
    shards = jobs.shards_of(digests(tmp_path / "gz"))
    assert len(shards) == 4
    assert shards == jobs.shards_of(digests(tmp_path / "out"))


@pytest.mark.parametrize("kind", WRITERS)
def test_each_kind_of_file_holds_what_the_same_json_lines_hold_however_it_is_read(
    kind: str, records: Records, counts_of_lines: dict[str, int], tokenizer_path: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    corpus, is_table = WRITERS[kind](records, tmp_path), kind in TABLES
    flags = (*(FIELD if is_table else ()), "--validation-share", "0.2")
    outcome = build([corpus], tokenizer_path, tmp_path / "out", *flags)
    assert ", by what the files are" in outcome.output
    assert not verify(tmp_path / "out")
    counts = counts_of(tmp_path / "out")
    assert [counts[name] for name in SAME_COUNTS] == [counts_of_lines[name] for name in SAME_COUNTS]
    assert counts.get("read.rejects", 0) == is_table
    if is_table:
        for name in ("read.records", "read.empty_records"):
            assert counts[name] == counts_of_lines[name]
        assert counts["read.rows"] == len(records)
        [reject] = rejects_of(tmp_path / "out")
        assert (reject["reason"], reject["detail"]) == ("not-text", "row 5: body holds null")
    # Workers read all formats by the same table; one shows that they reach it.
    way = jobs.TWO_WORKERS if kind == "Parquet" else jobs.SMALL_RANGES
    jobs.assert_same_bytes(tmp_path / "out", [corpus], tokenizer_path, *flags, *way)


def test_a_tokenizer_is_trained_on_records_as_on_their_text(
    records: Records, sample: Path, tmp_path: Path
) -> None:
    expected = train(sample, tmp_path / "text.json")
    files = [write(records, tmp_path) for write in (*TABLES.values(), write_csv, write_json_lines)]
    trained = {path.name: train(path, tmp_path / f"{path.name}.json", *FIELD) for path in files}
    assert [name for name, tokenizer in trained.items() if tokenizer != expected] == []


def test_what_cannot_be_read_is_refused_before_any_work(
    records: Records, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    parquet = write_container("Parquet", records, tmp_path)
    lines = write_json_lines(records, tmp_path)
    packed = tmp_path / "corpus.parquet.gz"
    packed.write_bytes(gzip.compress(parquet.read_bytes()))
    text = tmp_path / "text.parquet"
    text.write_text("words\n")
    feather_1 = tmp_path / "old.feather"
    feather_1.write_bytes(b"FEA1" + bytes(99) + b"FEA1")
    for inputs, parts in (
        *(
            ((path,), ("--text-field text", "its fields are id, body"))
            for path in (parquet, write_csv(records, tmp_path), lines)
        ),
        ((parquet, "--text-field", "id"), ("--text-field id", "int64", "holds text: body")),
        ((parquet, packed), (f"--input {packed}", "Decompress it")),
        ((text,), (f"--input {text}", "it is text, not parquet")),
        ((feather_1,), (f"--input {feather_1}", "Feather version 1")),
        ((lines, sample), ("--input-format auto", "several formats", "json-lines")),
    ):
        build(map(str, inputs), tokenizer_path, tmp_path / "out", refused=parts)
        assert not (tmp_path / "out").exists()


def test_damage_costs_only_the_records_that_it_held(
    records: Records, documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    table = corpus_files.as_table(documents, "excel")
    for name, content, reasons in (
        ("a.csv", table + b'7\r\n8,\xff\r\n9,"x\r\n',
         ["wrong-columns", "invalid-utf-8", "unclosed-quote"]),
        ("a.tar", corpus_files.as_tar(documents)[:-9000], ["damaged-archive"]),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        build([tmp_path / name], tokenizer_path, tmp_path / "out", "--replace")
        assert not verify(tmp_path / "out")
        assert [reject["reason"] for reject in rejects_of(tmp_path / "out")] == reasons
    (tmp_path / "in").mkdir()
    whole = write_container("Parquet", records, tmp_path / "in")
    (tmp_path / "in/second.parquet").write_bytes(whole.read_bytes()[:-100])
    build([tmp_path / "in"], tokenizer_path, tmp_path / "out", *FIELD, "--replace")
    assert not verify(tmp_path / "out")
    rejects = rejects_of(tmp_path / "out")
    assert [reject["reason"] for reject in rejects] == ["not-text", "damaged-file"]
    assert rejects[1]["file"] == "second.parquet"
    assert counts_of(tmp_path / "out")["read.rows"] == len(records)


# Suffixes


@pytest.fixture
def mixed(documents: Documents, tmp_path: Path) -> Path:
    """A folder of texts, plain and compressed, and of what is none."""
    folder = tmp_path / "mixed"
    (folder / "deep").mkdir(parents=True)
    texts = ["\n\n".join(document).encode() for document in documents]
    for number, text in enumerate(texts):
        name, content = [
            (f"{number:03}.txt", text),
            (f"deep/{number:03}.txt.gz", gzip.compress(text)),
            (f"{number:03}.txt.zst", corpus_files.zstd(text)),
            (f"deep/{number:03}.MD", text),
        ][number % 4]
        (folder / name).write_bytes(content)
    (folder / "page.html").write_text("<p>no text</p>")
    (folder / "deep/table.csv").write_text("a,b\n")
    return folder


def test_suffixes_choose_the_files_of_a_folder(
    mixed: Path, documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    flags = ("--document-rule", "whole-file", "--suffixes", ".txt", ".md")
    build([mixed], tokenizer_path, tmp_path / "out", *flags)
    manifest = read_manifest_json(tmp_path / "out")
    assert manifest["counts"]["read.documents"] == len(documents)
    assert manifest["counts"]["read.sentences"] == sum(map(len, documents))
    assert manifest["corpus"]["options"]["suffixes"] == [".txt", ".md"]
    assert len(manifest["corpus"]["files"]) == len(documents)


def test_suffixes_choose_the_members_of_archives_in_a_folder(
    documents: Documents, records: Records, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = write_parts("tar", records, tmp_path)
    (folder / "page.html").write_text("<p>no text</p>")
    build([folder], tokenizer_path, tmp_path / "out", "--suffixes", "3.txt", "7.txt")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    sampled = sum(number % 40 % 10 in {3, 7} for number in range(len(documents)))
    assert counts["read.documents"] == sampled
    assert counts["read.left_out_members"] == len(documents) - sampled


def test_suffixes_that_no_file_has_are_refused(
    mixed: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    parts = ("--suffixes .rst", ".MD, .csv, .gz, .html, .txt, .zst")
    build([mixed], tokenizer_path, tmp_path / "out", "--suffixes", ".rst", refused=parts)
    arguments = ("--input", mixed, "--output", tmp_path / "t.json", "--suffixes", ".rst")
    run_here("train-tokenizer", *arguments, refused=parts)


# Data sets of the hub


@pytest.fixture
def hub(documents: Documents, sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    files = {
        "a/lines-0.jsonl": corpus_files.as_json_lines(documents[:50]),
        "a/lines-1.jsonl": corpus_files.as_json_lines(documents[50:]),
        "text.txt": sample.read_bytes(),
    }
    with serve({"org/corpus": DataSet(files), "org/gated": DataSet(files, gated=True)}) as server:
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_ENDPOINT", server.address)  # for processes of their own
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setenv("HF_TOKEN", server.token)
        yield "hf://datasets/org"


def test_files_of_the_hub_are_read_as_local_ones(
    hub: str, sample: Path, counts_of_lines: dict[str, int], tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([f"{hub}/gated/a/*.jsonl"], tokenizer_path, tmp_path / "out")
    name = f"{hub}/gated@{COMMIT}/a/lines-0.jsonl"
    assert f"input: {name}\n" in outcome.output
    assert not verify(tmp_path / "out")
    manifest = read_manifest_json(tmp_path / "out")
    assert manifest["corpus"]["files"][0]["path"] == name
    assert "hf_secret" not in (tmp_path / "out/dataset.json").read_text()
    for count in SAME_COUNTS:
        assert manifest["counts"][count] == counts_of_lines[count]

    # The names of the manifest give the same data set, and forked workers do so, too.
    names = [file["path"] for file in manifest["corpus"]["files"]]
    two = jobs.build_apart(names, tokenizer_path, tmp_path / "two", *jobs.TWO_WORKERS)
    assert two.status == 0, two.errors
    assert digests(tmp_path / "two") == digests(tmp_path / "out")

    build([f"{hub}/corpus/text.txt"], tokenizer_path, tmp_path / "text")
    build([sample], tokenizer_path, tmp_path / "sample")
    assert jobs.shards_of(digests(tmp_path / "text")) == jobs.shards_of(
        digests(tmp_path / "sample")
    )


def test_a_data_set_that_the_hub_lacks_is_refused_before_any_work(
    hub: str, tokenizer_path: Path, tmp_path: Path
) -> None:
    parts = (f"--input {hub}/absent", "no such data set")
    build([f"{hub}/absent"], tokenizer_path, tmp_path / "out", refused=parts)
    arguments = ("--input", f"{hub}/corpus/b.txt", "--output", tmp_path / "t.json")
    run_here("train-tokenizer", *arguments, refused=("no such file",))
    assert not (tmp_path / "out").exists()
