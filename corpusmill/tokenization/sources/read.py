"""Tokenizers from what a user names: files of every kind, folders, names."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from tokenizers import Tokenizer

from corpusmill.arrays.columns import smallest_integer
from corpusmill.errors import UserError
from corpusmill.tokenization.sources.hub import COMPANIONS, MAIN_FILES, fetch_tokenizer, is_hub_name
from corpusmill.tokenization.sources.sentencepiece import from_sentencepiece
from corpusmill.tokenization.sources.source import (
    Encode,
    ReadBytes,
    Source,
    TokenizerOptions,
    refuse,
)
from corpusmill.tokenization.sources.tiktoken import (
    PREFIX,
    from_encoding,
    from_tiktoken_file,
    is_tiktoken,
)
from corpusmill.tokenization.sources.vocabulary import from_vocab_json, from_vocab_txt
from corpusmill.tokenization.special_tokens import SpecialTokens, find_special_tokens

TOKENIZER_JSON = "tokenizer.json"


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer, ready to be sent to workers.

    Attributes:
        name: as the user gave it.
        json: a complete tokenizer.json, without padding, truncation and dropout.
        vocab_size: largest id + 1, added tokens included.
        special: the special tokens.
        digest: hexadecimal sha256 of `json`.
        form: what the file is, in words.
        options: those it was read with, with what was guessed filled in.
        revision: the commit on the hub; None for a file.
        reference: texts to their ids by the library that the file was made for; None where that is
            the tokenizers library itself. It stays in the process that read the file.
    """

    name: str
    json: str
    vocab_size: int
    special: SpecialTokens
    digest: str
    form: str = TOKENIZER_JSON
    options: TokenizerOptions = field(default_factory=TokenizerOptions)
    revision: str | None = None
    reference: Encode | None = field(default=None, compare=False, repr=False)

    @property
    def token_dtype(self) -> np.dtype:
        """The smallest of int16, uint16 and int32 that holds every id."""
        return smallest_integer(max(self.vocab_size - 1, np.iinfo(np.int16).max))


def read_tokenizer(
    path: str, read_bytes: ReadBytes, options: TokenizerOptions | None = None
) -> TokenizerFile:
    """Read a tokenizer of any kind.

    Args:
        path: a tokenizer.json, a BERT vocab.txt, a vocab.json with a merges.txt beside it, a
            tiktoken or SentencePiece file, a folder with one of them; tiktoken:NAME; or, where
            there is no such file, a name on the Hugging Face hub.
        read_bytes: gives the bytes of a path, or None where there is no such file.
        options: for those kinds that do not say all by themselves.

    Raises:
        UserError: no such file, or none that is a tokenizer, or options that it does not have.
    """
    options = options or TokenizerOptions()
    revision = None
    if path.startswith(PREFIX):
        source = from_encoding(path, options)
    else:
        found, content = _find(path, read_bytes)
        if content is None and is_hub_name(path) and not Path(path).exists():
            on_hub = fetch_tokenizer(path)
            revision, read_bytes = on_hub.revision, _read_local
            found, content = _find(on_hub.folder, read_bytes)
        if content is None:
            folder = Path(path).is_dir()
            cause = "it is a folder without a tokenizer" if folder else "there is no such file"
            refuse(path, cause if folder else f"{cause}, or it cannot be read")
        source = _read(path, found, content, read_bytes, options)
    return _complete(path, source, revision)


def _read_local(path: str) -> bytes | None:
    file = Path(path)
    return file.read_bytes() if file.is_file() else None


def _find(path: str, read_bytes: ReadBytes) -> tuple[str, bytes | None]:
    """The file that a path names, or the best in the folder, and what it holds."""
    with suppress(IsADirectoryError):
        content = read_bytes(path)
        if content is not None:
            return path, content
    for name in MAIN_FILES:
        inside = f"{path.rstrip('/')}/{name}"
        content = read_bytes(inside)
        if content is not None:
            return inside, content
    return path, None


