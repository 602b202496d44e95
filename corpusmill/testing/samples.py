"""A small corpus and a tokenizer for it, so that a test needs no files."""

import json
from collections.abc import Iterator

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace

from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TOKENIZER_JSON, TokenizerFile

_WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "was",
    "is",
    "for",
    "on",
    "with",
    "as",
    "by",
    "at",
    "from",
    "that",
    "his",
    "her",
    "had",
    "were",
    "be",
    "which",
    "this",
    "an",
    "or",
    "river",
    "town",
    "keeper",
    "lamp",
    "storm",
    "harbour",
    "winter",
    "letter",
    "captain",
    "island",
    "bread",
    "window",
    "garden",
    "road",
    "walked",
    "carried",
    "remembered",
    "opened",
    "answered",
    "lighted",
    "waited",
    "counted",
    "crossed",
    "mended",
]
# As in a language, a few words are frequent.
_SHARES = 1 / np.arange(1, len(_WORDS) + 1) / np.sum(1 / np.arange(1, len(_WORDS) + 1))
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")
# Words that the vocabulary spells in two tokens.
_CUT = {word: (word[:4], f"##{word[4:]}") for word in _WORDS if len(word) > 6}


def small_text(documents: int = 60, seed: int = 0) -> bytes:
    r"""Return a corpus of random words, which every rule of documents and sentences can read.

    Args:
        documents: how many there are: a title of the first level, then one to twelve lines.
        seed: of the words.

    Example:
        b" = river = \n\nthe lamp was waited .\nkeeper of winter .\n\n = town = ...".
    """
    generator = np.random.default_rng(seed)
    return "".join(_write_document(number, generator) for number in range(documents)).encode()


def _write_document(number: int, generator: np.random.Generator) -> str:
    lengths = generator.integers(2, 20, generator.integers(1, 13))
    lines = [" ".join([*generator.choice(_WORDS, length, p=_SHARES), "."]) for length in lengths]
    return "\n".join([f" = {_WORDS[number % len(_WORDS)]} = ", "", *lines, "", ""])


def small_tokenizer(*special_tokens: str) -> TokenizerFile:
    """Return a WordPiece tokenizer for `small_text`, with BERT's special tokens and GPT's.

    Args:
        special_tokens: further special tokens, such as "<|fim_prefix|>".
    """
    special = [*_SPECIAL_TOKENS, *special_tokens]
    vocabulary = {piece: number for number, piece in enumerate([*special, *_pieces()])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=_SPECIAL_TOKENS[1]))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.add_special_tokens(special)
    content = json.dumps(json.loads(tokenizer.to_str())).encode()
    return read_tokenizer(TOKENIZER_JSON, {TOKENIZER_JSON: content}.get)


def _pieces() -> Iterator[str]:
    pieces = dict.fromkeys([".", "="])
    for word in _WORDS:
        pieces |= dict.fromkeys(_CUT.get(word, (word,)))
    yield from pieces
