"""tiktoken's encodings as tokenizer.json.

As the TikTokenConverter of the transformers library: for each token, every split of it into two
known tokens is a merge, in the order of the tokens' ranks. tiktoken itself is the reference.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from corpusmill.tokenization.compiled.byte_level_patterns import CL100K, GPT2, O200K
from corpusmill.tokenization.sources.source import Encode, Source, TokenizerOptions, refuse

PREFIX = "tiktoken:"
ENCODING, FILE = "encoding of the tiktoken library", "tiktoken file"

_END_OF_TEXT = "<|endoftext|>"
_INSTALL = "Install it: pip install 'corpusmill[tokenizers]'"

# The same patterns as the tiktoken library writes them, by how they begin and how they go on.
_WRITTEN = {
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""": GPT2,
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": GPT2,
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s""": CL100K,
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s+""": CL100K,
}


class _Known(NamedTuple):
    """A published encoding: its pattern, its largest rank and its end of text."""

    pattern: str
    largest: int
    end_of_text: int


_KNOWN = {
    "gpt2": _Known(GPT2, 50255, 50256),
    "r50k": _Known(GPT2, 50255, 50256),
    "p50k": _Known(GPT2, 50280, 50256),
    "cl100k": _Known(CL100K, 100255, 100257),
    "o200k": _Known(O200K, 199997, 199999),
}


def from_encoding(path: str, options: TokenizerOptions) -> Source:
    """An encoding that the tiktoken library knows, by its name or the name of a model.

    Args:
        path: such as tiktoken:gpt2, tiktoken:cl100k_base or tiktoken:gpt-4.
        options: none of those that are about other kinds.

    Raises:
        UserError: the library is not installed, knows no such name, or cannot download it.
    """
    options.refuse_inapplicable(path, ENCODING)
    tiktoken = _import_tiktoken(path)
    name = path.removeprefix(PREFIX)
    known = tiktoken.list_encoding_names()
    if name not in known:
        try:
            name = tiktoken.encoding_name_for_model(name)
        except KeyError:
            cure = f"Give one of {', '.join(known)}, or the name of an OpenAI model"
            refuse(path, f"the tiktoken library knows no encoding or model {name!r}", cure)
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # whatever its transport raises
        cause = f"the tiktoken library cannot get it ({type(error).__name__}: {error})"
        cure = "Set TIKTOKEN_CACHE_DIR to a folder that holds it, or give its .tiktoken file"
        refuse(path, cause, cure)
    return _convert(path, ENCODING, encoding, options)


def is_tiktoken(content: bytes) -> bool:
    """Whether a file's first line is a token in base64 and its rank."""
    return re.match(rb"[A-Za-z0-9+/]+=* \d+\r?\n", content[:4096]) is not None


def from_tiktoken_file(
    path: str, content: bytes, config: Mapping[str, Any], options: TokenizerOptions
) -> Source:
    """A tiktoken file: a token in base64 and its rank, a line each.

    Its special tokens are those in the tokenizer_config.json beside it. Without one, it has
    <|endoftext|>, with the id that the published encoding has, or the first that is free.

    Args:
        path: the file.
        content: its bytes.
        config: the parsed tokenizer_config.json beside it.
        options: with the pattern, where the file's name does not tell it.

    Raises:
        UserError: it is none, its pattern is not known, or the tiktoken library is not installed.
    """
    options.refuse_inapplicable(path, FILE, "tiktoken_pattern")
    tiktoken = _import_tiktoken(path)
    ranks = _read_ranks(path, content)
    name = options.tiktoken_pattern or _guess_pattern(path)
    known = _KNOWN.get(name)
    special = {
        token["content"]: int(token_id)
        for token_id, token in (config.get("added_tokens_decoder") or {}).items()
    }
    if not special:
        taken = set(ranks.values())
        largest = max(taken)
        free = next(number for number in range(largest + 2) if number not in taken)
        special = {_END_OF_TEXT: known.end_of_text if known and known.largest == largest else free}
    pattern = known.pattern if known else name
    try:
        encoding = tiktoken.Encoding(
            path, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
        )
    except Exception as error:  # the library raises nothing narrower
        cure = "Give gpt2, r50k, p50k, cl100k, o200k or a regular expression"
        refuse(path, f"the tiktoken library cannot use it with {name!r} ({error})", cure)
    return _convert(path, FILE, encoding, replace(options, tiktoken_pattern=name))


