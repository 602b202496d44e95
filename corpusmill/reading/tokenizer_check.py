"""Whether a tokenizer is the one of the data: each token of the data has its id in it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from corpusmill.dataset.manifest import MANIFEST, TOKENIZER, Manifest
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.reading.cache.unpacking import damaged
from corpusmill.tokenization.special_tokens import ROLES, SpecialTokens


class Vocabulary(Protocol):
    """What a tokenizer is known by, as those of `transformers` and `tokenizers` say it."""

    def get_vocab(self) -> dict[str, int]:
        """Each token's id, added tokens included."""


def check_tokenizer(folder: Folder, manifest: Manifest, tokenizer: str | Path | Vocabulary) -> None:
    """Refuse a tokenizer that gives tokens other ids than the data's.

    Args:
        folder: of the data set.
        manifest: its manifest.
        tokenizer: a tokenizer.json, a folder that has one, or a tokenizer of `transformers` or
            `tokenizers`. It may have further tokens.

    Raises:
        UserError: it is none, or another one.
    """
    if isinstance(tokenizer, str | Path):
        value, content = f"tokenizer={tokenizer}", _read_tokenizer(Path(tokenizer))
        if hashlib.sha256(content).hexdigest() == manifest.tokenizer.sha256:
            return
        given = _vocabulary_of(content, value)
    else:
        value = f"tokenizer={type(tokenizer).__name__}"
        if not hasattr(tokenizer, "get_vocab"):
            cause = "it has no get_vocab(), by which tokenizers are compared"
            raise UserError(value, cause, "Give a tokenizer of transformers, or a tokenizer.json")
        given = tokenizer.get_vocab()
    difference = _compare(_read_own_vocabulary(folder, manifest), given)
    difference = difference or _compare_special(manifest.tokenizer.special, tokenizer)
    if difference:
        cause = f"the data was made with another tokenizer: {difference}"
        raise UserError(value, cause, f"Give the {TOKENIZER} of {folder.url}")


def _read_tokenizer(path: Path) -> bytes:
    try:
        return (path / TOKENIZER if path.is_dir() else path).read_bytes()
    except OSError as error:
        cause = f"it cannot be read ({error.strerror})"
        raise UserError(f"tokenizer={path}", cause, f"Give a {TOKENIZER}") from None


def _read_own_vocabulary(folder: Folder, manifest: Manifest) -> dict[str, int]:
    try:
        content = folder.read(TOKENIZER)
    except OSError as error:
        raise damaged(folder, TOKENIZER, f"it cannot be read ({error})") from None
    if hashlib.sha256(content).hexdigest() != manifest.tokenizer.sha256:
        raise damaged(folder, TOKENIZER, f"its bytes are not those that {MANIFEST} vouches for")
    return _vocabulary_of(content, f"{folder.url}/{TOKENIZER}")


def _vocabulary_of(content: bytes, value: str) -> dict[str, int]:
    from tokenizers import Tokenizer  # noqa: PLC0415  takes a while, and few need it

    try:
        found: dict[str, int] = Tokenizer.from_str(content.decode()).get_vocab()
    except Exception as error:  # the library raises plain Exception
        cause = f"it is no {TOKENIZER} ({error})"
        raise UserError(value, cause, f"Give the {TOKENIZER} of the data set") from None
    return found


def _compare(own: Mapping[str, int], given: Mapping[str, int]) -> str:
    """How two vocabularies differ, as a clause; empty where each token of `own` has its id."""
    for token, number in sorted(own.items(), key=lambda item: item[1]):
        if given.get(token) != number:
            there = f"is {given[token]} in it" if token in given else "is not in it"
            return f"{token!r}, which is {number} in the data, {there}"
    return ""


def _compare_special(special: SpecialTokens, tokenizer: object) -> str:
    for role in ROLES:
        own, given = getattr(special, f"{role}_id"), getattr(tokenizer, f"{role}_token_id", None)
        if own is not None and given is not None and own != given:
            return f"its {role}_token_id is {given}, the data's {own}"
    return ""
