"""Sources with names: their shards, their counts, their repeats, and how they are read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.mixture import mix
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import build_again, digests, run_here

SPREAD = ("--num-shards", "5", "--validation-share", "0.2", "--seed", "3")
FACTORS = {"books": 2.0, "web": 0.5, "wiki": 1.5}


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in three folders, with a reject in one of them."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_bytes().splitlines(keepends=True)
    for name, start, end in (("books", 0, 150), ("web", 150, 350), ("wiki", 350, len(lines))):
        (folder / name).mkdir()
        (folder / name / "text.txt").write_bytes(b"".join(lines[start:end]))
    (folder / "books" / "more.txt").write_bytes(b"Not \xff text .\n\nA document .\n")
    return folder


def name_sources(corpus: Path) -> list[str]:
    return [f"{name}={corpus / name}@{factor:g}" for name, factor in FACTORS.items()]


def build(corpus: Path, tokenizer: Path, output: Path, *flags: Any, objective: str = "bert") -> Any:
    sources = ("--source", *name_sources(corpus))
    own = ("--max-seq-length", "64", "--duplicates", "2") if objective == "bert" else ()
    placed = ("--tokenizer", tokenizer, "--output", output)
    return run_here(objective, *sources, *placed, *SPREAD, *own, *flags)


@pytest.fixture(scope="module")
def data_set(corpus: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "out"
    build(corpus, wordpiece, folder, "--drop-duplicates")
    return folder


def test_the_counts_of_sources_are_balanced(data_set: Path) -> None:
    manifest = manifest_of(data_set)
    sources = {source.name: source for source in manifest.corpus.sources}
    assert {name: source.repeat for name, source in sources.items()} == FACTORS
    assert sources["books"].files == 2
    assert sum(source.bytes for source in sources.values()) == manifest.corpus.bytes
    for name in ("read.documents", "read.rejects", "tokenize.tokens", "build.passes"):
        total = sum(source.counts.get(name, 0) for source in sources.values())
        assert total == manifest.counts[name] > 0, name
    assert sources["books"].counts["read.rejects"] == 1
    books, wiki = sources["books"].counts, sources["wiki"].counts
    assert books["build.passes"] == 4 * books["tokenize.documents"]
    assert books["tokenize.copied_tokens"] == 2 * books["tokenize.tokens"]
    assert wiki["tokenize.documents"] < wiki["tokenize.copies"] < 2 * wiki["tokenize.documents"]
    assert wiki["build.passes"] == 2 * wiki["tokenize.copies"]
    web = sources["web"].counts
    assert 0 < web["tokenize.documents"] < web["read.documents"]
    assert manifest.counts["filter.dropped.not-drawn"] > 0
    assert verify(data_set) == []


def test_every_shard_belongs_to_a_source_and_the_report_tells_them_apart(data_set: Path) -> None:
    manifest = manifest_of(data_set)
    for split in manifest.splits.values():
        assert {shard.source for shard in split.shards} == set(FACTORS)
        for shard in split.shards:
            assert f"-{shard.source}-" in shard.file
    assert len(manifest.splits["train"].shards) == 5
    opened = DataSet(data_set)
    # Shards of one source are one part, so that each window has rows of all sources.
    pairs = zip(opened.parts, (shard.source for shard in opened.shards), strict=True)
    assert len({*pairs}) == len({*opened.parts}) == 3
    outcome = run_here("inspect", data_set, "--html", data_set.parent / "page.html")
    assert "books, taken 2 times: " in outcome.output
    assert "1 reject" in outcome.output
    assert '<td class="number">0.5</td>' in (data_set.parent / "page.html").read_text()


# The rows of the one are built of a document each, those of the other of many.
@pytest.mark.parametrize("objective", ["bert", "t5"])
def test_a_data_set_of_sources_is_built_again(
    objective: str, corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    build(corpus, wordpiece, first, objective=objective)
    assert verify(first) == []
    paths = {f"={name.upper()}@": f"={corpus / name}@" for name in FACTORS}
    build_again(first, wordpiece, again, paths=paths, objective=objective)
    assert digests(again) == digests(first)


def test_a_complete_data_set_is_resumed_with_its_own_sources_alone(
    corpus: Path, wordpiece: Path, data_set: Path
) -> None:
    flags = ("--drop-duplicates", "--resume")
    assert "nothing is left to do" in build(corpus, wordpiece, data_set, *flags).output
    others = ("--source", *(text.replace("@2", "@3") for text in name_sources(corpus)))
    placed = ("--tokenizer", wordpiece, "--output", data_set, *SPREAD, "--max-seq-length", "64")
    parts = ["it is not the one that this command builds", "corpus.sources"]
    run_here("bert", *others, *placed, "--duplicates", "2", *flags, refused=parts)


def test_sources_are_read_by_themselves_and_mixed(data_set: Path) -> None:
    whole = DataSet(data_set)
    parts = whole.by_source()
    assert list(parts) == list(FACTORS)
    assert sum(map(len, parts.values())) == len(whole)
    begin = len(parts["books"])
    assert (parts["web"][0]["input_ids"] == whole[begin]["input_ids"]).all()
    assert len({part.digest for part in (whole, *parts.values())}) == 4
    validation = parts["wiki"].load("validation")
    assert validation.source == "wiki"
    samples, order = mix([parts["wiki"], parts["books"]], [3, 1], seed=1)
    sources, _ = order.assign(np.arange(len(order)))
    assert (sources == 0).sum() == pytest.approx(0.75 * len(order), abs=1)
    assert len(samples) == len(parts["wiki"]) + len(parts["books"])
    weights = {"wiki": 3, "books": 1, "web": 0}
    whole_samples, whole_order = mix(whole, weights, seed=1)
    named_samples, named_order = mix(parts, weights, seed=1)
    assert whole_order == named_order
    assert len(whole_samples) == len(named_samples) == len(whole)
    read = whole_samples.take(whole_order.locate(np.arange(len(whole_order))))
    begin, end = len(parts["books"]), len(parts["books"]) + len(parts["web"])
    assert len(read) == len(order)
    assert not ((read.samples >= begin) & (read.samples < end)).any()
    with pytest.raises(UserError, match="no source 'wikipedia'; there are books, web, wiki"):
        mix(whole, {"wikipedia": 3, "books": 1, "web": 0})


def test_megatron_gets_a_blend(corpus: Path, wordpiece: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    build(
        corpus,
        wordpiece,
        folder,
        "--mode",
        "stream",
        "--output-format",
        "megatron",
        objective="gpt",
    )
    shards = manifest_of(folder).splits["train"].shards
    expected = [f"{shard.tokens} {shard.file.removesuffix('.bin')}" for shard in shards]
    assert (folder / "blend.txt").read_text().splitlines() == expected
    blend = json.loads((folder / "blend.json").read_text())
    assert " ".join(blend["train"]) == " ".join(expected)
    assert blend["valid"][1].startswith("v1/validation-books-")
    assert blend["test"] is None
    assert verify(folder) == []


def test_a_format_of_joined_files_has_one_for_each_source(
    corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    flags = ("--mode", "stream", "--output-format", "nanogpt")
    build(corpus, wordpiece, folder, *flags, objective="gpt")
    assert {"v1/train-books.bin", "v1/train-web.bin", "v1/val-wiki.lengths"} <= set(digests(folder))
    build(corpus, wordpiece, folder, *flags, "--replace", objective="gpt")


def test_mistakes(corpus: Path, wordpiece: Path, tmp_path: Path) -> None:
    placed = ("--tokenizer", wordpiece, "--output", tmp_path / "out")
    cases: list[tuple[list[Any], list[str]]] = [
        (["--source", "wiki"], ["--source wiki", "not of the form NAME=PATH"]),
        (["--source", "a-b=x"], ["Begin the name with a letter"]),
        (["--source", f"a={corpus}@0"], ["cannot be taken 0 times"]),
        (["--source", f"a={corpus}@1001"], ["cannot be taken 1001 times"]),
        (["--source", f"a={corpus}@2", f"a={corpus}@3"], ["taken 2 times elsewhere"]),
        (["--source", f"a={corpus}/none"], [f"--source a={corpus}/none", "no such file"]),
        (["--source", f"a={corpus}", "--input", corpus], [f"it does not go with --input {corpus}"]),
        ([], ["--input: it is missing"]),
    ]
    for words, parts in cases:
        run_here("bert", *words, *placed, refused=parts)
