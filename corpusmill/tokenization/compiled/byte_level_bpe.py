"""A byte-level BPE tokenizer compiled from its tokenizer.json.

Only tokenizers whose steps are all known are compiled; a text with a character of unknown class, or
perhaps an added token, is left to the tokenizer itself. Text is never normalized here.
"""

from functools import partial

import numpy as np

from corpusmill.tokenization.compiled import byte_level_kernels as kernels
from corpusmill.tokenization.compiled import byte_level_pieces as pieces
from corpusmill.tokenization.compiled.byte_level_patterns import CL100K, GPT2, QWEN2, byte_alphabet
from corpusmill.tokenization.compiled.exactness import find_pattern
from corpusmill.tokenization.compiled.hash_table import HALF, make_table
from corpusmill.tokenization.compiled.spans import EncodeSpans, completed, first_bytes
from corpusmill.tokenization.tokenizer_json import Part, added_tokens, list_steps

# any_case and most_digits of `PieceRules`.
_RULES = {GPT2: (False, 2**62), CL100K: (True, 3), QWEN2: (True, 1)}


def compile_byte_level_bpe(tokenizer_json: Part, encode_plainly: EncodeSpans) -> EncodeSpans:
    """Compile a tokenizer.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        encode_plainly: the tokenizer itself, for stretches that the compiled one leaves.
    """
    classes = pieces.character_classes()
    if tokenizer_json.get("normalizer"):  # changes no ASCII
        classes = np.where(np.arange(len(classes)) < 0x80, classes, pieces.UNKNOWN)
    rules = pieces.PieceRules(classes, *_RULES[find_pattern(tokenizer_json) or GPT2])
    merges = read_merges(tokenizer_json["model"])
    known = partial(kernels.encode_spans, rules, merges, first_bytes(tokenizer_json))
    return completed(known, encode_plainly)


def is_known(tokenizer_json: Part) -> bool:
    """Whether a tokenizer to which `choose_unit_rule` has no objection can be compiled."""
    model, alphabet = tokenizer_json["model"], byte_alphabet()
    normalizer = tokenizer_json.get("normalizer")
    steps = list_steps(tokenizer_json, "pre_tokenizer")
    return (
        find_pattern(tokenizer_json) in _RULES
        and (normalizer is None or normalizer["type"] in {"NFC", "NFKC"})
        and not any(step.get("add_prefix_space") for step in steps)
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
        and model["vocab"].keys() >= alphabet.keys()
        and len(model["merges"]) < kernels.MOST_MERGES
        and (not model.get("ignore_merges") or _merges_make_every_token(tokenizer_json))
    )


def read_merges(model: Part) -> kernels.Merges:
    """Read the tables of a BPE model of a tokenizer.json."""
    vocabulary = model["vocab"]
    byte_ids = np.array([vocabulary[character] for character in byte_alphabet()], np.int32)
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ids = np.array(
        [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs],
        np.uint64,
    ).reshape(-1, 3)
    ranks = np.arange(len(ids), dtype=np.uint64)
    keys, values = ids[:, 0] << HALF | ids[:, 1], ranks << HALF | ids[:, 2]
    return kernels.Merges(byte_ids, make_table(keys, values))


def _merges_make_every_token(tokenizer_json: Part) -> bool:
    """Whether the bytes of each token of the vocabulary are merged to that token.

    Then it makes no difference whether a piece that is a token is looked up as a whole.
    """
    alphabet, merges = byte_alphabet(), read_merges(tokenizer_json["model"])
    added = {token["content"] for token in added_tokens(tokenizer_json)}
    tokens = {
        token: number
        for token, number in tokenizer_json["model"]["vocab"].items()
        if 0 < len(token) <= kernels.LONGEST_PIECE
        and alphabet.keys() >= set(token)
        and token not in added
    }
    text = np.array([alphabet[character] for token in tokens for character in token], np.uint8)
    ends = np.cumsum([0, *map(len, tokens)])
    return bool(np.array_equal(kernels.merge_tokens(merges, text, ends), [*tokens.values()]))
