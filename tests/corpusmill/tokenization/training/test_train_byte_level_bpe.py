"""Byte-level BPE: the file of the library's own class, from the counts of words."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

import corpusmill
from corpusmill.errors import UserError
from corpusmill.tokenization.compiled.byte_level_bpe import is_known
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.training.models import ALPHABET, ByteLevelBpeOptions
from corpusmill.tokenization.training.parts import PATTERNS, split_by
from tests.tools.token_rows import encoded_rows, plain_rows
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


def plain_by_pattern(text: list[str], options: ByteLevelBpeOptions) -> Tokenizer:
    """The library's own trainer, with the same steps."""
    tokenizer, is_usual = Tokenizer(BPE()), options.pattern == "gpt2"
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_usual)
    tokenizer.pre_tokenizer = last
    if not is_usual:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split_by(options.pattern), last])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = BpeTrainer(
        vocab_size=options.vocab_size, min_frequency=options.min_frequency, show_progress=False,
        special_tokens=[*options.special_tokens], initial_alphabet=[*ALPHABET],
    )  # fmt: skip
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


MIXED = [
    *SPACED,
    "In 1984, 12345 and 99 of 100\u2167 \u0663\u0664 a12b 7",
    "don't 'ſ x'ſ \u200d\u0301e",
    "I'LL we'Re\r\n\r\n  {x}//\n",
    "HelloWorld helloWORLD 株式会社12年カナ e\u0301 \u0378",
]
OWN = (r"\p{L}+|\p{N}| +", "zzzz+", r".|\n", r"\s*", r"(?<=a)b|\R")


def check_patterns(text: list[str], patterns: Iterable[str], size: int) -> None:
    for pattern in patterns:
        options = ByteLevelBpeOptions(vocab_size=size, pattern=pattern)
        trained, plain = train([text], options), plain_by_pattern(text, options)
        assert trained == plain.to_str(pretty=True), pattern
        tokenizer = SentenceTokenizer(trained, np.dtype(np.int32))
        assert encoded_rows(tokenizer, text) == plain_rows(plain, text), pattern
        assert is_known(json.loads(trained)) == (pattern in PATTERNS), pattern


def test_words_are_cut_by_a_pattern_as_the_librarys_trainer_cuts_them() -> None:
    check_patterns(MIXED, [*PATTERNS, *OWN], 400)


def test_real_text_and_code_give_the_file_of_the_librarys_trainer(wikitext: Path) -> None:
    lines = (wikitext / "wiki.train.tokens").read_text("utf-8")[:600_000].splitlines()
    check_patterns([line for line in lines if line], [*PATTERNS, OWN[0]], 4000)
    folder = Path(corpusmill.__file__).parent / "tokenization"
    code = [path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))]
    check_patterns(code, [*PATTERNS, OWN[0]], 4000)


def test_a_pattern_that_cannot_be_used_is_refused() -> None:
    for wrong, part in {
        "gpt-2": "no pattern has this name. Did you mean gpt2?",
        "org/llama-3.1": "no pattern has this name",
        "": "no pattern has this name",
        "(a": "it cannot be used (Oniguruma error: end pattern with unmatched parenthesis)",
        "\ud800": "it cannot be used",
    }.items():
        with pytest.raises(UserError, match=re.escape(part)):
            ByteLevelBpeOptions(pattern=wrong)
    with pytest.raises(UserError, match="--add-prefix-space: it does not go with --pattern qwen2"):
        ByteLevelBpeOptions(pattern="qwen2", add_prefix_space=True)
    with pytest.raises(UserError, match=r"--pattern \(a\+\)\+\$: .*retry-limit-in-match over"):
        train([["a" * 40 + "b"]], ByteLevelBpeOptions(pattern="(a+)+$"))


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
