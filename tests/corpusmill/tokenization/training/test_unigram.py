"""Unigram: SentencePiece's model, and the same cuts in the tokenizers library."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.training.counted_words import CountedWords
from corpusmill.tokenization.training.models import (
    UnigramOptions,
    _cut_into_parts,
    limit_copies,
    train_sentencepiece,
)
from tests.tools.tokenizer_samples import TEXT
from tests.tools.training import train

UNKNOWN = "<u>"
CHINESE = [
    "今天天气很好\uff0c我们去公园散步。公园里有很多人\uff0c天气很好。",
    "我们今天去公园。天气很好\uff01",
] * 20


def lines(sample: Path) -> list[str]:
    return [line.strip() for line in sample.read_text("utf-8").splitlines() if line.strip()]


def test_the_tokenizer_cuts_like_sentencepiece_and_decodes_to_the_text(sample: Path) -> None:
    text = lines(sample)
    options = UnigramOptions(vocab_size=1500)
    tokenizer = Tokenizer.from_str(train([text], options))
    counts = Counter("▁" + word for line in text for word in line.split(" "))
    words = pa.array([word.encode() for word in sorted(counts)], pa.large_binary())
    counted = CountedWords(words, np.array([counts[word] for word in sorted(counts)]))
    model = train_sentencepiece(counted, 1495, options)
    processor = SentencePieceProcessor(model_proto=model)
    assert tokenizer.get_vocab_size() == 1500
    for line in text:
        expected = processor.encode("▁" + line.replace(" ", "▁"), out_type=str)
        encoded = tokenizer.encode(line)
        assert encoded.tokens == expected
        assert tokenizer.decode(encoded.ids) == line


def test_special_tokens_then_pieces_by_probability(sample: Path) -> None:
    special = ("<mask>", "<pad>", UNKNOWN)
    options = UnigramOptions(vocab_size=500, special_tokens=special, unk_token=UNKNOWN)
    model = json.loads(train([lines(sample)], options))["model"]
    tokens, scores = zip(*model["vocab"], strict=True)
    assert tokens[:3] == special
    assert model["unk_id"] == 2
    assert list(scores[3:]) == sorted(scores[3:], reverse=True)
    assert len(set(tokens)) == len(tokens) == 500


def test_every_character_is_a_token_even_if_the_trainer_reserves_it() -> None:
    text = ["a\tb \u2585 c ⁇ d", "x\0y", *TEXT]
    tokenizer = Tokenizer.from_str(train([text], UnigramOptions(vocab_size=200)))
    unknown = tokenizer.get_vocab()["<unk>"]
    for line in text:
        assert tokenizer.encode(line).ids.count(unknown) == line.count("<unk>")
    assert tokenizer.encode("ᚠ").ids[-1] == unknown


def test_text_without_spaces_gives_words() -> None:
    tokenizer = Tokenizer.from_str(train([CHINESE], UnigramOptions(vocab_size=48)))
    tokens = tokenizer.encode("天气很好\uff0c公园").tokens
    assert "公园" in tokens
    assert "".join(tokens) == "▁天气很好\uff0c公园"


def test_a_line_of_a_million_letters_is_used() -> None:
    text = ["東京株式" * 250_000, *TEXT]
    tokenizer = Tokenizer.from_str(train([text], UnigramOptions(vocab_size=120)))
    assert tokenizer.token_to_id("株") is not None


def test_rare_characters_are_left_out_by_coverage() -> None:
    text = ["common words here"] * 100 + ["ᚠ"]
    options = UnigramOptions(vocab_size=40, character_coverage=0.999)
    tokenizer = Tokenizer.from_str(train([text], options))
    assert tokenizer.token_to_id("ᚠ") is None
    assert tokenizer.token_to_id("w") is not None


def test_more_characters_than_tokens_are_refused() -> None:
    with pytest.raises(UserError, match=r"--vocab-size 20: .*characters of the corpus alone need"):
        train([TEXT], UnigramOptions(vocab_size=20))
    with pytest.raises(UserError, match=r"--vocab-size 20: SentencePiece.* --character-coverage"):
        train([TEXT], UnigramOptions(vocab_size=20, character_coverage=0.999))
    needed = 5 + 1 + len(set("".join(TEXT)) - {" "})
    train([TEXT], UnigramOptions(vocab_size=needed))
    with pytest.raises(UserError, match=f"need {needed}"):
        train([TEXT], UnigramOptions(vocab_size=needed - 1))


@pytest.mark.parametrize(
    ("most", "expected"),
    [(100, [10, 4, 1]), (30, [10, 4, 1]), (29, [10, 4, 1]), (15, [5, 2, 1]), (1, [1, 1, 1])],
)
def test_counts_are_divided_so_that_their_copies_fit(most: int, expected: list[int]) -> None:
    words = CountedWords(pa.array([b"ab", b"cd", b"ef"], pa.large_binary()), np.array([10, 4, 1]))
    limited = limit_copies(words, most)
    assert limited.counts.tolist() == expected
    assert limited.words == words.words


def test_a_share_of_the_counts_gives_nearly_as_good_a_vocabulary(sample: Path) -> None:
    text = lines(sample)
    sizes = []
    for most in (10**9, 15_000):
        options = UnigramOptions(vocab_size=800, max_trained_bytes=most)
        tokenizer = Tokenizer.from_str(train([text], options))
        sizes.append(sum(len(one.ids) for one in tokenizer.encode_batch(text)))
    assert sizes[0] < sizes[1] < 1.1 * sizes[0]


@pytest.mark.parametrize(("length", "parts"), [(999, 1), (1000, 1), (1001, 2)])
def test_a_word_of_more_than_a_thousand_letters_is_cut(length: int, parts: int) -> None:
    words = CountedWords(pa.array([b"a" * length], pa.large_binary()), np.array([3]))
    cut = _cut_into_parts(words)
    assert (len(cut.words), cut.text_bytes) == (parts, length)
