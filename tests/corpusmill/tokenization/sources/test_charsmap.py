"""SentencePiece's maps of characters, against a plain reading of the longest key at each place."""

import io
import os
import struct
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import Normalizer, Sequence

from corpusmill.tokenization.sources.charsmap import map_as_sentencepiece, read_map

sentencepiece = pytest.importorskip("sentencepiece")
from corpusmill.tokenization.sources.sentencepiece import parse_model  # noqa: E402

# A map has 225,000 keys, most of them a letter with accents.
STEP = 1 if os.environ.get("CORPUSMILL_ALL_MOMENTS") else 101
RULES = ("nmt_nfkc", "nmt_nfkc_cf", "nfkc")


@cache
def steps_of(rule: str) -> tuple[Normalizer, dict[str, str]]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d"] * 9), model_writer=model, minloglevel=2,
        vocab_size=20, hard_vocab_limit=False, normalization_rule_name=rule,
    )  # fmt: skip
    charsmap = parse_model(model.getvalue()).normalizer_spec.precompiled_charsmap
    return Sequence(list(map_as_sentencepiece(charsmap))), read_map(charsmap)


@cache
def keys_of(rule: str) -> st.SearchStrategy[str]:
    _, values = steps_of(rule)
    return st.sampled_from([key for key in values if max(map(ord, key)) < 0x11380])


def replace_longest(text: str, values: dict[str, str]) -> str:
    longest, parts, place = max(map(len, values)), [], 0
    while place < len(text):
        sizes = range(min(longest, len(text) - place), 0, -1)
        size = next((size for size in sizes if text[place : place + size] in values), 1)
        part = text[place : place + size]
        parts.append(values.get(part, part))
        place += size
    return "".join(parts)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("before", ["A", "\u2460", "e\u0301\r"])
def test_keys_their_characters_and_others_after_others(rule: str, before: str) -> None:
    """All of them where `CORPUSMILL_ALL_MOMENTS` is set."""
    steps, values = steps_of(rule)
    codes = (code for code in range(0, 0x30000, STEP) if not 0xD800 <= code < 0xE000)
    for texts in ([*values][::STEP], sorted(set("".join(values))), map(chr, codes)):
        text = before.join(["", *texts, ""])
        expected = replace_longest(text, values)
        mapped = steps.normalize_str(text)
        # Only the end is compared, which a failure can show.
        wrong = (n for n, (a, b) in enumerate(zip(mapped, expected, strict=False)) if a != b)
        place = next(wrong, len(expected))
        assert mapped[place - 9 :] == expected[place - 9 :]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), rule=st.sampled_from(RULES))
def test_keys_side_by_side(data: st.DataObject, rule: str) -> None:
    steps, values = steps_of(rule)
    key = keys_of(rule)
    parts = st.lists(key | key.map(lambda key: key[1:]) | st.text(max_size=2), max_size=6)
    text = "".join(data.draw(parts))
    assert steps.normalize_str(text) == replace_longest(text, values)


def test_a_map_whose_keys_have_no_end_is_refused() -> None:
    # The first child of each unit is the unit itself, and there are two ways to go on.
    units = [0] * 256
    for label in (97, 98):
        units[label] = label | (label ^ 0) << 10
    with pytest.raises(ValueError, match="no end"):
        read_map(struct.pack("<I256I", 1024, *units))
