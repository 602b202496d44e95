"""A byte-level BPE tokenizer compiled from its tokenizer.json.

Only tokenizers whose steps are all known are compiled; a text with a character of unknown class, or
perhaps an added token, is left to the tokenizer itself. Text is never normalized here.
"""

from functools import partial

import numpy as np

from corpusmill.tokenization.compiled import byte_level_kernels as kernels
from corpusmill.tokenization.compiled import byte_level_pieces as pieces
from corpusmill.tokenization.compiled.byte_level_characters import (
    begin_with_characters,
    byte_tokens,
    join_tokens,
    read_pairs,
)
from corpusmill.tokenization.compiled.byte_level_patterns import CL100K, GPT2, QWEN2, byte_alphabet
from corpusmill.tokenization.compiled.byte_level_tokens import (
    LONGEST_TOKEN,
    WholeTokens,
    collect_tokens,
)
from corpusmill.tokenization.compiled.exactness import find_pattern
from corpusmill.tokenization.compiled.pair_table import MOST_PAIRS, hash_pairs
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
    model = tokenizer_json["model"]
    merges = read_merges(model)
    tokens = find_whole_tokens(merges, model)
    merges = begin_with_characters(merges, model)
    known = partial(kernels.encode_spans, rules, merges, tokens, first_bytes(tokenizer_json))
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
        and len(model["merges"]) + len(alphabet) < MOST_PAIRS
        and (not model.get("ignore_merges") or _merges_make_every_token(tokenizer_json))
    )


def read_merges(model: Part) -> kernels.Merges:
    """Read the tables of a BPE model of a tokenizer.json, to begin with bytes."""
    vocabulary = model["vocab"]
    byte_ids = np.array([vocabulary[character] for character in byte_alphabet()], np.int32)
    joined = read_pairs(model)
    none = np.empty(0, np.int32)
    return kernels.Merges(byte_ids, none, none, hash_pairs(joined), joined)


def find_whole_tokens(merges: kernels.Merges, model: Part) -> WholeTokens:
    """Find the tokens that are found by their bytes.

    Args:
        merges: the tables of a model, to begin with bytes.
        model: the BPE model of a tokenizer.json.
    """
    text, ends = join_tokens(byte_tokens(model, LONGEST_TOKEN).values())
    merged, _ = kernels.merge_tokens(merges, text, ends)
    padded = np.append(text, np.zeros(LONGEST_TOKEN, np.uint8))
    tokens: WholeTokens = collect_tokens(padded, ends, merged)
    return tokens


def _merges_make_every_token(tokenizer_json: Part) -> bool:
    """Whether the bytes of each token of the vocabulary are merged to that token.

    Then it makes no difference whether a piece that is a token is looked up as a whole.
    """
    model = tokenizer_json["model"]
    added = {token["content"] for token in added_tokens(tokenizer_json)}
    tokens = {
        name: token
        for name, token in byte_tokens(model, kernels.LONGEST_PIECE).items()
        if name not in added
    }
    merged, _ = kernels.merge_tokens(read_merges(model), *join_tokens(tokens.values()))
    return bool(np.array_equal(merged, [model["vocab"][name] for name in tokens]))
