"""A byte-level BPE tokenizer's ids without the tokenizer: from its tokenizer.json, compiled.

For tokenizers whose steps are all known; a text that holds a character of which it is not, or maybe
an added token, goes to the tokenizer itself. Text is never normalized here.
"""

import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from corpusmill.arrays import ragged
from corpusmill.tokenization.compiled.byte_level_kernels import (
    LETTER,
    LONGEST_PIECE,
    MOST_MERGES,
    NUMBER,
    SPACE,
    UNKNOWN,
    Merges,
    Rules,
    encode_spans,
    fill_pairs,
    merge_tokens,
)
from corpusmill.tokenization.compiled.byte_level_patterns import (
    CL100K,
    GPT2,
    QWEN2,
    byte_alphabet,
)
from corpusmill.tokenization.compiled.exactness import find_pattern, flatten_steps
from corpusmill.tokenization.compiled.word_memo import EncodeSpans

_RULES = {
    GPT2: Rules(any_case=False, most_digits=2**62),
    CL100K: Rules(any_case=True, most_digits=3),
    QWEN2: Rules(any_case=True, most_digits=1),
}
# The characters of Unicode's property White_Space, which is what \s means.
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip
# Behind the last letters that are assigned.
_LAST_CODE = 0x34000


@cache
def character_classes() -> np.ndarray:
    """The class of every code point, uint8[0x110000]; UNKNOWN where Unicode has assigned none yet.

    The tokenizer may know a later Unicode.
    """
    classes = np.full(0x110000, UNKNOWN, np.uint8)
    of_category = {"L": LETTER, "N": NUMBER, "M": 0, "P": 0, "S": 0, "Z": 0, "C": 0}
    categories = [unicodedata.category(chr(code)) for code in range(_LAST_CODE)]
    classes[:_LAST_CODE] = [
        UNKNOWN if category == "Cn" else of_category[category[0]] for category in categories
    ]
    classes[list(_WHITE_SPACE)] = SPACE
    return classes


class ByteLevelEncoder:
    """The ids of stretches of text.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        encode_plainly: the tokenizer, for stretches of which the ids are not known.
    """

    def __init__(self, tokenizer_json: Mapping[str, Any], encode_plainly: EncodeSpans) -> None:
        self._plainly = encode_plainly
        self._rules = _RULES[find_pattern(tokenizer_json) or GPT2]
        self._merges = read_merges(tokenizer_json["model"])
        self._classes = character_classes()
        if tokenizer_json.get("normalizer"):  # changes no ASCII
            self._classes = np.where(np.arange(0x110000) < 0x80, self._classes, UNKNOWN)
        added = tokenizer_json.get("added_tokens") or ()
        self._token_starts = np.zeros(256, np.bool_)
        self._token_starts[[token["content"].encode()[0] for token in added]] = True

    def encode(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of stretches, each taken as a text of its own.

        Args:
            text: uint8[bytes], valid UTF-8.
            spans: int64[n, 2], first byte and end of each.

        Returns:
            ids: int32[...], one stretch's behind the other's.
            ends: int64[n + 1] into the ids.
        """
        ids, ends, left = encode_spans(
            self._rules, self._classes, self._merges, self._token_starts, text, spans
        )
        return fill_in(ids, ends, left, self._plainly, text, spans)


def fill_in(
    ids: np.ndarray,
    ends: np.ndarray,
    left: np.ndarray,
    encode_plainly: EncodeSpans,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of stretches, those of some from another tokenizer.

    Args:
        ids: int32[...], one stretch's behind the other's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that have no ids yet.
        encode_plainly: gives the ids of these.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids and ends of all.
    """
    if not left.any():
        return ids, ends
    others, other_ends = encode_plainly(text, spans[left])
    # Each stretch's ids are a row of one of the two.
    rows = np.arange(len(spans))
    rows[left] = len(spans) + np.arange(len(other_ends) - 1)
    offsets = np.concatenate([ends, len(ids) + other_ends[1:]]).astype(np.int32)
    ids, ends = ragged.take(np.concatenate([ids, others]), offsets, rows)
    return ids, ends.astype(np.int64)


def read_merges(model: Mapping[str, Any]) -> Merges:
    """The tables of a BPE model.

    Args:
        model: of a tokenizer.json.
    """
    vocabulary = model["vocab"]
    byte_ids = np.empty(256, np.int32)
    for character, byte in byte_alphabet().items():
        byte_ids[byte] = vocabulary[character]
    sides = [of.split(" ") if isinstance(of, str) else of for of in model["merges"]]
    ids = np.array(
        [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in sides],
        np.uint64,
    ).reshape(-1, 3)
    half = np.uint64(32)
    pairs = np.full((1 << (2 * len(ids) + 1).bit_length(), 2), 2**64 - 1, np.uint64)
    ranks = np.arange(len(ids), dtype=np.uint64)
    fill_pairs(pairs, ids[:, 0] << half | ids[:, 1], ranks << half | ids[:, 2])
    return Merges(byte_ids, pairs)


def is_known(tokenizer_json: Mapping[str, Any]) -> bool:
    """Whether a tokenizer may be compiled, of those that `choose_unit_rule` has no objection to."""
    model, alphabet = tokenizer_json["model"], byte_alphabet()
    normalizer = tokenizer_json.get("normalizer")
    steps = flatten_steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")
    return (
        find_pattern(tokenizer_json) in _RULES
        and (normalizer is None or normalizer["type"] in {"NFC", "NFKC"})
        and not any(step.get("add_prefix_space") for step in steps)
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
        and model["vocab"].keys() >= alphabet.keys()
        and len(model["merges"]) < MOST_MERGES
        and (not model.get("ignore_merges") or _merges_make_every_token(tokenizer_json))
    )


def _merges_make_every_token(tokenizer_json: Mapping[str, Any]) -> bool:
    """Whether the bytes of each token of the vocabulary are merged to that token.

    Then it does not matter whether a piece that is a token is looked up as a whole.
    """
    alphabet, merges = byte_alphabet(), read_merges(tokenizer_json["model"])
    added = {token["content"] for token in tokenizer_json.get("added_tokens") or ()}
    tokens = {
        token: number
        for token, number in tokenizer_json["model"]["vocab"].items()
        if 0 < len(token) <= LONGEST_PIECE and alphabet.keys() >= set(token) and token not in added
    }
    text = np.array([alphabet[character] for token in tokens for character in token], np.uint8)
    ends = np.cumsum([0, *map(len, tokens)])
    return bool(np.array_equal(merge_tokens(merges, text, ends), [*tokens.values()]))
