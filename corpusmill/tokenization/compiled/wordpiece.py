"""BERT's WordPiece tokenizer compiled from its tokenizer.json.

The tokenizer's own normalizer and pre-tokenizer are asked what they do with each character of the
scripts that are written with spaces; a text with another character, or perhaps an added token, is
left to the tokenizer itself.
"""

from functools import partial

import numpy as np
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled import wordpiece_kernels as kernels
from corpusmill.tokenization.compiled.spans import EncodeSpans, completed, first_bytes
from corpusmill.tokenization.tokenizer_json import Part, added_tokens

# Nearly all scripts that have spaces between words lie below this code point.
_CODES = 0x3000


def compile_wordpiece(
    tokenizer_json: Part, tokenizer: Tokenizer, encode_plainly: EncodeSpans
) -> EncodeSpans:
    """Compile a tokenizer.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        tokenizer: the same, loaded.
        encode_plainly: the same, for stretches that the compiled one leaves.
    """
    characters, pieces = read_characters(tokenizer), read_pieces(tokenizer_json["model"])
    known = partial(kernels.encode_spans, characters, pieces, first_bytes(tokenizer_json))
    return completed(known, encode_plainly)


def is_known(tokenizer_json: Part) -> bool:
    """Whether a tokenizer to which `choose_unit_rule` has no objection can be compiled."""
    model = tokenizer_json["model"]
    return (
        (tokenizer_json.get("normalizer") or {}).get("type") == "BertNormalizer"
        and (tokenizer_json.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and model["type"] == "WordPiece"
        and bool(model["continuing_subword_prefix"])
        and not any(token["normalized"] for token in added_tokens(tokenizer_json))
    )


def read_characters(tokenizer: Tokenizer) -> kernels.Characters:
    """Find out what a tokenizer turns each character into.

    Args:
        tokenizer: with BERT's normalizer and pre-tokenizer. The normalizer maps characters one by
            one: it also decomposes them and reorders combining marks, but drops all that it moved.
    """
    codes = range(_CODES)
    normalized = [tokenizer.normalizer.normalize_str(chr(code)) for code in codes]
    classes = _classify(tokenizer, sorted(set("".join(normalized))))
    encoded = [
        b"".join(
            bytes([len(character.encode()), classes[character]]) + character.encode()
            for character in text
        )
        for text in normalized
    ]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    growth = max(
        -(-len(text.encode()) // len(chr(code).encode())) for code, text in enumerate(normalized)
    )
    return kernels.Characters(ends, np.frombuffer(b"".join(encoded), np.uint8), growth)


def _classify(tokenizer: Tokenizer, characters: list[str]) -> dict[str, int]:
    """Find the class of each character by how the pre-tokenizer breaks it from adjacent letters."""
    text = "".join(f"a{character}" for character in characters) + "a"
    classes = np.full(len(text), kernels.BLANK)
    for _, (start, end) in tokenizer.pre_tokenizer.pre_tokenize_str(text):
        classes[start:end] = kernels.IN_WORD if end - start > 1 else kernels.PUNCTUATION
    return dict(zip(characters, classes[1::2].tolist(), strict=True))


def read_pieces(model: Part) -> kernels.Pieces:
    """Read the trees of a WordPiece model of a tokenizer.json."""
    prefix, vocabulary = model["continuing_subword_prefix"], model["vocab"]
    tokens = [(token, False, number) for token, number in vocabulary.items() if token]
    tokens += [
        (token.removeprefix(prefix), True, number)
        for token, number in vocabulary.items()
        if token.startswith(prefix) and token != prefix
    ]
    encoded = [token.encode() for token, _, _ in tokens]
    edges, token_of_node = kernels.plant_tokens(
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([0, *map(len, encoded)]),
        np.array([is_inner for _, is_inner, _ in tokens]),
        np.array([number for *_, number in tokens], np.int32),
    )
    unknown = vocabulary[model["unk_token"]]
    return kernels.Pieces(edges, token_of_node, unknown, model["max_input_chars_per_word"])