def _read(
    path: str, found: str, content: bytes, read_bytes: ReadBytes, options: TokenizerOptions
) -> Source:
    if not content.strip():
        refuse(path, "the file is empty")
    if found.endswith("merges.txt"):
        found = f"{found.removesuffix('merges.txt')}vocab.json"
        content = read_bytes(found) or refuse(path, f"there is no {found} beside it")
    companions = _read_companions(found, read_bytes)
    if found.endswith(".txt"):
        source = from_vocab_txt(path, content, companions, options)
    elif found.endswith(".tiktoken") or is_tiktoken(content):
        config = companions.get("tokenizer_config.json", {})
        source = from_tiktoken_file(path, content, config, options)
    elif found.endswith(".model"):
        source = from_sentencepiece(path, content, options)
    else:
        source = _read_json(path, found, content, read_bytes, companions, options)
    return replace(source, companions=companions)


def _read_companions(path: str, read_bytes: ReadBytes) -> dict[str, dict[str, Any]]:
    folder = path.rsplit("/", 1)[0] + "/" if "/" in path else ""
    companions = {}
    for name in COMPANIONS:
        content = read_bytes(folder + name)
        if content:
            try:
                parsed = json.loads(content)
            except ValueError as error:
                raise UserError(
                    f"{folder}{name}",
                    f"it stands beside the tokenizer but is not JSON ({error})",
                    "Mend or remove it",
                ) from None
            companions[name] = parsed if isinstance(parsed, dict) else {}
    return companions


def _read_json(
    path: str,
    found: str,
    content: bytes,
    read_bytes: ReadBytes,
    companions: Mapping[str, Mapping[str, Any]],
    options: TokenizerOptions,
) -> Source:
    try:
        parsed = json.loads(content)
    except ValueError as error:
        refuse(path, f"it is not JSON ({error})")
    if isinstance(parsed, dict) and isinstance(parsed.get("model"), dict):
        options.refuse_inapplicable(path, TOKENIZER_JSON)
        try:
            return Source(
                TOKENIZER_JSON, Tokenizer.from_str(orjson.dumps(parsed).decode()), options
            )
        except Exception as error:  # the library raises nothing narrower
            refuse(path, f"the tokenizers library cannot read it ({error})")
    tokens = isinstance(parsed, dict) and all(isinstance(of, int) for of in parsed.values())
    if not parsed or not tokens or not found.endswith("vocab.json"):
        refuse(path, "it is JSON, but describes no tokenizer")
    merges_path = f"{found.removesuffix('vocab.json')}merges.txt"
    merges = read_bytes(merges_path)
    if merges is None:
        refuse(path, f"it is a vocabulary, but there is no {merges_path} beside it")
    return from_vocab_json(path, parsed, merges, companions, options)


def _complete(path: str, source: Source, revision: str | None) -> TokenizerFile:
    vocabulary = source.tokenizer.get_vocab(with_added_tokens=True)
    _check_ids(path, vocabulary)
    described: dict[str, Any] = orjson.loads(source.tokenizer.to_str())
    _check_unknown(path, described["model"])
    special = find_special_tokens(described, source.companions)
    described["padding"] = described["truncation"] = None
    if described["model"].get("dropout"):
        # It draws from a global generator: the same input would not give the same ids.
        described["model"]["dropout"] = None
    text = json.dumps(described, ensure_ascii=False)
    return TokenizerFile(
        path,
        text,
        max(vocabulary.values()) + 1,
        special,
        hashlib.sha256(text.encode()).hexdigest(),
        source.form,
        source.options,
        revision,
        source.reference,
    )


def _check_ids(path: str, vocabulary: Mapping[str, int]) -> None:
    if not vocabulary:
        refuse(path, "its vocabulary is empty")
    # The library writes a tokenizer in time linear in the largest id: half a minute for these.
    if max(vocabulary.values()) > np.iinfo(np.int32).max:
        refuse(path, "its largest id does not fit into 32 bits with a sign")


def _check_unknown(path: str, model: Mapping[str, Any]) -> None:
    if model["type"] in {"WordPiece", "WordLevel"} and model["unk_token"] not in model["vocab"]:
        # Otherwise found out only when the first unknown word is met.
        refuse(
            path,
            f"its vocabulary lacks the token for unknown words, {model['unk_token']!r}",
            "Add the token to the vocabulary, or name the right one as the model's unk_token",
        )
