"""BERT's WordPiece without the tokenizer: from its tokenizer.json, compiled.

What becomes of a character is asked of the tokenizer's own normalizer and pre-tokenizer, one by
one, for those of the scripts that are written with spaces; a text with another one, or maybe with
an added token, goes to the tokenizer itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled import wordpiece_kernels as kernels
from corpusmill.tokenization.compiled.byte_level_bpe import fill_in
from corpusmill.tokenization.compiled.word_memo import EncodeSpans

# Up to here and not far beyond lie the scripts that have spaces between words.
_CODES = 0x3000


class WordPieceEncoder:
    """The ids of stretches of text.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        tokenizer: the same, loaded.
        encode_plainly: the same, for stretches of which the ids are not known.
    """

    def __init__(
        self, tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer, encode_plainly: EncodeSpans
    ) -> None:
        self._plainly = encode_plainly
        self._characters, self._growth = read_characters(tokenizer)
        self._pieces = read_pieces(tokenizer_json["model"])
        added = tokenizer_json.get("added_tokens") or ()
        self._token_starts = np.zeros(256, np.bool_)
        self._token_starts[[token["content"].encode()[0] for token in added]] = True

    def encode(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `corpusmill.tokenization.compiled.byte_level_bpe.ByteLevelEncoder.encode`."""
        ids, ends, left = kernels.encode_spans(
            self._characters, self._pieces, self._growth, self._token_starts, text, spans
        )
        return fill_in(ids, ends, left, self._plainly, text, spans)


def is_known(tokenizer_json: Mapping[str, Any]) -> bool:
    """Whether a tokenizer may be compiled, of those that `choose_unit_rule` has no objection to."""
    model = tokenizer_json["model"]
    return (
        (tokenizer_json.get("normalizer") or {}).get("type") == "BertNormalizer"
        and (tokenizer_json.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and model["type"] == "WordPiece"
        and bool(model["continuing_subword_prefix"])
        and not any(token["normalized"] for token in tokenizer_json.get("added_tokens") or ())
    )


def read_characters(tokenizer: Tokenizer) -> tuple[kernels.Characters, int]:
    """What a tokenizer makes of each character, and of how many bytes it makes of one at most.

    Args:
        tokenizer: with BERT's normalizer and pre-tokenizer. The first maps characters one by one:
            it decomposes them, too, and orders combining marks anew, but drops all that it moved.
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
    return kernels.Characters(ends, np.frombuffer(b"".join(encoded), np.uint8)), growth


def _classify(tokenizer: Tokenizer, characters: list[str]) -> dict[str, int]:
    """The class of each character, by how the pre-tokenizer breaks it from letters beside it."""
    text = "".join(f"a{character}" for character in characters) + "a"
    covered = np.full(len(text), kernels.BLANK)
    for _, (start, end) in tokenizer.pre_tokenizer.pre_tokenize_str(text):
        covered[start:end] = kernels.IN_WORD if end - start > 1 else kernels.PUNCTUATION
    return dict(zip(characters, covered[1::2].tolist(), strict=True))


def read_pieces(model: Mapping[str, Any]) -> kernels.Pieces:
    """The trees of a WordPiece model.

    Args:
        model: of a tokenizer.json.
    """
    prefix, vocabulary = model["continuing_subword_prefix"], model["vocab"]
    tokens = [(token, False, number) for token, number in vocabulary.items() if token]
    tokens += [
        (token.removeprefix(prefix), True, number)
        for token, number in vocabulary.items()
        if token.startswith(prefix) and token != prefix
    ]
    encoded = [token.encode() for token, _, _ in tokens]
    edges, ends_of = kernels.plant_tokens(
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([0, *map(len, encoded)]),
        np.array([inner for _, inner, _ in tokens]),
        np.array([number for *_, number in tokens], np.int32),
    )
    unknown = vocabulary[model["unk_token"]]
    return kernels.Pieces(edges, ends_of, unknown, model["max_input_chars_per_word"])
