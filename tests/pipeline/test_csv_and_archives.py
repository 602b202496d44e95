"""Whole jobs on tables, archives, chosen suffixes and data sets of the hub."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import guess_format, read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.verify import verify
from pipeline.command_line import USER_ERROR
from tests.tools.corpus_files import (
    KINDS,
    Documents,
    as_json_lines,
    as_table,
    as_tar,
    split_documents,
    zstd,
)
from tests.tools.jobs import (
    SMALL,
    SMALL_RANGES,
    TWO_WORKERS,
    assert_refused,
    build,
    digests,
    read_manifest_json,
    run_here,
    start,
)
from tests.tools.loopback_hub import COMMIT, DataSet, serve


@pytest.fixture(scope="module")
def documents(sample: Path) -> Documents:
    return list(split_documents(sample))


@pytest.fixture(scope="module")
def json_lines(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    path.write_bytes(as_json_lines(documents))
    return path


@pytest.fixture(scope="module")
def counts_of_lines(json_lines: Path, tokenizer_path: Path) -> dict[str, int]:
    """What a data set of the same documents counts."""
    output = json_lines.with_name("out")
    build([json_lines], tokenizer_path, output)
    counts: dict[str, int] = read_manifest_json(output)["counts"]
    return counts


def write(kind: str, documents: Documents, folder: Path) -> Path:
    """The documents in three files of a folder."""
    folder.mkdir()
    for number in range(3):
        content = KINDS[kind](documents[number * 40 : (number + 1) * 40])
        (folder / f"part-{number}.{kind}").write_bytes(content)
    return folder


def read_all(folder: Path) -> Documents:
    results: Documents = []
    for index, path in enumerate(sorted(folder.iterdir())):
        with path.open("rb") as raw:
            stream = open_decompressed(raw, path.name)
            for batch in read_corpus(stream, FileRange(path.name, index, DocumentOptions())):
                results += batch.documents.column("sentences").to_pylist()
    return results


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file_gives_the_documents(
    kind: str, documents: Documents, tmp_path: Path
) -> None:
    assert read_all(write(kind, documents, tmp_path / "corpus")) == documents


@pytest.mark.parametrize("kind", ["csv", "tar.zst", "warc.wet.gz"])
def test_a_data_set_of_each_is_that_of_the_json_lines(
    kind: str,
    documents: Documents,
    counts_of_lines: dict[str, int],
    tokenizer_path: Path,
    tmp_path: Path,
) -> None:
    folder = write(kind, documents, tmp_path / "corpus")
    outcome = build([folder], tokenizer_path, tmp_path / "out")
    assert outcome.status == 0, outcome.errors
    assert f"input format: {guess_format(f'a.{kind}')}, by the files' names" in outcome.output
    assert not verify(tmp_path / "out")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    for name in ("read.documents", "read.sentences", "tokenize.tokens"):
        assert counts[name] == counts_of_lines[name]
    assert not counts.get("read.rejects")

    # Workers read all formats by the same table; one shows that they reach it.
    way = TWO_WORKERS if kind == "csv" else SMALL_RANGES
    build([folder], tokenizer_path, tmp_path / "two", *way)
    assert digests(tmp_path / "two") == digests(tmp_path / "out")


def test_a_tokenizer_is_trained_on_a_table_as_on_json_lines(
    documents: Documents, json_lines: Path, tmp_path: Path
) -> None:
    folder = write("csv", documents, tmp_path / "corpus")
    trained = []
    for path in (json_lines, folder):
        output = tmp_path / f"{path.stem}.json"
        arguments = ("--input", path, "--vocab-size", "500", "--output", output)
        outcome = run_here("train-tokenizer", *arguments)
        assert outcome.status == 0, outcome.errors
        trained.append(output.read_text())
    assert trained[0] == trained[1]


def test_bad_rows_and_members_are_rejects_of_the_data_set(
    documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    table = tmp_path / "a.csv"
    table.write_bytes(as_table(documents, "excel") + b'7\r\n8,\xff\r\n9,"x\r\n')
    outcome = build([table], tokenizer_path, tmp_path / "table")
    assert outcome.status == 0, outcome.errors
    archive = tmp_path / "a.tar"
    archive.write_bytes(as_tar(documents)[:-9000])
    outcome = build([archive], tokenizer_path, tmp_path / "archive")
    assert outcome.status == 0, outcome.errors
    results = {}
    for name in ("table", "archive"):
        assert not verify(tmp_path / name)
        lines = (tmp_path / name / "rejects/rejects.jsonl").read_text().splitlines()
        results[name] = [json.loads(line)["reason"] for line in lines]
    assert results["table"] == ["wrong-columns", "invalid-utf-8", "unclosed-quote"]
    assert results["archive"] == ["damaged-archive"]


def test_a_column_that_is_not_there_is_refused_before_any_work(
    documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = write("tsv", documents, tmp_path / "corpus")
    outcome = build([folder], tokenizer_path, tmp_path / "out", "--text-field", "body")
    assert_refused(outcome, USER_ERROR, "--text-field body", "its fields are id, text")
    assert not (tmp_path / "out").exists()


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
            (f"{number:03}.txt.zst", zstd(text)),
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
    outcome = build([mixed], tokenizer_path, tmp_path / "out", *flags)
    assert outcome.status == 0, outcome.errors
    manifest = read_manifest_json(tmp_path / "out")
    assert manifest["counts"]["read.documents"] == len(documents)
    assert manifest["counts"]["read.sentences"] == sum(map(len, documents))
    assert manifest["corpus"]["options"]["suffixes"] == [".txt", ".md"]
    assert len(manifest["corpus"]["files"]) == len(documents)


def test_suffixes_choose_the_members_of_archives_in_a_folder(
    documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = write("tar", documents, tmp_path / "corpus")
    (folder / "page.html").write_text("<p>no text</p>")
    outcome = build([folder], tokenizer_path, tmp_path / "out", "--suffixes", "3.txt", "7.txt")
    assert outcome.status == 0, outcome.errors
    counts = read_manifest_json(tmp_path / "out")["counts"]
    sampled = sum(number % 40 % 10 in {3, 7} for number in range(len(documents)))
    assert counts["read.documents"] == sampled
    assert counts["read.left_out_members"] == len(documents) - sampled


def test_suffixes_that_no_file_has_are_refused(
    mixed: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([mixed], tokenizer_path, tmp_path / "out", "--suffixes", ".rst")
    assert_refused(outcome, USER_ERROR, "--suffixes .rst", ".MD, .csv, .gz, .html, .txt, .zst")
    outcome = run_here("train-tokenizer", "--input", mixed, "--output", tmp_path / "t.json",
                       "--suffixes", ".rst")  # fmt: skip
    assert_refused(outcome, USER_ERROR, "--suffixes .rst")


@pytest.fixture
def hub(documents: Documents, sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    files = {
        "a/lines-0.jsonl": as_json_lines(documents[:50]),
        "a/lines-1.jsonl": as_json_lines(documents[50:]),
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
    assert outcome.status == 0, outcome.errors
    name = f"{hub}/gated@{COMMIT}/a/lines-0.jsonl"
    assert f"input: {name}\n" in outcome.output
    assert not verify(tmp_path / "out")
    manifest = read_manifest_json(tmp_path / "out")
    assert manifest["corpus"]["files"][0]["path"] == name
    assert "hf_secret" not in (tmp_path / "out/dataset.json").read_text()
    for count in ("read.documents", "read.sentences", "tokenize.tokens", "read.bytes"):
        assert manifest["counts"][count] == counts_of_lines[count]

    # The names of the manifest give the same data set, and forked workers do so, too.
    names = [file["path"] for file in manifest["corpus"]["files"]]
    arguments = ("--input", *names, "--tokenizer", tokenizer_path, "--output", tmp_path / "two")
    with start("bert", *arguments, *SMALL, *TWO_WORKERS) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert digests(tmp_path / "two") == digests(tmp_path / "out")

    build([f"{hub}/corpus/text.txt"], tokenizer_path, tmp_path / "text")
    build([sample], tokenizer_path, tmp_path / "sample")
    made = [digests(tmp_path / entry) for entry in ("text", "sample")]
    shards = [[made_of[name] for name in made_of if name.endswith(".parquet")] for made_of in made]
    assert shards[0] == shards[1]


def test_a_data_set_that_the_hub_lacks_is_refused_before_any_work(
    hub: str, tokenizer_path: Path, tmp_path: Path
) -> None:
    outcome = build([f"{hub}/absent"], tokenizer_path, tmp_path / "out")
    assert_refused(outcome, USER_ERROR, f"--input {hub}/absent", "no such data set")
    outcome = run_here("train-tokenizer", "--input", f"{hub}/corpus/b.txt", "--output",
                       tmp_path / "t.json")  # fmt: skip
    assert_refused(outcome, USER_ERROR, "no such file")
    assert not (tmp_path / "out").exists()
