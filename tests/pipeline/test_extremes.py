"""Corpora unlike any other, small enough for a test: the same bytes whoever reads them.

`benchmarks.scale.extremes` builds the large ones. A run that ends has balanced its counts.
"""

from pathlib import Path

import pytest

from benchmarks.scale import extreme_corpora as corpora
from pipeline.runners.prism import find_program
from tests.tools.jobs import WORKERS, assert_same_bytes, build, digests, read_manifest_json
from transforms.task_sizes import TaskSizes

SHARDS = ("--num-shards", "400")
LOOPBACK = "--environment_type=LOOPBACK"
ONE = ("--duplicates", "1")


RANGES = ("--range-bytes", "9999")


def build_twice(
    corpus: Path, tokenizer: Path, folder: Path, *flags: str, way: tuple[str, ...] = RANGES
) -> Path:
    """A data set built in this process, and again in another way."""
    output = folder / "out"
    build([corpus], tokenizer, output, *ONE, *flags)
    assert_same_bytes(output, [corpus], tokenizer, *ONE, *flags, *way)
    return output


def test_five_hundred_files(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    corpora.write_many_files(tmp_path / "corpus", sample, 500)
    output = build_twice(
        tmp_path / "corpus", tokenizer_path, tmp_path, "--document-rule", "blank-lines",
        way=WORKERS,
    )  # fmt: skip
    manifest = read_manifest_json(output)
    assert len(manifest["corpus"]["files"]) == 500
    assert manifest["counts"]["read.bytes"] == sample.stat().st_size


def test_documents_of_one_length(tokenizer_path: Path, tmp_path: Path) -> None:
    corpora.write_one_length(tmp_path / "corpus.txt", 500, 61)
    output = build_twice(tmp_path / "corpus.txt", tokenizer_path, tmp_path, "--num-shards", "2")
    assert read_manifest_json(output)["counts"]["read.documents"] == 500


def test_many_documents_of_a_line(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    corpora.write_lines_of_one_size(tmp_path / "corpus.txt", sample, 4000, 30)
    output = build_twice(
        tmp_path / "corpus.txt", tokenizer_path, tmp_path, "--input-format", "lines"
    )
    assert read_manifest_json(output)["counts"]["read.documents"] == 4000


@pytest.mark.parametrize("newline", [b"\n", b" "])
def test_a_document_without_an_end(
    sample: Path, tokenizer_path: Path, tmp_path: Path, newline: bytes
) -> None:
    corpora.write_endless_document(tmp_path / "corpus.txt", sample, 200_000, newline)
    limits = ("--max-document-bytes", "20000", "--max-line-bytes", "40000")
    arguments = ([tmp_path / "corpus.txt"], tokenizer_path, tmp_path / "out", *ONE, *limits)
    if newline == b"\n":
        build(*arguments)
        assert read_manifest_json(tmp_path / "out")["counts"]["read.cut_documents"] >= 8
    else:
        build(*arguments, refused=("no example was built", "1 is a reject", "0 documents"))


def test_empty_documents_long_names_and_deep_folders(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    corpora.write_empty_records(tmp_path / "corpus.jsonl", sample, 3000, 30)
    corpora.write_long_names(tmp_path / "long", sample, 3)
    corpora.write_deep_folders(tmp_path / "deep", sample, 3, 30)
    [name, *_] = [path.name for path in (tmp_path / "long").rglob("*.txt")]
    assert (len(name), len(name.encode())) == (200, 255)
    output = tmp_path / "empty"
    build([tmp_path / "corpus.jsonl"], tokenizer_path, output, *ONE)
    assert read_manifest_json(output)["counts"]["read.empty_records"] == 3000
    build([tmp_path / "long", tmp_path / "deep"], tokenizer_path, tmp_path / "out", *ONE)
    assert read_manifest_json(tmp_path / "out")["counts"]["read.bytes"] == 2 * sample.stat().st_size


@pytest.fixture(scope="module")
def here(
    sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The files of the local runner."""
    output = tmp_path_factory.mktemp("many") / "out"
    build([sample], tokenizer_path, output, *SHARDS)
    return digests(output)


@pytest.mark.parametrize(
    "engine",
    [
        ("PortableRunner", "--", "--job_endpoint=embed", LOOPBACK),
        pytest.param(
            ("PrismRunner", "--", LOOPBACK),
            marks=pytest.mark.skipif(not find_program(), reason="Prism is missing: `make prism`"),
        ),
    ],
    ids=lambda engine: engine[0],
)
def test_many_shards_are_those_of_the_local_runner(
    engine: tuple[str, ...], here: dict[str, str], sample: Path, tokenizer_path: Path, output: Path
) -> None:
    assert len(here) > TaskSizes().fan_in
    build([sample], tokenizer_path, output, *SHARDS, "--runner", *engine)
    assert digests(output) == here
