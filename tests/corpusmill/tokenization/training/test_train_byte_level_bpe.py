"""Byte-level BPE: the file of the library's own class, from the counts of words."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer

from corpusmill.tokenization.training.models import ALPHABET, ByteLevelBpeOptions
from tests.tools.tokenizer_samples import TEXT
from tests.tools.training import train

SPACED = ["今天天气很好。" * 30 + " ab", *TEXT, " two  three   four \u3000 five\t six\n"]
SPACED += ["\u00a0\u00a0 \u00b4 \u0301 seven", "", "  "]


def plain(text: list[str], options: ByteLevelBpeOptions, **other: Any) -> str:
    tokenizer = ByteLevelBPETokenizer(
        add_prefix_space=options.add_prefix_space, trim_offsets=options.trim_offsets, **other
    )
    tokenizer.train_from_iterator(
        text,
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        show_progress=False,
        special_tokens=list(options.special_tokens),
    )
    return str(tokenizer.to_str(pretty=True))


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("trim", [False, True])
def test_the_file_is_that_of_the_librarys_class(prefix: bool, trim: bool) -> None:
    options = ByteLevelBpeOptions(
        vocab_size=400, add_prefix_space=prefix, trim_offsets=trim, min_frequency=1
    )
    assert train([SPACED], options) == plain(SPACED, options)


def test_normalizers_give_the_file_of_the_librarys_class() -> None:
    options = ByteLevelBpeOptions(vocab_size=400, normalizers=("nfkc", "lowercase"))
    expected = plain(SPACED, options, unicode_normalizer="nfkc", lowercase=True)
    assert train([SPACED], options) == expected


def test_wikitext_2_gives_the_file_of_the_librarys_class(wikitext: Path) -> None:
    content = (wikitext / "wiki.train.tokens").read_text("utf-8")
    text = [line.strip() for line in content.splitlines()]
    text = [line for line in text if line]
    options = ByteLevelBpeOptions()
    ours = train([text], options)
    assert len(json.loads(ours)["model"]["vocab"]) == 30000
    assert ours == plain(text, options)


def test_special_tokens_then_bytes_then_joined_pieces() -> None:
    special = ("<b>", "<a>", "!")  # "!" is a byte, too
    options = ByteLevelBpeOptions(vocab_size=260, special_tokens=special)
    vocabulary = json.loads(train([["ab ab ab b"] * 3], options))["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    bytes_left = [byte for byte in ALPHABET if byte not in special]
    assert tokens == [*special, *bytes_left, "ab", "Ġab"]


def test_any_text_is_decoded_to_itself() -> None:
    tokenizer = Tokenizer.from_str(train([TEXT], ByteLevelBpeOptions()))
    text = "naïve 株式会社 👍🏽 \x00 never seen: ᚠᛇ"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    assert "<unk>" not in encoded.tokens


def test_dropout_is_written_to_the_file_and_does_not_affect_the_training() -> None:
    with_dropout = json.loads(train([TEXT], ByteLevelBpeOptions(dropout=0.25)))
    without = json.loads(train([TEXT], ByteLevelBpeOptions()))
    assert with_dropout["model"].pop("dropout") == 0.25
    assert without["model"].pop("dropout") is None
    assert with_dropout == without


def test_as_few_tokens_as_there_are_bytes_are_enough() -> None:
    options = ByteLevelBpeOptions(vocab_size=256, special_tokens=())
    assert Tokenizer.from_str(train([TEXT], options)).get_vocab_size() == 256
