"""Whole jobs on tables, archives, chosen suffixes and data sets of the hub."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import guess_format, read_corpus
from corpusmill.verification.check_data_set import verify
from tests.tools import corpus_files, jobs
from tests.tools.corpus_files import Documents
from tests.tools.data_files import find_file
from tests.tools.jobs import build, digests, read_manifest_json, run_here
from tests.tools.loopback_hub import COMMIT, DataSet, serve
from tests.tools.table_rows import for_rows


@pytest.fixture(scope="module")
def documents(sample: Path) -> Documents:
    return list(corpus_files.split_documents(sample))


@pytest.fixture(scope="module")
def json_lines(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    path.write_bytes(corpus_files.as_json_lines(documents))
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
        content = corpus_files.KINDS[kind](documents[number * 40 : (number + 1) * 40])
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


@for_rows("kind", corpus_files.KINDS)
def test_each_kind_of_file_gives_the_documents(
    kind: str, documents: Documents, tmp_path: Path
) -> None:
    assert read_all(write(kind, documents, tmp_path / kind)) == documents


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
    assert f"input format: {guess_format(f'a.{kind}')}, by what the files are" in outcome.output
    assert not verify(tmp_path / "out")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    for name in ("read.documents", "read.sentences", "tokenize.tokens"):
        assert counts[name] == counts_of_lines[name]
    assert not counts.get("read.rejects")

    # Workers read all formats by the same table; one shows that they reach it.
    way = jobs.TWO_WORKERS if kind == "csv" else jobs.SMALL_RANGES
    jobs.assert_same_bytes(tmp_path / "out", [folder], tokenizer_path, *way)


def test_bad_rows_and_members_are_rejects_of_the_data_set(
    documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    table = tmp_path / "a.csv"
    table.write_bytes(corpus_files.as_table(documents, "excel") + b'7\r\n8,\xff\r\n9,"x\r\n')
    build([table], tokenizer_path, tmp_path / "table")
    archive = tmp_path / "a.tar"
    archive.write_bytes(corpus_files.as_tar(documents)[:-9000])
    build([archive], tokenizer_path, tmp_path / "archive")
    results = {}
    for name in ("table", "archive"):
        assert not verify(tmp_path / name)
        lines = find_file(tmp_path / name, "rejects/rejects.jsonl").read_text().splitlines()
        results[name] = [json.loads(line)["reason"] for line in lines]
    assert results["table"] == ["wrong-columns", "invalid-utf-8", "unclosed-quote"]
    assert results["archive"] == ["damaged-archive"]


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
    documents: Documents, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = write("tar", documents, tmp_path / "corpus")
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
    for count in ("read.documents", "read.sentences", "tokenize.tokens", "read.bytes"):
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
