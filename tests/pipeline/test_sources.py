"""Sources with names: their shards, counts and repeats, how they are read, and how they grow."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.mixture import mix
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import manifest_of
from tests.tools.growing import without_descriptions
from tests.tools.jobs import SMALL, build_again, digests, last_wins, run_here
from tests.tools.origins import check_provenance, list_documents

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
    flags = ("--mode", "stream", "--output-format", "megatron")
    build(corpus, wordpiece, folder, *flags, objective="gpt")
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
        (["--source", f"a={corpus}/none"], [f"--source a: {corpus}/none", "no such file"]),
        (["--source", f"a={corpus}", "--input", corpus], [f"it does not go with --input {corpus}"]),
        ([], ["--input: it is missing"]),
    ]
    for words, parts in cases:
        run_here("bert", *words, *placed, refused=parts)


# Text with named sources is added

_FLAGS = (*SMALL, "--validation-share", "0.2")
# In the order of their files: those of the first part, and those that are added.
_TEXTS = ("crawl", "wiki", "news", "wiki")


@pytest.fixture(scope="module")
def texts(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four files of one name with the documents of the sample."""
    folder, lines = tmp_path_factory.mktemp("texts"), sample.read_bytes().splitlines(True)
    begins = [number for number, line in enumerate(lines) if line.startswith(b" = ")]
    cuts = [0, *(begins[len(begins) * part // 4] for part in (1, 2, 3)), len(lines)]
    files = [folder / str(number) / "text" for number in range(4)]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_bytes(b"".join(lines[cuts[number] : cuts[number + 1]]))
    return files


def build_sources(
    tokenizer: Path, output: Path, *flags: str | Path, refused: Any = (), **sources: str
) -> Any:
    named = [f"{name}={path}" for name, path in sources.items()]
    words = last_wins(
        "--source", *named, "--tokenizer", tokenizer, "--output", output, *_FLAGS, *flags
    )  # fmt: skip
    return run_here("bert", *words, refused=refused)


def add(texts: list[Path], tokenizer: Path, output: Path, *flags: str | Path, **end: Any) -> Any:
    """Add a new source, taken twice, and more text of one that is there."""
    own = ("--append", "--num-shards", "2", *flags)
    return build_sources(
        tokenizer, output, *own, news=f"{texts[2]}@2", wiki=str(texts[3]), **end
    )  # fmt: skip


@pytest.fixture(scope="module")
def first(texts: list[Path], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of two sources, of one of which a share is taken."""
    output = tmp_path_factory.mktemp("first") / "out"
    build_sources(wordpiece, output, crawl=f"{texts[0]}@0.5", wiki=f"{texts[1]}@3")
    return output


@pytest.fixture(scope="module")
def grown(
    first: Path, texts: list[Path], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same with more text."""
    output = tmp_path_factory.mktemp("grown") / "out"
    shutil.copytree(first, output)
    add(texts, wordpiece, output)
    return output


def check_sources(output: Path, texts: list[Path], order: list[int]) -> None:
    """Check that each row is made of text of its shard's source, and all counts of sources.

    Args:
        output: folder of the data set.
        texts: the files with the text.
        order: which of the texts each file of the corpus is.
    """
    assert verify(output) == []
    manifest = manifest_of(output)
    names = [_TEXTS[number] for number in order]
    assert [file.path for file in manifest.corpus.files] == [f"{name}/text" for name in names]
    shards = {
        shard.file: shard.source
        for split in manifest.splits.values()
        for shard in split.shards
    }  # fmt: skip
    for origin in check_provenance(output, *texts):
        assert shards[origin.shard] == names[origin.document >> OFFSET_BITS]
    documents = Counter(names[one.file_number] for one in list_documents(output))
    sources = {source.name: source for source in manifest.corpus.sources}
    assert list(sources) == sorted({*names})
    for name, source in sources.items():
        assert source.files == names.count(name)
        assert source.bytes == sum(
            file.bytes for file in manifest.corpus.files if file.path.startswith(f"{name}/")
        )
        assert source.counts["tokenize.documents"] >= documents[name] > 0


def test_a_source_has_the_rows_of_all_parts(first: Path, grown: Path, texts: list[Path]) -> None:
    kept, files = without_descriptions(digests(first)), digests(grown)
    assert {name: files[name] for name in kept} == kept
    check_sources(grown, texts, [0, 1, 2, 3])
    sources = {source.name: source for source in manifest_of(grown).corpus.sources}
    sizes = [file.stat().st_size for file in texts]
    assert (sources["crawl"].repeat, sources["news"].repeat) == (0.5, 2)
    mean = (3 * sizes[1] + sizes[3]) / (sizes[1] + sizes[3])
    assert sources["wiki"].repeat == pytest.approx(mean)
    news = sources["news"].counts
    assert news["tokenize.copies"] == 2 * news["tokenize.documents"]
    whole, before = DataSet(grown), DataSet(first)
    parts, earlier = whole.by_source(), before.by_source()
    assert {*parts} == {"crawl", "wiki", "news"}
    assert len(parts["crawl"]) == len(earlier["crawl"])
    assert len(parts["wiki"]) > len(earlier["wiki"])
    assert sum(map(len, parts.values())) == len(whole)
    assert whole.first_generations(1).digest == before.digest
    same = whole.first_generations(1).by_source()["wiki"]
    assert same.digest == parts["wiki"].first_generations(1).digest == earlier["wiki"].digest
    samples, order = mix(whole, {"wiki": 1, "news": 0, "crawl": 0}, seed=1)
    drawn = samples.take(order.locate(np.arange(len(order)))).samples
    begin = len(parts["crawl"])
    assert sorted(drawn) == [*range(begin, begin + len(parts["wiki"]))]


def test_reports_and_the_card_see_one_data_set(grown: Path) -> None:
    output = run_here("inspect", grown).output
    assert "news, taken 2 times: " in output
    assert "\nsource    wiki, taken " in output
    built, then = output.split("then by", 1)
    assert "--source crawl=CRAWL@0.5 wiki=WIKI@3 " in built.replace("\n", " ")
    assert "--source news=NEWS@2 wiki=WIKI@1 " in then.replace("\n", " ")
    assert "wiki=WIKI@3" in run_here("config", grown).output
    found = run_here("trace", grown, "--where", "source = 'wiki'", "--json").output
    documents = [json.loads(line) for line in found.splitlines() if '"digest"' in line]
    assert {(one["file"], one["source"]) for one in documents} == {("wiki/text", "wiki")}
    assert {one["document"] >> OFFSET_BITS for one in documents} == {1, 3}
    front = (grown / "README.md").read_text().split("---")[1]
    configs = {entry["config_name"]: entry for entry in yaml.safe_load(front)["configs"]}
    listed = {path for split in configs["wiki"]["data_files"] for path in split["path"]}
    shards = [shard for split in manifest_of(grown).splits.values() for shard in split.shards]
    assert {shard.file for shard in shards if shard.source == "wiki" and shard.rows} <= listed
    assert any("train-wiki-more1-" in path for path in listed)


def test_an_addition_is_resumed_with_its_own_repeats_alone(
    grown: Path, texts: list[Path], wordpiece: Path
) -> None:
    files = digests(grown)
    assert "nothing is left to do" in add(texts, wordpiece, grown, "--resume").output
    others = {"news": str(texts[2]), "wiki": str(texts[3])}
    refused = ("--append --resume", "has been added, with the repeats @2, @1")
    build_sources(wordpiece, grown, "--append", "--resume", refused=refused, **others)
    assert digests(grown) == files


def test_known_text_is_compared_over_all_sources(
    first: Path, texts: list[Path], wordpiece: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path / "out")
    parts = ("holds the text of", "documents already")
    named = {"news": str(texts[1])}
    build_sources(wordpiece, tmp_path / "out", "--append", refused=parts, **named)
    assert verify(tmp_path / "out") == []


def test_mixed_ones_are_refused_before_any_work(
    first: Path, texts: list[Path], wordpiece: Path, tmp_path: Path
) -> None:
    files = digests(first)
    refused = ("--append", "the data set has sources with names (crawl, wiki)", "Give --source")
    jobs.build([texts[2]], wordpiece, first, *_FLAGS, "--append", refused=refused)
    jobs.build([texts[2]], wordpiece, tmp_path / "plain", *_FLAGS)
    cause = "the input has sources with names, and the data set has none"
    add(texts, wordpiece, tmp_path / "plain", refused=("--append", cause))
    assert digests(first) == files
    reserved = ("--source more1=", "in the names of shards that are added")
    build_sources(wordpiece, tmp_path / "out", refused=reserved, more1=str(texts[0]))
