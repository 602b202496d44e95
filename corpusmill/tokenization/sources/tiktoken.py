"""tiktoken's encodings as tokenizer.json.

Like the TikTokenConverter of the transformers library: for each token, every split of it into two
known tokens is a merge, in the order of the tokens' ranks. tiktoken itself is the reference.
"""

import base64
import binascii
from dataclasses import replace
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from corpusmill.errors import option, suggest
from corpusmill.hub import describe_error
from corpusmill.tokenization.compiled.byte_level_pieces import CL100K, GPT2, O200K, byte_alphabet
from corpusmill.tokenization.sources.source import INSTALL, Source, SourceFile, list_merges
from corpusmill.tokenization.tokenizer_file import PATTERN_CHOICES, TokenizerOptions

PREFIX = "tiktoken:"
ENCODING, FILE = "encoding of the tiktoken library", "tiktoken file"

_END_OF_TEXT = "<|endoftext|>"

# How the tiktoken library writes the same patterns, in its older and newer versions.
_WRITTEN = {
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""": GPT2,
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": GPT2,
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s""": CL100K,
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s+""": CL100K,
}


class _Published(NamedTuple):
    """A published encoding: its pattern, its largest rank and its end of text."""

    pattern: str
    largest: int
    end_of_text: int


_PUBLISHED = {
    "gpt2": _Published(GPT2, 50255, 50256),
    "r50k": _Published(GPT2, 50255, 50256),
    "p50k": _Published(GPT2, 50280, 50256),
    "cl100k": _Published(CL100K, 100255, 100257),
    "o200k": _Published(O200K, 199997, 199999),
}


def from_encoding(file: SourceFile) -> Source:
    """Convert an encoding of the tiktoken library, by its name or the name of a model.

    Args:
        file: a file in name only, such as tiktoken:gpt2, tiktoken:cl100k_base or tiktoken:gpt-4.

    Raises:
        UserError: the library is not installed, does not know the name, or cannot download it.
    """
    tiktoken = _import_tiktoken(file)
    name = file.name.removeprefix(PREFIX)
    known = tiktoken.list_encoding_names()
    if name not in known:
        try:
            name = tiktoken.encoding_name_for_model(name)
        except KeyError:
            cure = f"{suggest(name, known)}Give one of {', '.join(known)}, or the name of a model"
            cause = f"the tiktoken library does not know an encoding or model {name!r}"
            file.refuse(cause, cure)
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # whatever its transport raises
        cause = f"the tiktoken library cannot get it ({describe_error(error)})"
        cure = "Set TIKTOKEN_CACHE_DIR to a folder that holds it, or give its .tiktoken file"
        file.refuse(cause, cure)
    return _convert(file, ENCODING, encoding, file.options)


def from_tiktoken_file(file: SourceFile) -> Source:
    """Convert a tiktoken file: a token in base64 and its rank, a line each.

    Its special tokens are those in the tokenizer_config.json beside it. Without one, it has
    <|endoftext|>, with the id that the published encoding has, or the first free one.

    Args:
        file: the tiktoken file.

    Raises:
        UserError: it is not one, its pattern is not known, or the tiktoken library is missing.
    """
    tiktoken = _import_tiktoken(file)
    ranks = _read_ranks(file)
    file_name = PurePosixPath(file.name).name
    guesses = (one for one in _PUBLISHED if file_name.startswith(one))
    name = file.options.tiktoken_pattern or next(guesses, "")
    if not name:
        cause = "neither a tiktoken file nor this one's name says how text is broken into pieces"
        file.refuse(cause, f"Give {option('tiktoken_pattern', PATTERN_CHOICES)}")
    published = _PUBLISHED.get(name)
    special = {
        token["content"]: int(token_id)
        for token_id, token in (file.config.get("added_tokens_decoder") or {}).items()
    }
    if not special:
        used = set(ranks.values())
        largest = max(used)
        end = next(number for number in range(largest + 2) if number not in used)
        if published and published.largest == largest:
            end = published.end_of_text
        special = {_END_OF_TEXT: end}
    pattern = published.pattern if published else name
    try:
        encoding = tiktoken.Encoding(
            file.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
        )
    except Exception as error:  # the library raises nothing narrower
        cause = f"the tiktoken library cannot use it with {name!r} ({error})"
        file.refuse(cause, f"Give {PATTERN_CHOICES}")
    return _convert(file, FILE, encoding, replace(file.options, tiktoken_pattern=name))


def _import_tiktoken(file: SourceFile) -> ModuleType:
    try:
        import tiktoken  # noqa: PLC0415  optional
    except ImportError:
        file.refuse("it needs the tiktoken library, which is not installed", INSTALL)
    return tiktoken


def _read_ranks(file: SourceFile) -> dict[bytes, int]:
    ranks = {}
    for number, line in enumerate(file.content.splitlines(), 1):
        if line.strip():
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token)] = int(rank)  # like tiktoken: = is empty
            except (ValueError, binascii.Error):
                file.refuse(f"line {number} is not a token in base64 and its rank")
    missing = sum(bytes([byte]) not in ranks for byte in range(256))
    if missing:
        cause = f"it lacks {missing} of the 256 single bytes, so it is not a tiktoken encoding"
        file.refuse(cause)
    if len(set(ranks.values())) < len(ranks):
        file.refuse("several of its tokens have the same rank")
    return ranks


def _convert(file: SourceFile, form: str, encoding: Any, options: TokenizerOptions) -> Source:
    ranks, special = encoding._mergeable_ranks, encoding._special_tokens
    characters = list(byte_alphabet())
    vocabulary = {
        "".join(map(characters.__getitem__, token)): rank for token, rank in ranks.items() if token
    }
    shared = (vocabulary.keys() & special) | (set(vocabulary.values()) & set(special.values()))
    if shared:
        file.refuse(f"its special tokens and its other tokens share {min(map(str, shared))}")
    # Like GPT-2's, the vocabulary holds the special tokens, too: their ids may leave gaps.
    merges = list_merges(vocabulary, sort_splits=True)
    tokenizer = Tokenizer(models.BPE(vocabulary | special, merges, ignore_merges=True))
    pattern = _WRITTEN.get(encoding._pat_str, encoding._pat_str)
    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:  # the library raises nothing narrower
        file.refuse(f"the tokenizers library cannot use its pattern {pattern!r} ({error})")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(sorted(special, key=special.__getitem__))
    allowed: Any = "all" if options.special_tokens_in_text else set()

    def encode(texts: list[str]) -> list[list[int]]:
        return [
            encoding.encode(text, allowed_special=allowed, disallowed_special=()) for text in texts
        ]

    return Source(form, tokenizer, options, encode)
