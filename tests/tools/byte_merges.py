"""Byte-level BPE tokenizers made of merges of bytes."""

from tokenizers import Tokenizer, models, pre_tokenizers

from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet

_NAMES = {byte: character for character, byte in byte_alphabet().items()}


def token_name(token: bytes) -> str:
    """The name of a token in the vocabulary."""
    return "".join(_NAMES[byte] for byte in token)


def make_tokenizer(merges: list[tuple[bytes, bytes]]) -> Tokenizer:
    """A tokenizer whose vocabulary is all bytes, and then the tokens of merges in their order."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    vocabulary = {token_name(token): number for number, token in enumerate(dict.fromkeys(tokens))}
    pairs = [(token_name(left), token_name(right)) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer
