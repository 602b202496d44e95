"""The options of every model: their checks, and which model has which."""

from dataclasses import fields
from typing import Any

import pytest

from corpusmill.errors import UserError
from corpusmill.tokenization.training.models import (
    MODELS,
    ByteLevelBpeOptions,
    WordPieceOptions,
    model_options,
)
from corpusmill.tokenization.training.parts import SPECIAL_TOKENS, make_normalizer


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"special_tokens": ("<a>", "<b>", "<a>")}, "--special-tokens <a> <b> <a>.*twice"),
        ({"special_tokens": ("<a>", "")}, "--special-tokens <a> : one of them is empty"),
        ({"special_tokens": ("<a>", "\udce9")}, "one of them is not UTF-8"),
        ({"normalizers": ("nfq",)}, "--normalizers nfq.*nfc, nfd, nfkc"),
        ({"max_distinct_words": 0}, "--max-distinct-words 0"),
        ({"vocab_size": 1}, "--vocab-size 1"),
        ({"vocab_size": 2**24 + 1}, "--vocab-size 16777217"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused(model: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        model_options(model, wrong)


@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        ("wordpiece", {"vocab_size": 5}, "--vocab-size 5"),
        ("wordpiece", {"vocab_size": 0}, "--vocab-size 0"),
        ("wordpiece", {"min_frequency": 0}, "--min-frequency 0"),
        ("wordpiece", {"min_frequency": 2**63}, "--min-frequency 9223372036854775808"),
        ("wordlevel", {"min_frequency": 0}, "--min-frequency 0"),
        ("bpe", {"vocab_size": 260}, "--vocab-size 260.*261"),
        ("bpe", {"vocab_size": 257, "special_tokens": ("!", "東", "a b")}, "--vocab-size 257.*258"),
        ("bpe", {"min_frequency": 0}, "--min-frequency 0"),
        ("bpe", {"dropout": 1.1}, "--dropout 1.1"),
        ("bpe", {"dropout": -0.1}, "--dropout -0.1"),
        ("unigram", {"vocab_size": 6}, "--vocab-size 6"),
        ("unigram", {"special_tokens": ("<s>",)}, "--unk-token"),
        ("unigram", {"character_coverage": 0.5}, r"--character-coverage 0\.5"),
        ("wordlevel", {"vocab_size": 2}, "--vocab-size 2"),
        ("wordlevel", {"unk_token": "<u>"}, "--unk-token <u>.*none of the special tokens"),
    ],
)
def test_impossible_options_of_one_model_are_refused(
    model: str, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        model_options(model, wrong)


@pytest.mark.parametrize(
    ("model", "option", "value", "have"),
    [
        ("wordpiece", "dropout", 0.1, "bpe"),
        ("bpe", "lowercase", True, "wordpiece"),
        ("unigram", "min_frequency", 2, "wordpiece, bpe, wordlevel"),
        ("wordlevel", "add_prefix_space", False, "bpe"),
        ("bpe", "unk_token", "<unk>", "wordlevel, unigram"),
    ],
)
def test_an_option_of_another_model_is_refused(
    model: str, option: str, value: Any, have: str
) -> None:
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(UserError, match=f"{flag} with --model {model}.*have it: {have}\\."):
        model_options(model, {option: value})


def test_every_options_default_can_be_used() -> None:
    for name, model in MODELS.items():
        options = model_options(name, {})
        defaults = {field.name: field.default for field in fields(model)}
        assert model_options(name, defaults) == options


def test_normalizers_work_in_the_given_order() -> None:
    wide = "\uff21\u0301"
    lower_first = make_normalizer(("lowercase", "nfkc", "strip-accents"))
    assert lower_first is not None
    assert lower_first.normalize_str(wide) == "a"
    # U+2102 has no lower case until it has become a C.
    for names, expected in ((("lowercase", "nfkc"), "C"), (("nfkc", "lowercase"), "c")):
        normalizer = make_normalizer(names)  # type: ignore[arg-type]
        assert normalizer is not None
        assert normalizer.normalize_str("\u2102") == expected
    assert make_normalizer([]) is None


def test_wordpiece_needs_the_tokens_of_bert() -> None:
    with pytest.raises(UserError, match=r"also needs \[CLS\], \[SEP\]"):
        WordPieceOptions(special_tokens=("[PAD]", "[UNK]", "[MASK]"))
    WordPieceOptions(special_tokens=("<a>", *SPECIAL_TOKENS[::-1]))


def test_a_vocabulary_has_at_most_as_many_tokens_as_a_table_of_ids_may_have() -> None:
    assert ByteLevelBpeOptions(vocab_size=2**24).vocab_size == 2**24
    with pytest.raises(UserError, match="16777217"):
        ByteLevelBpeOptions(vocab_size=2**24 + 1)