def _import_tiktoken(path: str) -> ModuleType:
    try:
        import tiktoken  # noqa: PLC0415  optional
    except ImportError:
        refuse(path, "it needs the tiktoken library, which is not installed", _INSTALL)
    return tiktoken


def _guess_pattern(path: str) -> str:
    name = PurePosixPath(path).name
    for known in _KNOWN:
        if name.startswith(known):
            return known
    return refuse(
        path,
        "a tiktoken file does not say how text is broken into pieces, nor does this one's name",
        "Give --tiktoken-pattern gpt2, r50k, p50k, cl100k, o200k or a regular expression",
    )


def _read_ranks(path: str, content: bytes) -> dict[bytes, int]:
    ranks = {}
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token)] = int(rank)  # as tiktoken: = is empty
            except (ValueError, binascii.Error):
                refuse(path, f"line {number} is no token in base64 and its rank")
    missing = sum(bytes([byte]) not in ranks for byte in range(256))
    if missing:
        refuse(path, f"it lacks {missing} of the 256 single bytes, so it is no tiktoken encoding")
    if len(set(ranks.values())) < len(ranks):
        refuse(path, "several of its tokens have the same rank")
    return ranks


def _convert(path: str, form: str, encoding: Any, options: TokenizerOptions) -> Source:
    ranks, special = encoding._mergeable_ranks, encoding._special_tokens
    names = _bytes_to_characters()
    vocabulary = {_spell(token, names): rank for token, rank in ranks.items() if token}
    shared = (vocabulary.keys() & special) | (set(vocabulary.values()) & set(special.values()))
    if shared:
        refuse(path, f"its special tokens and its other tokens share {min(map(str, shared))}")
    # Special tokens stand in the vocabulary, too, as in GPT-2's: their ids may leave gaps.
    model = models.BPE(vocabulary | special, _merges(vocabulary), ignore_merges=True)
    tokenizer = Tokenizer(model)
    pattern = _WRITTEN.get(encoding._pat_str, encoding._pat_str)
    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:  # the library raises nothing narrower
        refuse(path, f"the tokenizers library cannot use its pattern {pattern!r} ({error})")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(
        [
            AddedToken(name, normalized=False, special=True)
            for name in sorted(special, key=special.__getitem__)
        ]
    )
    reference = _reference(encoding, options.special_tokens_in_text)
    return Source(form, tokenizer, options, reference=reference)


def _reference(encoding: Any, special_tokens_in_text: bool) -> Encode:
    allowed: Any = "all" if special_tokens_in_text else set()

    def encode(texts: list[str]) -> list[list[int]]:
        return [
            encoding.encode(text, allowed_special=allowed, disallowed_special=()) for text in texts
        ]

    return encode


def _merges(ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """For ranks of a, b and ab: [(a, b)], all splits in the order of the tokens' ranks."""
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = [
            (ranks[token[:place]], ranks[token[place:]], place)
            for place in range(1, len(token))
            if token[:place] in ranks and token[place:] in ranks
        ]
        merges += [(token[:place], token[place:]) for _, _, place in sorted(splits)]
    return merges


def _spell(token: bytes, names: list[str]) -> str:
    return "".join(map(names.__getitem__, token))


def _bytes_to_characters() -> list[str]:
    """The character of each byte: itself where it is printable, else one from U+0100 on (GPT-2)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
