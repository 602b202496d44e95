"""Whether a tokenizer fits the data: it must give each token of the data the same id."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from corpusmill.dataset.manifest import TOKENIZER, Manifest
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.dataset.storage import Folder, refuse_special
from corpusmill.errors import UserError, catch_panics
from corpusmill.tokenization.special_tokens import ROLES, SpecialTokens


class Vocabulary(Protocol):
    """A tokenizer of `transformers` or `tokenizers`, as far as it is compared."""

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token, including added tokens."""


def check_tokenizer(folder: Folder, manifest: Manifest, tokenizer: str | Path | Vocabulary) -> None:
    """Refuse a tokenizer that gives tokens other ids than those of the data.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        tokenizer: a tokenizer.json, a folder with one, or a tokenizer of `transformers` or
            `tokenizers`. It may have further tokens.

    Raises:
        UserError: it is not a tokenizer, or does not fit the data.
    """
    if isinstance(tokenizer, str | Path):
        value, content = f"tokenizer={tokenizer}", _read_tokenizer(Path(tokenizer))
        if hashlib.sha256(content).hexdigest() == manifest.tokenizer.sha256:
            return
        vocabulary = _decode_vocabulary(content, value)
    else:
        value = f"tokenizer={type(tokenizer).__name__}"
        if not hasattr(tokenizer, "get_vocab"):
            cause = "it has no get_vocab(), which is needed for comparing tokenizers"
            raise UserError(value, cause, "Give a tokenizer of transformers, or a tokenizer.json")
        vocabulary = tokenizer.get_vocab()
    own = read_tokenizer(folder, manifest).encode()
    difference = _compare(_decode_vocabulary(own, f"{folder.url}/{TOKENIZER}"), vocabulary)
    difference = difference or _compare_special(manifest.tokenizer.special, tokenizer)
    if difference:
        cause = f"the data was built with another tokenizer: {difference}"
        raise UserError(value, cause, f"Give the {TOKENIZER} of {folder.url}")


def _read_tokenizer(path: Path) -> bytes:
    file = path / TOKENIZER if path.is_dir() else path
    try:
        refuse_special(file)
        return file.read_bytes()
    except OSError as error:
        cause = f"it cannot be read ({error.strerror})"
        raise UserError(f"tokenizer={path}", cause, f"Give a {TOKENIZER}") from None


def _decode_vocabulary(content: bytes, value: str) -> dict[str, int]:
    from tokenizers import Tokenizer  # noqa: PLC0415  slow to import, and rarely needed

    try:
        with catch_panics("the tokenizers library"):
            vocabulary: dict[str, int] = Tokenizer.from_str(content.decode()).get_vocab()
    except Exception as error:  # the library raises plain Exception
        cause = f"it is not a {TOKENIZER} ({error})"
        raise UserError(value, cause, f"Give the {TOKENIZER} of the data set") from None
    return vocabulary


def _compare(expected: Mapping[str, int], vocabulary: Mapping[str, int]) -> str:
    """Return a clause on the first token with another id; empty if all ids are as expected."""
    for token, number in sorted(expected.items(), key=lambda item: item[1]):
        if vocabulary.get(token) != number:
            other = f"is {vocabulary[token]} in it" if token in vocabulary else "is not in it"
            return f"{token!r}, which is {number} in the data, {other}"
    return ""


def _compare_special(special: SpecialTokens, tokenizer: object) -> str:
    for role in ROLES:
        name = f"{role}_token_id"
        expected, number = getattr(special, f"{role}_id"), getattr(tokenizer, name, None)
        if expected is not None and number is not None and expected != number:
            return f"its {name} is {number}, that of the data is {expected}"
    return ""
