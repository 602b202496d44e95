"""Which tokenizers have a memo of words."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from corpusmill.tokenization.compiled.exactness import choose_unit_rule
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import hide_special_tokens
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH


def changed(name: str, **parts: Any) -> Callable[[], str]:
    return lambda: json.dumps({**json.loads((MEMOIZING | PLAIN_PATH)[name]), **parts})


def state(component: Any) -> Any:
    return json.loads(component.__getstate__())


def truncating(name: str) -> str:
    tokenizer = Tokenizer.from_str(MEMOIZING[name])
    tokenizer.enable_truncation(8)
    return str(tokenizer.to_str())


SPLIT = pre_tokenizers.Split(Regex(r"\p{L}+ ?|[^\p{L}]+"), "isolated")
LOOKING_AHEAD = state(pre_tokenizers.Sequence([SPLIT, pre_tokenizers.ByteLevel(use_regex=False)]))
STRIP = normalizers.Sequence([normalizers.Strip()])
NESTED_STRIP = state(normalizers.Sequence([normalizers.NFC(), STRIP]))


def added(**flags: Any) -> list[dict[str, Any]]:
    token = {"id": 5, "content": "a", "special": False, "normalized": False}
    return [{**token, "lstrip": False, "rstrip": False, "single_word": False, **flags}]


@pytest.mark.parametrize(
    ("describe", "why"),
    [
        (changed("ByteLevel, no regex"), "ByteLevel"),
        (changed("CL100K", pre_tokenizer=LOOKING_AHEAD), "Split, then Byte"),
        (changed("GPT-2", normalizer=state(normalizers.StripAccents())), "StripAccents"),
        (changed("GPT-2", normalizer=state(normalizers.BertNormalizer())), "BertNormalizer"),
        (changed("GPT-2", added_tokens=added(rstrip=True)), "neighbours"),
        (changed("Unigram", normalizer=state(normalizers.BertNormalizer())), "Metaspace"),
        (changed("BPE", pre_tokenizer=None), "pre-tokenizer"),
        (changed("BPE", pre_tokenizer=state(pre_tokenizers.Metaspace())), "Metaspace"),
        (changed("BPE", pre_tokenizer=state(pre_tokenizers.Punctuation())), "Punctuation"),
        (changed("BPE", normalizer=state(normalizers.Strip())), "Strip"),
        (changed("BPE", normalizer=state(normalizers.Replace(" ", "_"))), "Replace"),
        (changed("BPE", normalizer=state(normalizers.Prepend("_"))), "Prepend"),
        (changed("BPE", normalizer=NESTED_STRIP), "Strip"),
        (changed("BPE", model={**json.loads(MEMOIZING["BPE"])["model"], "dropout": 0.1}), "random"),
        (changed("BPE", added_tokens=added(content="a b")), "holds a space"),
        (changed("BPE", added_tokens=added(lstrip=True)), "neighbours"),
        (changed("BPE", added_tokens=added(rstrip=True)), "neighbours"),
        (changed("BPE", added_tokens=added(single_word=True)), "neighbours"),
        # Becomes " a " when normalized, next to the spaces around a word.
        (changed("WordPiece, cased", added_tokens=added(content="株", normalized=True)), "a space"),
        (partial(truncating, "BPE"), "truncates"),
        (changed("BPE", post_processor=state(TemplateProcessing("$A $A"))), "post-processor"),
    ],
)
def test_tokenizers_that_may_look_across_spaces_take_the_plain_path(
    describe: Callable[[], str], why: str
) -> None:
    tokenizer_json = describe()
    assert not SentenceTokenizer(tokenizer_json, np.dtype(np.int32)).memoizes
    _, objection = choose_unit_rule(json.loads(tokenizer_json), Tokenizer.from_str(tokenizer_json))
    assert why in objection


def test_no_character_becomes_white_space_or_nothing_where_words_own_spaces() -> None:
    # The condition for these normalizers to be in `_KEEPING`.
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    solid = [character for character in characters if not character.isspace()]
    changed_ones = 0
    for normalizer in (normalizers.NFC(), normalizers.NFKC(), normalizers.NFKD()):
        for first in range(0, len(solid), 256):
            together = "|".join(solid[first : first + 256])
            if normalizer.normalize_str(together) == together:
                continue
            for character in solid[first : first + 256]:
                normalized = normalizer.normalize_str(character)
                changed_ones += normalized != character
                assert normalized
                assert not normalized[-1].isspace(), hex(ord(character))
    assert changed_ones > 10_000


@pytest.mark.parametrize("name", MEMOIZING)
def test_special_tokens_that_no_text_becomes_change_no_rule(name: str) -> None:
    """Builds hide them by default, under names that have a noncharacter."""
    rules = []
    for text, hides in ((MEMOIZING[name], False), (hide_special_tokens(MEMOIZING[name]), True)):
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode_special_tokens = hides
        rules.append(choose_unit_rule(json.loads(text), tokenizer))
    assert rules[0] == rules[1]
