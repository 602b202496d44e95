"""The command `ernie` as a user runs it, English and Chinese, Parquet and the original's text."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.words import load_words
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import find_files
from tests.tools.jobs import build, rows_of, run_here, unmask
from tests.tools.versions import digests_by_version

CHINESE = """\
小明硕士毕业于中国科学院计算所。
后来他在日本京都大学深造!
昨天我在北京大学图书馆看书。

我来到北京清华大学。
老师讲的课非常有意思,我喜欢喝茶。
今天天气很好,我们去公园散步吧!

南京市长江大桥于一九六八年建成通车。
它是长江上第一座由中国自行设计的大桥。
"""


Build = Callable[..., Path]


@pytest.fixture
def english(sample: Path, tokenizer_path: Path, tmp_path: Path) -> Build:
    """Build a data set of the sample; gives its folder."""
    return lambda *flags: build_sample(sample, tokenizer_path, tmp_path / "out", *flags)


def build_sample(sample: Path, tokenizer_path: Path, folder: Path, *flags: str) -> Path:
    share = ("--validation-share", "0.2")
    build([sample], tokenizer_path, folder, *share, *flags, objective="ernie")
    return folder


@pytest.fixture(scope="module")
def references(
    sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The sample's data set in both formats, each built in one process from one range."""
    root = tmp_path_factory.mktemp("references")
    return {
        name: build_sample(sample, tokenizer_path, root / name, "--output-format", name)
        for name in ("parquet", "ernie-text")
    }


@pytest.fixture
def chinese(tmp_path: Path) -> Build:
    """Build a data set of some Chinese sentences, a token a character; gives its folder."""
    corpus, vocabulary = tmp_path / "corpus.txt", tmp_path / "vocab.txt"
    corpus.write_text(CHINESE * 5)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set("".join(CHINESE.split())))]
    vocabulary.write_text("\n".join(tokens) + "\n")

    def run(*flags: str) -> Path:
        folder = tmp_path / "out"
        build([corpus], vocabulary, folder, "--words", "jieba", *flags, objective="ernie")
        return folder

    return run


def lines_of(folder: Path, split: str) -> list[dict[str, Any]]:
    """The rows of a data set in the original's text, as its trainer reads them."""
    results = []
    for shard in find_files(folder, f"{split}-*.gz"):
        for line in gzip.decompress(shard.read_bytes()).decode().splitlines():
            ids, types, positions, seg_labels, label = (
                [int(number) for number in field.split(" ")] for field in line.split(";")
            )
            assert positions == list(range(len(ids)))
            results.append(
                {
                    "input_ids": ids,
                    "token_type_ids": types,
                    "seg_labels": seg_labels,
                    "next_sentence_label": 1 - label[0],
                }
            )
    return results


def test_the_text_holds_the_rows_of_parquet(references: dict[str, Path]) -> None:
    for split in ("train", "validation"):
        rows = rows_of(references["parquet"], f"{split}-*")
        assert lines_of(references["ernie-text"], split) == rows
    assert len(rows_of(references["parquet"], "train-*")) > 100
    for folder in references.values():
        assert not verify(folder)


def test_labels_tell_the_words_of_the_text(
    references: dict[str, Path], tokenizer: TokenizerFile
) -> None:
    pieces = Tokenizer.from_str(tokenizer.json)
    rule = load_words("unicode")
    assert rule is not None
    for row in rows_of(references["parquet"]):
        words: list[str] = []
        for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
            text = (pieces.id_to_token(token) or "").removeprefix("##")
            if label == 1:
                words[-1] += text
            else:
                words.append(text)
        for word in words:
            assert word.startswith("[") or len(rule.cut(word)) == 1, word
        assert row["seg_labels"].count(-1) == 3


def test_static_masks_are_of_whole_words_and_the_same_in_every_run(
    english: Build, references: dict[str, Path]
) -> None:
    static = english("--mask", "static")
    assert not verify(static)
    predictions = tokens = 0
    rows = rows_of(static)
    for row, masked in zip(rows_of(references["parquet"]), rows, strict=True):
        places, seg_labels = masked["masked_lm_positions"], masked["seg_labels"]
        assert unmask(masked) == row["input_ids"]
        assert seg_labels == row["seg_labels"]
        for place, label in enumerate(seg_labels):
            assert label != 1 or (place in places) == (place - 1 in places)
        predictions += len(places)
        tokens += len(row["input_ids"]) - 3
    assert 0.12 < predictions / tokens < 0.18
    before = digests_by_version(static)
    again = english("--mask", "static", "--replace", "--range-bytes", "3000")
    assert digests_by_version(again) == before


def test_chinese_words_are_phrases_of_jieba(chinese: Build) -> None:
    folder = chinese("--document-rule", "blank-lines")
    assert not verify(folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    characters = {number: token for token, number in vocabulary.items()}
    words, word = set[str](), ""
    for row in rows_of(folder):
        for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
            word = word + characters[token] if label == 1 else characters[token]
            words.add(word)
    assert {"中国科学院", "北京大学", "清华大学", "喜欢", "长江大桥", "。"} <= words


def test_the_originals_files_stand_beside_its_text(chinese: Build) -> None:
    flags = ("--output-format", "ernie-text", "--mask-word-prob", "0.5")
    folder = chinese(*flags, "--validation-share", "0.3")
    assert not verify(folder)
    for split, name in (("train", "train_filelist"), ("validation", "valid_filelist")):
        results = [line.split("\t") for line in (folder / name).read_text().splitlines()]
        shards = [path.name for path in find_files(folder, f"{split}-*.gz")]
        assert shards
        assert results == [[f"v1/{shard}", "0.5"] for shard in shards]
    ids = dict(line.split("\t") for line in (folder / "vocab.txt").read_text().splitlines())
    assert (ids["[CLS]"], ids["[MASK]"]) == ("2", "4")
    listed = {file["file"] for file in jobs.read_manifest_json(folder)["files"]}
    assert {
        f"v1/root/{name}" for name in ("train_filelist", "valid_filelist", "vocab.txt")
    } <= listed
    # They are ours, and go with the data set when another takes its place.
    again = chinese("--replace")
    assert not verify(again)
    assert not list(again.rglob("train_filelist"))


@pytest.mark.parametrize("output_format", ["parquet", "ernie-text"])
def test_inspect_shows_words(chinese: Build, output_format: str) -> None:
    folder = chinese("--output-format", output_format)
    outcome = run_here("inspect", folder, "--examples", "20")
    assert "南京市 长江大桥" in outcome.output
    assert "tokens per word" in outcome.output
    assert "words" in outcome.output


def test_inspect_shows_masks(chinese: Build) -> None:
    folder = chinese("--mask", "static")
    outcome = run_here("inspect", folder, "--examples", "20")
    assert "[MASK->" in outcome.output
