"""Text with named sources is added to a data set with such."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.mixture import mix
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.growing import without_descriptions
from tests.tools.jobs import SMALL, build, digests, last_wins, run_here
from tests.tools.origins import check_provenance, list_documents

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


def problems(output: Path) -> list[Any]:
    return verify(output)


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
    assert problems(output) == []
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
    assert problems(tmp_path / "out") == []


def test_mixed_ones_are_refused_before_any_work(
    first: Path, texts: list[Path], wordpiece: Path, tmp_path: Path
) -> None:
    files = digests(first)
    refused = ("--append", "the data set has sources with names (crawl, wiki)", "Give --source")
    build([texts[2]], wordpiece, first, *_FLAGS, "--append", refused=refused)
    build([texts[2]], wordpiece, tmp_path / "plain", *_FLAGS)
    cause = "the input has sources with names, and the data set has none"
    add(texts, wordpiece, tmp_path / "plain", refused=("--append", cause))
    assert digests(first) == files
    reserved = ("--source more1=", "in the names of shards that are added")
    build_sources(wordpiece, tmp_path / "out", refused=reserved, more1=str(texts[0]))
