"""Whole jobs that mask words, as BERT and ERNIE do, of English and Chinese, n-grams or nothing."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.tokenization.words.words import cut_unicode
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import find_files
from tests.tools.jobs import build, read_manifest_json, rows_of, run_here, unmask

WORDS = ("--whole-word-mask",)
NGRAMS = ("--whole-word-mask", "--ngram", "3")
DYNAMIC = ("--mask", "dynamic")
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


@pytest.fixture(scope="module", params=["wordpiece", "byte-level"])
def make(
    request: pytest.FixtureRequest, sample: Path, tokenizer_path: Path, build_once: Build,
    tmp_path_factory: pytest.TempPathFactory,
) -> Build:  # fmt: skip
    """Builds a data set of the sample with flags, once for the same flags."""
    path = tokenizer_path
    if request.param == "byte-level":
        path = tmp_path_factory.mktemp("byte-level") / "tokenizer.json"
        jobs.train(sample, path, *jobs.BYTE_LEVEL)
    return partial(build_once, sample, path, "--validation-share", "0.2")


def words_of(labels: list[int]) -> Iterator[range]:
    """The places of each word; specials are none."""
    for start, label in enumerate(labels):
        if label == 0:
            end = start + 1
            while labels[end] == 1:
                end += 1
            yield range(start, end)


@pytest.mark.parametrize(
    ("objective", "flags"),
    [("bert", WORDS), ("bert", NGRAMS), ("ernie", ("--mask", "static"))],
    ids=["words", "ngrams", "ernie"],
)
def test_words_are_masked_whole(make: Build, objective: str, flags: tuple[str, ...]) -> None:
    words = WORDS if objective == "bert" else ()
    static = rows_of(make(*flags, objective=objective))
    dynamic = rows_of(make(*words, *DYNAMIC, objective=objective))
    of_several_tokens = 0
    for row, unmasked in zip(static, dynamic, strict=True):
        assert unmask(row) == unmasked["input_ids"]
        positions = set(row["masked_lm_positions"])
        for word in words_of(unmasked["seg_labels"]):
            assert positions.isdisjoint(word) or positions.issuperset(word)
            of_several_tokens += len(word) > 1 and not positions.isdisjoint(word)
    assert of_several_tokens > len(static)


def test_labels_tell_the_words_of_the_text(make: Build, sample: Path) -> None:
    folder = make(*WORDS, *DYNAMIC)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = sample.read_text()
    words = {text[begin:end] for begin, end in cut_unicode(text)}
    if tokenizer.normalizer is not None:
        words = {tokenizer.normalizer.normalize_str(word).strip() for word in words}
    seen = set()
    for row in rows_of(folder):
        labels = row["seg_labels"]
        for word in words_of(labels):
            # Words at the border of a segment may be cut.
            if labels[word[0] - 1] != -1 and labels[word[-1] + 1] != -1:
                seen.add(tokenizer.decode([row["input_ids"][place] for place in word]).strip())
    # Signs may share a token, as in WikiText's @-@.
    assert {word for word in seen if word.isalnum()} <= words
    assert len(seen & words) > 0.5 * len(words)


@pytest.mark.parametrize("flags", [NGRAMS, DYNAMIC, WORDS + DYNAMIC], ids=" ".join)
def test_what_is_built_can_be_verified_and_inspected(make: Build, flags: tuple[str, ...]) -> None:
    folder = make(*flags)
    assert not verify(folder)
    shown = run_here("inspect", folder, "--examples", "3")
    static = flags == NGRAMS
    legend = "[MASK->masked]"
    assert ("[MASK->" in shown.output.replace(legend, "")) == static
    manifest = read_manifest_json(folder)
    distributions = manifest["splits"]["train"]["distributions"]
    assert ("predictions" in distributions) == static
    # A reader masks by what the manifest says.
    options = manifest["objective"]["options"]
    assert (options["masked_lm_prob"], options["max_predictions_per_seq"]) == (0.15, 20)
    assert (options["whole_word_mask"], options["ngram"]) == (
        "--whole-word-mask" in flags,
        3 if flags == NGRAMS else 1,
    )


def test_padded_labels_are_verified(make: Build) -> None:
    folder = make(*WORDS, *DYNAMIC, "--padding", "max_length")
    assert not verify(folder)
    for row, plain in zip(rows_of(folder), rows_of(make(*WORDS, *DYNAMIC)), strict=True):
        missing = 64 - len(plain["seg_labels"])
        assert row["seg_labels"] == plain["seg_labels"] + [-1] * missing


def overlapping(text: str) -> list[tuple[int, int]]:
    return [(0, 2), (1, 3)] if len(text) > 2 else []


def test_a_rule_that_gives_no_words_is_refused_by_the_probe(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    rule = ("--words", f"{__name__}:overlapping")
    parts = (f"{' '.join(rule)}: for ", "it returns")
    build([sample], tokenizer_path, output, "--whole-word-mask", *rule, refused=parts)
    assert not output.exists()


# Chinese, with a token a character


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


def test_inspect_shows_words_and_masks(chinese: Build) -> None:
    shown = run_here("inspect", chinese("--output-format", "ernie-text"), "--examples", "20").output
    assert "南京市 长江大桥" in shown
    assert "tokens per word" in shown
    masked = chinese("--mask", "static", "--replace")
    assert "[MASK->" in run_here("inspect", masked, "--examples", "20").output
